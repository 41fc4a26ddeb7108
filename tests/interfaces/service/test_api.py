"""The door on loopback: who may come in, what is answered, and that no request can hurt the engine."""

import json
import os
import socket
import stat
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.interfaces.api.engine_home import Endpoint, announce, own_token, read_endpoint, read_token, state_home
from sterna.interfaces.api.loopback_listener import listening
from sterna.interfaces.api.problem_details import error_of, problem_of
from sterna.model.errors import Conflict, EngineRefused, EngineUnavailable, InvalidRequest, InvariantBroken, NotFound
from tests.interfaces.service.fake import Broken
from tests.interfaces.service.serving import Service, eventually, manifest, service

TRIES = int(os.environ.get("STERNA_SEEDS", "40"))


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    with service(tmp_path_factory.mktemp("home")) as running:
        yield running


def problem(answer: tuple[int, Any, dict[str, str]]) -> tuple[int, Any]:
    status, record, headers = answer
    assert headers["content-type"] == "application/problem+json"
    assert record["status"] == status
    assert {"type", "title", "detail"} <= record.keys()
    assert "Traceback" not in json.dumps(record)
    return status, record


def submit(api: Service, name: str, **more: Any) -> Any:
    return api.ask("POST", "/v1/jobs", json.dumps({"manifest": manifest(name, **more), "cwd": "/"}).encode())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"authorization": ""}, 401, id="without a token"),
        pytest.param({"authorization": "Bearer wrong"}, 401, id="with another token"),
        pytest.param({"authorization": "Basic dXNlcjpwYXNz"}, 401, id="with a password"),
        pytest.param({"authorization": "Bearer"}, 401, id="with half a header"),
        pytest.param({"authorization": "Bearer \xff"}, 401, id="with a token that is no text"),
        pytest.param({"host": "evil.example"}, 421, id="for another host, as by DNS rebinding"),
        pytest.param({"host": "127.0.0.1.evil.example:80"}, 421, id="for a host that only begins like ours"),
        pytest.param({"host": "localhost:99"}, 200, id="for localhost, whatever the port"),
        pytest.param({"host": "[::1]:99"}, 200, id="for loopback by its other name"),
    ],
)
def test_s3_who_may_come_in(api, headers, status):
    answer = api.ask("GET", "/v1/jobs", **headers)
    if status != 200:
        problem(answer)
    assert answer[0] == status
    assert ("www-authenticate" in answer[2]) is (status == 401)


def test_s3_the_token_is_taken_from_the_header_only(api):
    assert api.ask("GET", f"/v1/jobs?token={api.token}", authorization="")[0] == 401


def test_s3_whoever_has_no_token_learns_only_that_somebody_is_there(api):
    status, record, _ = api.ask("GET", "/healthz", authorization="")
    assert (status, set(record)) == (200, {"ok", "version"})
    assert api.ask("GET", "/healthz", authorization="", host="evil.example")[0] == 421


def test_s3_home_and_token_are_the_owners_alone(api):
    assert stat.S_IMODE(api.home.stat().st_mode) == 0o700
    assert stat.S_IMODE((api.home / "token").stat().st_mode) == 0o600
    assert len(api.token) >= 32


