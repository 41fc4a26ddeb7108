"""Hostile manifests and names against a running engine: refused with a reason, or taken and harmless.

What parsers alone do with them is `tests/wire/manifests/test_hostile.py`; here they come in by HTTP, and what counts is
the process: it lives, answers, grows by little, and writes nothing outside its home.
"""

import http.client
import json
import os
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from sterna.interfaces.api.engine_home import read_token
from sterna.interfaces.api.problem_details import INTERNAL
from sterna.model.errors import EngineRefused, InvalidRequest, NotFound
from tests.e2e.up import Up, running
from tests.wire.manifests.builders import elasticjob
from tests.wire.manifests.test_hostile import ours
from tests.wire.test_snapshot_limits import HOSTILE

GROWN_MIB_MAX = 96.0  # over the whole corpus: a body may have one MiB, and what it becomes while it is read 64


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    place = tmp_path_factory.mktemp("engine")
    with running(place / "home", "--nodes", "1", "--gpus-per-node", "1") as up:
        yield up


@pytest.fixture
def unharmed(engine):
    """Afterwards the same process answers, and has not grown much."""
    process = _process(engine)
    before = process.memory_info().rss
    yield
    assert _process(engine) == process
    assert engine.client.health()["ok"]
    assert (process.memory_info().rss - before) / 2**20 < GROWN_MIB_MAX


def _process(engine: Up) -> psutil.Process:
    return psutil.Process(engine.client.endpoint().pid)


@pytest.mark.parametrize("text", [*HOSTILE, *ours])
@pytest.mark.usefixtures("unharmed")
def test_r10_a_hostile_manifest_is_refused_by_a_running_engine(engine, text):
    with pytest.raises(InvalidRequest):
        engine.client.submit(text if isinstance(text, str) else text.decode("latin-1"), cwd=str(engine.home))
    assert engine.client.jobs() == []


NAMES = [
    pytest.param("../../escaped", id="a way out"),
    pytest.param("..", id="the folder above"),
    pytest.param("/etc/passwd", id="a path from the root"),
    pytest.param("a/b", id="a folder in between"),
    pytest.param("a\0b", id="a zero in it"),
    pytest.param("a\nb", id="two lines"),
    pytest.param("-rf", id="an option"),
    pytest.param("$(reboot)", id="a command"),
    pytest.param("%2e%2e%2f", id="a way out in other letters"),
    pytest.param("\u202egnp.exe", id="letters that turn round"),
    pytest.param("\ud800", id="half a letter"),
    pytest.param("a" * 64, id="one letter too many"),
    pytest.param("a" * 100_000, id="no end"),
    pytest.param("", id="no name"),
    pytest.param("CON", id="capitals"),
    pytest.param("\u00e4", id="a letter that names do not have"),
]


@pytest.mark.parametrize("field", ["name", "namespace"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("unharmed")
def test_r10_a_name_that_is_none_is_refused_and_names_its_field(engine, field, name):
    job = elasticjob()
    job["metadata"][field] = name
    with pytest.raises(InvalidRequest) as refused:
        engine.client.submit(json.dumps(job), cwd=str(engine.home))
    assert f"metadata.{field}" in str(refused.value)
    assert len(str(refused.value)) < 2000
    assert _files_beside(engine) == {"home", "home.log"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("unharmed")
def test_r10_a_name_that_is_none_finds_nothing_by_any_way_that_asks_for_one(engine, name):
    client = engine.client
    asked = [
        lambda: client.job(name),
        lambda: client.delete(name),
        lambda: client.suspend(name),
        lambda: client.scale(name, minimum=1, maximum=2),
        lambda: client.migrate(name, to=name),
        lambda: client.explain(name),
        lambda: client.drain(name),
        lambda: b"".join(client.logs(name)),
    ]
    for ask in asked:
        with pytest.raises((NotFound, InvalidRequest, EngineRefused)) as refused:
            ask()
        assert INTERNAL.detail not in str(refused.value)


@pytest.mark.parametrize("name", ["../../token", "..", "\0"])
@pytest.mark.parametrize("above", ["/v1/jobs/", "/v1/jobs/default/"])
@pytest.mark.usefixtures("unharmed")
def test_r10_a_path_that_leads_out_is_not_found(engine, above, name):
    """As it stands, without a client that mends it."""
    endpoint, token = engine.client.endpoint(), read_token(engine.home)
    line = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=60)
    line.request("GET", above + quote(name, safe=""), headers={"Authorization": f"Bearer {token}"})
    answer = line.getresponse()
    said = answer.read()
    line.close()
    assert 400 <= answer.status < 500
    assert token.encode() not in said


@pytest.mark.parametrize("cwd", ["", "relative", "/proc/self/environ", "/nowhere", "a\0b", "x" * 100_000])
@pytest.mark.usefixtures("unharmed")
def test_r10_a_folder_that_is_none_is_refused_or_fails_its_job_and_nothing_else(engine, cwd):
    name = "elsewhere"
    job = elasticjob(command=["true"])
    job["metadata"]["name"] = name
    try:
        engine.client.submit(json.dumps(job), cwd=cwd)
    except InvalidRequest:
        return
    assert engine.finished(name)[0]["phase"] in ("Failed", "Succeeded")
    engine.client.delete(name)
    engine.until(lambda: engine.client.jobs() == [], "it is gone")


def _files_beside(engine: Up) -> set[str]:
    return set(os.listdir(Path(engine.home).parent))
