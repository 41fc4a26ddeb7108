"""A real engine, asked by real commands: an afternoon with `sterna`, from `up` to `down`, and what goes wrong in it."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import psutil
import pytest
import yaml

from sterna.interfaces.api.engine_home import read_endpoint, read_token
from sterna.interfaces.client import Client
from tests.interfaces.service.engines import engine
from tests.interfaces.service.serving import COMMAND, eventually, manifest, sterna

pytestmark = pytest.mark.slow

SLOWLY_S = 60.0
TICKS = "import time, itertools\nfor n in itertools.count():\n    print('tick', n)\n    time.sleep(0.1)"
TWENTY = TICKS.replace("itertools.count()", "range(20)")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    chosen = tmp_path_factory.mktemp("home")
    with engine(chosen):
        yield chosen


def done(home, *arguments: str, stdin: str | None = None) -> str:
    outcome = sterna(home, *arguments, stdin=stdin)
    assert outcome.returncode == 0, (arguments, outcome.stdout, outcome.stderr)
    return outcome.stdout


def refused(home, code: int, *arguments: str, stdin: str | None = None) -> str:
    outcome = sterna(home, *arguments, stdin=stdin)
    assert outcome.returncode == code, (arguments, outcome.returncode, outcome.stdout, outcome.stderr)
    assert "Traceback" not in outcome.stdout + outcome.stderr
    return outcome.stderr


def test_the_start_says_what_is_enforced_and_what_is_not(home):
    said = (home / "up.log").read_text()
    assert "is up at http://127.0.0.1:" in said
    assert "node-1, node-2: virtual, each 2 GPUs" in said
    assert "enforced" in said


def test_voda_5_create_get_delete_against_a_live_engine(home):
    names = ["first", "second", "third"]
    text = "---\n".join(manifest(name) for name in names)
    assert done(home, "create", "-f", "-", stdin=text).splitlines()[:2] == [
        "job default/first created",
        "follow it with: sterna logs -f first",
    ]
    done(home, "wait", *names, "--for", "running", "--timeout", "60s")
    head, *rows = done(home, "get", "jobs").splitlines()
    assert head.split() == ["NAME", "STATUS", "WORKERS", "SCHEDULER", "WAITING", "RUNNING", "TOTAL"]
    assert [row.split()[:4] for row in rows] == [[name, "Running", "1", "elastic-fifo"] for name in names]
    assert done(home, "delete", *names).splitlines() == [f"job default/{name} deleted" for name in names]
    done(home, "wait", *names, "--for", "deleted", "--timeout", "60s")
    assert done(home, "get", "jobs", "-o", "name") == ""


def test_an_afternoon(home):
    done(home, "submit", "-f", "-", stdin=manifest("walk", least=1, most=1, script=TICKS))
    done(home, "wait", "walk", "--for", "running", "--timeout", "60s")
    assert eventually(lambda: "tick 3" in done(home, "logs", "walk"), within_s=SLOWLY_S)
    assert done(home, "logs", "walk", "--tail", "1").startswith("tick ")
    assert "walk" in done(home, "top")
    assert "Running" in done(home, "explain", "walk")
    assert "walk-worker-0-" in done(home, "describe", "walk")
    record = yaml.safe_load(done(home, "get", "job", "walk", "-o", "yaml"))
    assert (record["phase"], record["workers"]["current"]) == ("Running", 1)
    assert "may have 2 to 2 workers" in done(home, "scale", "walk", "--workers", "2")
    client = Client(str(home))
    assert eventually(lambda: client.job("walk")["workers"]["current"] == 2, within_s=SLOWLY_S)
    assert eventually(lambda: "[walk-worker-1-" in done(home, "logs", "walk"), within_s=SLOWLY_S)
    done(home, "suspend", "walk")
    done(home, "wait", "walk", "--for", "suspended", "--timeout", "60s")
    assert eventually(lambda: not any(node["workers"] for node in client.nodes()), within_s=SLOWLY_S)
    done(home, "resume", "walk")
    done(home, "wait", "walk", "--for", "running", "--timeout", "60s")
    assert {"Submitted", "Suspended", "Resumed"} <= {
        event["reason"] for event in json.loads(done(home, "events", "walk", "-o", "json"))
    }
    done(home, "delete", "walk")
    done(home, "wait", "walk", "--for", "deleted", "--timeout", "60s")


def test_a_job_is_waited_for_and_its_end_is_the_exit_code(home):
    good, bad = manifest("good", script="print('fine')"), manifest("bad", script="raise SystemExit('no good')")
    assert "job default/good succeeded" in done(home, "submit", "--wait", "--timeout", "60s", "-f", "-", stdin=good)
    assert done(home, "logs", "good", "-f") == "fine\n"
    assert "default/bad failed" in refused(home, 1, "submit", "--wait", "--timeout", "60s", "-f", "-", stdin=bad)
    assert done(home, "logs", "bad") == "no good\n"
    done(home, "delete", "good", "bad")


def test_following_a_log_ends_with_the_job(home):
    done(home, "submit", "-f", "-", stdin=manifest("short", script=TWENTY))
    assert done(home, "logs", "-f", "short").splitlines() == [f"tick {n}" for n in range(20)]
    done(home, "delete", "short")


def test_a_drained_node_is_left_and_the_log_goes_on_elsewhere(home, tmp_path):
    done(home, "submit", "-f", "-", stdin=manifest("mover", script=TICKS))
    done(home, "wait", "mover", "--for", "running", "--timeout", "60s")
    log = tmp_path / "log"
    with log.open("w") as sink:
        follower = subprocess.Popen([*COMMAND, "logs", "-f", "mover", "--prefix", "--home", str(home)], stdout=sink)
    assert eventually(lambda: _speakers(log) == 1, within_s=SLOWLY_S)
    here = Client(str(home)).job("mover")["nodes"][0]
    assert "is empty" in done(home, "drain", here, "--wait", "--timeout", "60s")
    assert "Drained" in done(home, "get", "node", here)
    done(home, "uncordon", here)
    assert done(home, "get", "migrations").splitlines()[1].split()[1:3] == ["mover", here]
    assert eventually(lambda: _speakers(log) == 2, within_s=SLOWLY_S)
    done(home, "delete", "mover")
    assert follower.wait(SLOWLY_S) == 0


def _speakers(log: Path) -> int:
    """How many processes have their lines there."""
    return len({line.partition("]")[0] for line in log.read_text().splitlines() if " tick " in line})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(manifest("x").replace("min: 1", "min: many"), "spec.workers.min", id="a number that is none"),
        pytest.param(manifest("x").replace("workers:", "wrokers:"), "wrokers", id="a typo is named"),
        pytest.param(manifest("x").replace("kind: ElasticJob", "kind: Pod"), "kind", id="another kind"),
        pytest.param("nonsense: [", "", id="no YAML"),
        pytest.param(manifest("Not_A_Name"), "metadata.name", id="a name that is none"),
    ],
)
def test_a_bad_manifest_is_code_2_and_names_the_field(home, text, says):
    assert says in refused(home, 2, "submit", "-f", "-", stdin=text)


def test_not_found_is_3_and_time_up_is_4(home):
    assert "no job 'default/nope'" in refused(home, 3, "get", "job", "nope")
    done(home, "submit", "-f", "-", stdin=manifest("giant", least=64, most=64))
    assert "is not running after 0.5 s" in refused(home, 4, "wait", "giant", "--for", "running", "--timeout", "0.5s")
    assert "64" in done(home, "explain", "giant")
    done(home, "delete", "giant")


def raw(home, content: bytes) -> bytes:
    endpoint = read_endpoint(home)
    assert endpoint is not None
    with socket.create_connection((endpoint.host, endpoint.port), timeout=SLOWLY_S) as sock:
        sock.sendall(content)
        answer = b""
        while part := sock.recv(1 << 16):
            answer += part
            if b"\r\n\r\n" in answer:
                break
    return answer


def test_s3_a_wrong_token_a_huge_body_and_garbage_harm_nobody(home):
    head = b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    assert raw(home, head + b"Authorization: Bearer wrong\r\n\r\n").startswith(b"HTTP/1.1 401")
    assert b"application/problem+json" in raw(home, head + b"\r\n")
    token = read_token(home).encode()
    huge = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token
    assert raw(home, huge + b"\r\nContent-Length: 99999999999\r\n\r\n").startswith(b"HTTP/1.1 413")
    assert raw(home, b"\x00\xff garbage\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert done(home, "get", "nodes", "-o", "name").split() == ["node-1", "node-2"]
    assert token.decode() not in (home / "up.log").read_text()


def test_a_second_engine_in_the_same_home_is_refused(home):
    assert "already runs" in refused(home, 1, "up", "--nodes", "1")


def test_a_port_in_use_is_a_clear_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for more in ([], ["--detach"]):
            said = refused(tmp_path, 2, "up", "--port", port, *more)
            assert f"--port: {port} is not valid; expected a free port (address already in use)" in said
    assert read_endpoint(tmp_path) is None


def test_in_the_background_it_outlives_its_starter_and_stops_when_told(tmp_path):
    said = done(tmp_path, "up", "--detach", "--nodes", "1", "--gpus-per-node", "1", "--policy", "fifo")
    assert "sterna is up at http://127.0.0.1:" in said
    try:
        assert "fifo" in done(tmp_path, "policy", "get")
        done(tmp_path, "submit", "-f", "-", stdin=manifest("sleeper"))
        done(tmp_path, "wait", "sleeper", "--for", "running", "--timeout", "60s")
        pid = Client(str(tmp_path)).job("sleeper")["workerDetails"][0]["pid"]
    finally:
        assert "the engine has stopped" in done(tmp_path, "down")
    assert not os.path.exists(f"/proc/{pid}")
    assert "no engine is running" in refused(tmp_path, 1, "get", "jobs")
    assert "no engine is running" in done(tmp_path, "down")


def test_training_outlives_the_engine_and_is_found_again(tmp_path):
    """Killed, restarted: same process, same token, same log; whoever waits goes on waiting."""
    with engine(tmp_path, "--nodes", "1", "--gpus-per-node", "1", "--rate-limit", "0.1s") as first:
        done(tmp_path, "submit", "-f", "-", stdin=manifest("steady", script=TICKS))
        done(tmp_path, "wait", "steady", "--for", "running", "--timeout", "60s")
        pid, token = Client(str(tmp_path)).job("steady")["workerDetails"][0]["pid"], read_token(tmp_path)
        command = [*COMMAND, "wait", "steady", "--for", "suspended", "--timeout", "90s", "--home", str(tmp_path)]
        waiter = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert eventually(lambda: psutil.Process(waiter.pid).net_connections(), within_s=SLOWLY_S)
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert os.path.exists(f"/proc/{pid}")
    with engine(tmp_path, "--nodes", "1", "--gpus-per-node", "1", "--rate-limit", "0.1s"):
        assert read_token(tmp_path) == token
        job = Client(str(tmp_path)).job("steady")
        assert [worker["pid"] for worker in job["workerDetails"] if worker["exitCode"] is None] == [pid]
        done(tmp_path, "suspend", "steady")
        said, _ = waiter.communicate(timeout=SLOWLY_S)
        assert (waiter.returncode, said) == (0, "job default/steady is Suspended\n")
        done(tmp_path, "delete", "steady")