def test_s3_a_token_that_others_could_read_is_replaced(tmp_path):
    first = own_token(tmp_path)
    assert own_token(tmp_path) == first
    (tmp_path / "token").chmod(0o644)
    assert own_token(tmp_path) != first
    assert own_token(tmp_path) == read_token(tmp_path)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        pytest.param("GET", "/nope", None, 404, "nothing at this path", id="an unknown path"),
        pytest.param("GET", "/v1/jobs/default", None, 404, "nothing at this path", id="half a path"),
        pytest.param("PATCH", "/v1/jobs", None, 405, "method", id="a method that is not offered"),
        pytest.param("GET", "/v1/jobs/default/nope", None, 404, "no job 'default/nope'", id="an unknown job"),
        pytest.param("GET", "/v1/jobs/%2e%2e/%2e%2e", None, 404, "", id="a path that wants out"),
        pytest.param("DELETE", "/v1/jobs/default/nope", None, 404, "nope", id="deleting an unknown job"),
        pytest.param("GET", "/v1/jobs/default/nope/logs", None, 404, "nope", id="the log of an unknown job"),
        pytest.param("GET", "/v1/jobs/default/nope/logs?follow=1", None, 404, "nope", id="following an unknown job"),
        pytest.param("POST", "/v1/nodes/nope/drain", None, 404, "node 'nope'", id="an unknown node"),
        pytest.param("POST", "/v1/jobs", b"{", 400, "no JSON", id="half a body"),
        pytest.param("POST", "/v1/jobs", b"\xff\xfe", 400, "no JSON", id="bytes that are no text"),
        pytest.param("POST", "/v1/jobs", b"[" * 100_000, 400, "no JSON", id="a body that is too deep"),
        pytest.param("POST", "/v1/jobs", b"1" * 10_000, 400, "no JSON", id="a number without end"),
        pytest.param("POST", "/v1/jobs", b"[]", 422, "JSON object", id="a list"),
        pytest.param("POST", "/v1/jobs", b"", 422, "manifest", id="nothing at all"),
        pytest.param("POST", "/v1/jobs", b'{"manifest": 1}', 422, "manifest: 1", id="a number for text"),
        pytest.param("POST", "/v1/jobs", b'{"manifesto": ""}', 422, "manifesto", id="an unknown field is named"),
        pytest.param("POST", "/v1/jobs", b'{"manifest": "", "cwd": "/"}', 422, "manifest", id="an empty manifest"),
        pytest.param("PUT", "/v1/policy", b'{"policy": "nope"}', 422, "fifo", id="an unknown policy lists those known"),
        pytest.param("PUT", "/v1/policy", b'{"settings": {"a": []}}', 422, "settings.a", id="a setting that is a list"),
        pytest.param("GET", "/v1/events?after=-1", None, 422, "after", id="a negative number"),
        pytest.param("GET", "/v1/events?after=" + "9" * 400, None, 422, "after", id="an endless number"),
        pytest.param("GET", "/v1/events?limit=0", None, 422, "limit", id="no events at all"),
        pytest.param("GET", "/v1/changed?timeout=9999", None, 422, "timeout", id="a poll without end"),
        pytest.param("GET", "/v1/jobs/default/x/logs?follow=maybe", None, 422, "follow", id="neither yes nor no"),
    ],
)
def test_every_error_is_a_problem_that_says_why(api, method, path, body, status, says):
    found, record = problem(api.ask(method, path, body))
    assert found == status
    assert says in record["detail"]
    assert api.ask("GET", "/v1/jobs")[0] == 200


def test_a_wrong_method_is_told_which_there_are(api):
    assert set(api.ask("PATCH", "/v1/policy")[2]["allow"].split(", ")) >= {"GET", "PUT"}


@pytest.mark.parametrize(
    "length",
    [
        pytest.param(str(3 << 20), id="said in advance"),
        pytest.param(None, id="sent in pieces without saying"),
    ],
)
def test_a_body_beyond_all_measure_is_refused(api, length):
    body = b'{"manifest": "' + b"x" * (3 << 20) + b'"}'
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {api.token}\r\n"
    with socket.create_connection((api.endpoint.host, api.endpoint.port), timeout=20) as sock:
        if length:
            sock.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
        else:
            pieces = [body[at : at + 60_000] for at in range(0, len(body), 60_000)]
            sock.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            try:
                for piece in pieces:
                    sock.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            except ConnectionError:
                pass  # it need not hear it all to say no
        answer = sock.recv(1 << 16)
    assert b"413" in answer.split(b"\r\n")[0]
    assert b"application/problem+json" in answer
    assert api.ask("GET", "/v1/jobs")[0] == 200


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"hello\r\n\r\n", id="no HTTP"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="a TLS greeting"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="no host"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n", id="two hosts"),
        pytest.param(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", id="an endless path"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", id="an endless header"
        ),
        pytest.param(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", id="a false length"),
    ],
)
def test_what_is_no_request_is_refused_and_harms_nobody(api, content):
    answer = api.throw(content)
    assert answer.startswith(b"HTTP/1.1 4")
    assert b"application/problem+json" in answer
    assert api.ask("GET", "/v1/jobs")[0] == 200


@settings(max_examples=TRIES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    path=st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#?"), max_size=40),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "BREW"]),
    body=st.one_of(st.none(), st.binary(max_size=200), st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["manifest", "cwd", "min", "policy"]), inner),
    ).map(lambda value: json.dumps(value).encode())),
)  # fmt: skip
def test_no_request_is_answered_by_a_crash(api, path, method, body):
    for target in (f"/{path}", f"/v1/jobs/default/{path}", "/v1/jobs", "/v1/policy", "/v1/jobs/a/b/scale"):
        status, *_ = api.ask(method, target.replace(" ", ""), body)
        assert status in (200, 201, 400, 404, 405, 422)


