"""The client: finds its engine, keeps its deadlines, and says plainly when nobody is there."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sterna.interfaces.api.engine_home import Endpoint, announce, own_token
from sterna.interfaces.client import Client
from sterna.model.errors import Conflict, EngineRefused, EngineUnavailable, InvalidRequest, NotFound
from tests.interfaces.service.serving import SOON_S, manifest, service


@pytest.fixture
def api(tmp_path):
    with service(tmp_path / "home") as running:
        yield running


def later(do: Callable[[], Any], after_s: float = 0.3) -> threading.Timer:
    thread = threading.Timer(after_s, do)
    thread.start()
    return thread


def test_without_an_engine_it_says_how_to_start_one(tmp_path):
    with pytest.raises(EngineUnavailable, match=r"no engine is running in .*: start one with `sterna up`"):
        Client(str(tmp_path)).jobs()


def test_an_engine_that_died_is_none_and_its_port_gets_no_token(tmp_path):
    died = subprocess.Popen([sys.executable, "-c", ""])
    died.wait()
    with socket.create_server(("127.0.0.1", 0)) as thief:
        thief.settimeout(0.2)
        announce(tmp_path, Endpoint("127.0.0.1", thief.getsockname()[1], died.pid))
        with pytest.raises(EngineUnavailable, match="no engine is running"):
            Client(str(tmp_path)).jobs()
        with pytest.raises(TimeoutError):
            thief.accept()


def test_an_engine_that_stopped_listening_is_none(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    announce(tmp_path, Endpoint("127.0.0.1", port, os.getpid()))
    with pytest.raises(EngineUnavailable, match="no engine is running"):
        Client(str(tmp_path)).jobs()


def answering(tmp_path: Path, answer: bytes | None) -> Client:
    """Somebody on the port who takes a request and sends this."""
    listener = socket.create_server(("127.0.0.1", 0))
    announce(tmp_path, Endpoint("127.0.0.1", listener.getsockname()[1], os.getpid()))

    def serve() -> None:
        with listener, listener.accept()[0] as sock:
            sock.recv(1 << 16)
            if answer is None:
                sock.recv(1)  # until the client gives up
            else:
                sock.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return Client(str(tmp_path), deadline_s=0.5)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(None, "did not answer within 0.5 s", id="silence"),
        pytest.param(b"", "went away", id="a closed door"),
        pytest.param(b"hello\r\n\r\n", "went away", id="no HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[", "went away", id="half an answer"),
        pytest.param(b"HTTP/1.1 502 No\r\ncontent-length: 3\r\n\r\nyes", "answered 502", id="an error without words"),
    ],
)
def test_a_strange_answer_is_somebody_elses_trouble(tmp_path, answer, says):
    with pytest.raises(EngineUnavailable, match=says):
        answering(tmp_path, answer).jobs()


def test_a_wrong_token_is_told(api):
    (api.home / "token").write_text("wrong\n")
    with pytest.raises(EngineRefused, match="token"):
        api.client.jobs()


def test_errors_are_those_of_the_scheduler(api):
    with pytest.raises(NotFound, match="there is no job 'default/nope'") as missing:
        api.client.job("nope")
    assert missing.value.kind == "job"
    with pytest.raises(InvalidRequest) as wrong:
        api.client.submit("kind: Pod")
    assert (wrong.value.field, wrong.value.value) == ("kind", "Pod")
    api.client.submit(manifest("a"))
    with pytest.raises(Conflict, match="already"):
        api.client.submit(manifest("a"))


def test_names_with_strange_signs_stay_names(api):
    for name in ("a b", "a?b=c", "a#b", "ä", "%2e", "x" * 2000):
        with pytest.raises(NotFound) as caught:
            api.client.job(f"default/{name}")
        assert caught.value.name == f"default/{name}"


def test_a_manifest_beyond_all_measure_is_not_even_sent(api):
    with pytest.raises(InvalidRequest, match="1 MiB"):
        api.client.submit("x" * (2 << 20))


@pytest.mark.parametrize(
    ("until", "happens", "found"),
    [
        pytest.param("finished", lambda s: s.finish("default/a"), "Succeeded", id="finished"),
        pytest.param("finished", lambda s: s.finish("default/a", "Failed"), "Failed", id="finished, though it failed"),
        pytest.param("succeeded", lambda s: s.finish("default/a"), "Succeeded", id="succeeded"),
        pytest.param("suspended", lambda s: s.suspend("default/a"), "Suspended", id="suspended"),
        pytest.param("deleted", lambda s: s.delete("default/a"), None, id="deleted"),
    ],
)
def test_waiting_ends_when_it_is_so(api, until, happens, found):
    api.client.submit(manifest("a"))
    later(lambda: api.run(happens(api.scheduler)))
    job = api.client.wait("a", until=until, timeout_s=SOON_S)
    assert found == (None if job is None else job["phase"])


def test_waiting_ends_at_once_when_it_is_so_already(api):
    api.client.submit(manifest("a"))
    assert api.client.wait("a", until="running", timeout_s=0)["phase"] == "Running"
    assert api.client.wait("a", until="condition=created", timeout_s=0)["phase"] == "Running"


@pytest.mark.parametrize("until", ["succeeded", "running", "suspended", "condition=Resizing"])
def test_waiting_for_what_can_no_longer_be_is_given_up(api, until):
    api.client.submit(manifest("a"))
    api.run(api.scheduler.finish("default/a", "Failed", "out of memory"))
    with pytest.raises(Conflict, match=r"has failed and will never be .*: out of memory"):
        api.client.wait("a", until=until, timeout_s=SOON_S)


def test_waiting_too_long_says_what_it_is_instead(api):
    api.client.submit(manifest("a", least=64, most=64))
    with pytest.raises(TimeoutError, match=r"is not running after 0.4 s; it is Waiting: jobs ahead"):
        api.client.wait("a", until="running", timeout_s=0.4)


def test_waiting_for_an_unknown_state_lists_those_known(api):
    with pytest.raises(InvalidRequest, match="suspended, deleted, condition=NAME"):
        api.client.wait("a", until="happy")


def test_waiting_outlives_a_restart_of_the_engine(tmp_path):
    """The engine goes away and another one comes back on another port with the same jobs."""
    home = tmp_path / "home"
    with service(home) as first:
        client = first.client
        client.submit(manifest("a"))
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(client.wait("a", until="finished", timeout_s=SOON_S)))
        thread.start()
        thread.join(0.2)
    assert thread.is_alive()
    with service(home) as second:
        second.client.submit(manifest("a"))
        later(lambda: second.run(second.scheduler.finish("default/a")))
        thread.join(SOON_S)
    assert [job["phase"] for job in found] == ["Succeeded"]


def test_importing_the_client_loads_nothing_heavy():
    heavy = ("numpy", "scipy", "pydantic", "yaml", "rich", "starlette", "uvicorn", "asyncio", "http.client", "ssl")
    script = f"import sys, sterna.interfaces.client; print(*(name for name in {heavy} if name in sys.modules))"
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (outcome.stdout.strip(), outcome.stderr) == ("", "")


def test_the_token_is_in_no_log_and_no_url(api, caplog, capfd):
    caplog.set_level(0)
    api.client.jobs()
    api.ask("GET", "/nope")
    api.throw(f"GET /?{api.token}\r\n\r\n".encode())
    api.scheduler.breaks = RuntimeError("bug")
    api.ask("GET", "/v1/jobs")
    assert "request failed" in caplog.text
    token = own_token(api.home)
    assert token == api.token
    assert token not in caplog.text
    assert token not in "".join(capfd.readouterr())
    assert token not in json.dumps(api.ask("GET", "/v1/health")[1])
