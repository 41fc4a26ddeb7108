"""The trail of an operator's writes: what counts, for which job, and that nothing is missed while the log grows."""

import json
from pathlib import Path

import pytest

from tests.storm.audit_trail import AuditTrail


def line(verb: str = "patch", resource: str = "pods", name: str = "a-1", *, user: str = "us", s: int = 0) -> str:
    event = {
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": resource, "namespace": "ns", "name": name},
        "responseStatus": {"code": 201 if verb == "create" else 200},
        "requestReceivedTimestamp": f"2026-01-01T00:{s // 60:02}:{s % 60:02}.000000Z",
    }
    return json.dumps(event) + "\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    found = tmp_path / "audit.log"
    found.write_text(line())
    return found


def appended(log: Path, text: str) -> None:
    with log.open("a") as out:
        out.write(text)


@pytest.mark.parametrize(
    ("name", "job"),
    [
        pytest.param("a-1", ("ns", "a-1"), id="the job itself"),
        pytest.param("a-1-worker-0", ("ns", "a-1"), id="a pod of it"),
        pytest.param("a-12.0123456789abcdef", ("ns", "a-12"), id="an event of it"),
        pytest.param("a-1-config", ("ns", "a-1"), id="its host list"),
        pytest.param("sterna-memory", ("", ""), id="nothing of any job"),
    ],
)
def test_whose_write_it_is(log: Path, name: str, job: tuple[str, str]):
    trail = AuditTrail(log, "us")
    appended(log, line(name=name))
    assert [write.job for write in trail.read()] == [job]


def test_reads_leases_and_others_do_not_count_nor_what_was_before(log: Path):
    trail = AuditTrail(log, "us")
    appended(log, line("get") + line("update", "leases") + line(user="them"))
    assert trail.read() == []


def test_a_line_that_is_half_written_is_read_when_it_is_whole(log: Path):
    trail = AuditTrail(log, "us")
    appended(log, line()[:40])
    assert trail.read() == []
    appended(log, line()[40:] + line())
    assert len(trail.read()) == len(trail.writes) == 2


def test_a_log_that_was_put_aside_is_read_to_its_end_and_then_the_new_one(log: Path):
    trail = AuditTrail(log, "us")
    appended(log, line(name="a-1"))
    log.rename(log.with_name("audit-old.log"))
    log.write_text(line(name="b-2"))
    assert [write.name for write in trail.read()] == ["a-1", "b-2"]


def test_minutes_count_what_was_written_and_the_pods_that_were_made(log: Path):
    trail = AuditTrail(log, "us")
    appended(log, "".join(line("create", s=s) for s in (0, 30, 60, 61)))
    trail.read()
    assert list(trail.minutes()) == [(("ns", "a-1"), count, count) for count in (1, 2, 3, 3)]