@settings(max_examples=TRIES, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=st.binary(min_size=1, max_size=300))
def test_no_garbage_takes_the_engine_down(api, content):
    api.throw(content)
    assert api.ask("GET", "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("error", "status"),
    [
        pytest.param(RuntimeError("the secret of the engine"), 500, id="a bug"),
        pytest.param(InvariantBroken("the secret of the engine"), 500, id="a broken promise"),
        pytest.param(Broken("the secret of the engine"), 500, id="an error nobody expects"),
        pytest.param(EngineUnavailable("busy", retry_after_s=2), 503, id="trouble that passes"),
        pytest.param(EngineRefused("no"), 409, id="a final no"),
    ],
)
def test_a_failing_scheduler_is_told_without_its_inside(api, error, status, caplog):
    api.scheduler.breaks = error
    try:
        found, record = problem(api.ask("GET", "/v1/jobs"))
    finally:
        api.scheduler.breaks = None
    assert found == status
    assert "secret" not in json.dumps(record)
    assert api.ask("GET", "/v1/jobs")[0] == 200


def test_an_engine_that_is_busy_says_when_to_come_back(api):
    api.scheduler.breaks = EngineUnavailable("busy", retry_after_s=2)
    try:
        assert api.ask("GET", "/v1/jobs")[2]["retry-after"] == "2"
    finally:
        api.scheduler.breaks = None


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest(field="spec.workers", value=0, expected="1 or more"),
        InvalidRequest(field="x", value="y" * 10_000, expected="less"),
        InvalidRequest(field="x", value=1 << 80, expected="less"),
        NotFound("job", "default/a", hint="`sterna get jobs` lists them"),
        Conflict("there is one already"),
        EngineRefused("no"),
        EngineUnavailable("busy", retry_after_s=2.0),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_arrives_as_it_was_raised(error):
    said = problem_of(error)
    again = error_of(said.status, json.loads(json.dumps(said.record)))
    assert type(again) is type(error)
    assert str(again) == str(error)
    for name in ("field", "expected", "kind", "name", "retry_after_s"):
        assert getattr(again, name, None) == getattr(error, name, None)


def test_a_change_wakes_whoever_waits_for_it(api):
    counter = api.ask("GET", "/v1/changed?timeout=0")[1]["counter"]
    heard = []
    thread = threading.Thread(
        target=lambda: heard.append(api.ask("GET", f"/v1/changed?after={counter}&timeout=20")[1]["counter"])
    )
    thread.start()
    submit(api, "waker")
    thread.join(20)
    assert heard == [counter + 1]


def test_nothing_new_is_said_when_time_is_up(api):
    counter = api.ask("GET", "/v1/changed?timeout=0")[1]["counter"]
    assert api.ask("GET", f"/v1/changed?after={counter}&timeout=0")[1]["counter"] == counter


def test_shutdown_is_passed_on_with_what_becomes_of_the_jobs(api):
    assert api.ask("POST", "/v1/shutdown", b'{"leaveJobs": true}')[0] == 202
    assert api.ask("POST", "/v1/shutdown")[0] == 202
    assert eventually(lambda: api.stops == [True, False])


def test_the_endpoint_is_announced_while_it_listens_and_withdrawn_after(tmp_path):
    with service(tmp_path) as running:
        assert read_endpoint(tmp_path) == Endpoint("127.0.0.1", running.endpoint.port, os.getpid())
    assert read_endpoint(tmp_path) is None
    assert not (tmp_path / "endpoint.json").exists()


def test_an_announcement_of_somebody_else_is_left_alone(tmp_path):
    with service(tmp_path):
        other = Endpoint("127.0.0.1", 9, os.getpid() + 1)
        announce(tmp_path, other)
    assert read_endpoint(tmp_path) == other


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"url": "http://evil.example:80", "pid": 1}', '{"url": "http://127.0.0.1:x", "pid": 1}',
     '{"url": "http://127.0.0.1:80", "pid": -1}', '{"url": null, "pid": 1}'],
)  # fmt: skip
def test_an_announcement_that_cannot_be_trusted_is_none(tmp_path, content):
    (tmp_path / "endpoint.json").write_text(content)
    assert read_endpoint(tmp_path) is None


def test_a_port_in_use_is_named():
    with listening(0) as taken:
        port = taken.getsockname()[1]
        taken.listen()
        with pytest.raises(InvalidRequest, match=f"--port: {port} is not valid.*in use"), listening(port):
            pass


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        pytest.param("/a", {"STERNA_HOME": "/b"}, "/a", id="what was asked for comes first"),
        pytest.param(None, {"STERNA_HOME": "/b", "XDG_STATE_HOME": "/c"}, "/b", id="then STERNA_HOME"),
        pytest.param(None, {"XDG_STATE_HOME": "/c"}, "/c/sterna", id="then the place for state"),
        pytest.param(None, {"HOME": "/d"}, "/d/.local/state/sterna", id="then the usual place"),
    ],
)
def test_where_the_home_is(given, environment, expected, monkeypatch):
    for name in ("STERNA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(state_home(given)) == expected
