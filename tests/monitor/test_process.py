"""`sterna monitor` as it runs: a process that is killed and started again, a scheduler that comes and goes, tokens that
are replaced, and nothing heavy in its memory."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sterna.httpd import CallFailed, call
from sterna.interfaces.cli.daemon_log import LogForm
from sterna.interfaces.cli.monitor_process import Wanted
from sterna.monitor import Pattern, Settings
from sterna.protocol.tokens import bearer, digest_of, job_token, node_token
from tests.httpd.wires import bounded
from tests.monitor.stage import SECRET, TOKEN, Scheduler, door, until
from tests.waiting import until_async

HEAVY = (
    "numpy",
    "scipy",
    "pydantic",
    "pydantic_core",
    "starlette",
    "uvicorn",
    "msgspec",
    "yaml",
    "psutil",
    "rich",
)
STERNA = Path(sys.executable).with_name("sterna")


class Process:
    def __init__(self, popen: subprocess.Popen[bytes], port: int) -> None:
        self.popen = popen
        self.port = port

    async def say(self, value: float, *, token: str = TOKEN, pod: str = "train-worker-0") -> int:
        body = json.dumps({"pod": pod, "value": value}).encode()
        url = f"http://127.0.0.1:{self.port}/monitor"
        return (await call("POST", url, body=body, headers={"Authorization": bearer(token)})).status

    def kill(self) -> None:
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()


@contextlib.contextmanager
def started(tmp_path: Path, scheduler_port: int, *more: str, port: int = 0, secret: str = SECRET) -> Iterator[Process]:
    token_file = tmp_path / "token"
    token_file.write_text(secret)
    command = [str(STERNA), "monitor", "--token-file", str(token_file), "--port", str(port), "--node", "node-1"]
    command += ["--health-port", "0"]
    command += ["--forward-every", "0.1", "--log-format", "json", *more]
    environment = {**os.environ, "SERVER_ENDPOINT": f"127.0.0.1:{scheduler_port}"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as popen:
        assert popen.stderr is not None
        try:
            first = popen.stderr.readline()
            assert b"monitor listens" in first, first + popen.stderr.read()
            threading.Thread(target=popen.stderr.read, daemon=True).start()
            yield Process(popen, json.loads(first)["port"])
        finally:
            popen.kill()


def test_a_monitor_that_is_killed_and_started_again_goes_on(tmp_path):
    async def scene() -> Scheduler:
        scheduler = Scheduler()
        async with door(scheduler) as scheduler_port:
            with started(tmp_path, scheduler_port) as process:
                assert [await process.say(value) for value in (0.1, 0.2)] == [200, 200]
                await until(lambda: len(scheduler.values()) == 2)
                process.kill()
                with pytest.raises(CallFailed):
                    await process.say(0.3)
            with started(tmp_path, scheduler_port, port=process.port) as again:
                assert await again.say(0.4) == 200
                await until(lambda: len(scheduler.values()) == 3)
        return scheduler

    scheduler = bounded(scene)
    assert scheduler.values() == [0.1, 0.2, 0.4]
    assert len({batch.monitor for batch in scheduler.batches}) == 2
    assert {batch.node for batch in scheduler.batches} == {"node-1"}


def test_a_scheduler_that_is_away_and_comes_back_anew_is_told_everything(tmp_path):
    async def scene() -> Scheduler:
        scheduler = Scheduler()
        async with door(scheduler) as scheduler_port:
            pass
        with started(tmp_path, scheduler_port) as process:
            assert await process.say(0.1) == 200  # nobody is there to hear it
            async with door(scheduler, scheduler_port):
                await until(lambda: scheduler.values() == [0.1])
            scheduler.start_anew("second")
            assert await process.say(0.2) == 200
            async with door(scheduler, scheduler_port):
                await until(lambda: scheduler.values() == [0.1, 0.2])
            assert process.popen.poll() is None
        return scheduler

    assert bounded(scene).instance == "second"


TRAINING = """
import itertools, sys, threading
from sterna import training
run = training.attach()
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
for number in itertools.count(1):
    run.report(accuracy=1 - 1 / number)
    if ended.wait(0.02):
        break
run.finish()
"""


def test_training_goes_on_while_its_monitor_is_killed_and_started_again(tmp_path):
    async def scene() -> list[float | None]:
        scheduler = Scheduler()
        async with door(scheduler) as scheduler_port:
            with started(tmp_path, scheduler_port) as process:
                environment = {
                    **os.environ,
                    "STERNA_MONITOR_URL": f"http://127.0.0.1:{process.port}",
                    "STERNA_MONITOR_TOKEN": TOKEN,
                    "STERNA_POD": "train-worker-0",
                }
                with subprocess.Popen(
                    [sys.executable, "-c", TRAINING], stdin=subprocess.PIPE, env=environment
                ) as trainer:
                    await until(lambda: len(scheduler.values()) >= 10)
                    process.kill()
                    before = len(scheduler.values())
                    with started(tmp_path, scheduler_port, port=process.port):
                        await until(lambda: len(scheduler.values()) >= before + 10)
                        assert trainer.stdin is not None
                        trainer.stdin.close()
                        await asyncio.to_thread(trainer.wait)
                        assert trainer.returncode == 0
                        return scheduler.values()

    said = bounded(scene)
    assert said == sorted(set(said), key=lambda value: value or 0.0)  # in the order they were made, and none twice


def test_being_told_to_stop_it_sends_what_is_left_and_ends_well(tmp_path):
    async def scene() -> tuple[Scheduler, int]:
        scheduler = Scheduler()
        async with door(scheduler) as scheduler_port:
            with started(tmp_path, scheduler_port, "--forward-every", "1h") as process:
                assert await process.say(0.5) == 200
                process.popen.terminate()
                await asyncio.to_thread(process.popen.wait)
                return scheduler, process.popen.returncode

    scheduler, code = bounded(scene)
    assert scheduler.values() == [0.5]
    assert code == 0


def test_a_replaced_secret_takes_effect_without_a_restart(tmp_path):
    replaced = "another-secret-altogether"
    token = job_token(replaced, namespace="team", job="train", uid="u1")

    async def scene() -> int:
        async with door(Scheduler()) as scheduler_port:
            with started(tmp_path, scheduler_port) as process:
                before = await process.say(0.1, token=token)
                (tmp_path / "token").write_text(f"{replaced}\n{SECRET}\n")

                async def is_heard() -> bool:
                    return await process.say(0.2, token=token) == 200

                await until_async(is_heard, "the new secret counts", every_s=0.1)
                return before

    assert bounded(scene) in (401, 503)


def test_s1_a_monitor_that_holds_no_secret_hears_jobs_the_scheduler_tells_it_of_and_nobody_else(tmp_path):
    """A node's token is all it has. It cannot check a job's token by itself, so it asks, and is told digests."""
    held = node_token(SECRET, node="node-1")
    elsewhere = job_token(SECRET, namespace="team", job="train", uid="u9")  # right, and of no job on this node

    async def scene() -> tuple[list[int], list[int], Scheduler]:
        scheduler = Scheduler()
        async with door(scheduler) as scheduler_port:
            with started(tmp_path, scheduler_port, secret=held) as process:
                said = [await process.say(0.1)]

                async def is_let_in() -> bool:
                    said.append(await process.say(0.2))
                    return said[-1] == 200

                await until_async(is_let_in, "the token is let in", every_s=0.05)
                await until(lambda: scheduler.values() == [0.2])
                refused = [await process.say(9.0, token=token) for token in (elsewhere, digest_of(TOKEN))]
                assert await process.say(0.3) == 200
                await until(lambda: scheduler.values()[-1] == 0.3)
                return said, refused, scheduler

    said, refused, scheduler = bounded(scene)
    assert set(said[:-1]) == {503}, "asked to send it again, and not refused for good"
    assert 200 not in refused
    assert scheduler.values() == [0.2, 0.3]


def test_its_memory_holds_nothing_heavy(tmp_path):
    async def scene() -> str:
        scheduler = Scheduler()
        async with door(scheduler) as scheduler_port:
            with started(tmp_path, scheduler_port) as process:
                assert await process.say(0.1) == 200
                await until(lambda: scheduler.values() == [0.1])
                return Path(f"/proc/{process.popen.pid}/maps").read_text()

    libraries = bounded(scene)
    assert "aiohttp" in libraries
    assert [name for name in HEAVY if f"/{name}/" in libraries] == []


def test_what_the_command_read_reaches_the_process_as_it_was():
    settings = Settings(
        node="n", port=1, log_root=Path("/logs"), epochs_dir=None, patterns=(Pattern("a/*", r"(?P<value>\d+)"),)
    )
    wanted = Wanted(settings, "http://here", "/token", "info", LogForm.JSON)
    assert Wanted.from_json(wanted.to_json()) == wanted


def test_its_modules_are_light():
    script = "import sys, sterna.interfaces.cli.monitor_process; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "sterna.monitor.monitor" in modules
    assert [name for name in HEAVY if name in modules] == []
    assert [name for name in modules if name.startswith(("sterna.engines", "sterna.wire", "sterna.compose"))] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--token-file", "t"], "--scheduler", id="no scheduler"),
        pytest.param(["--scheduler", "http://here"], "--token-file", id="no token"),
        pytest.param(["--scheduler", "ftp://here", "--token-file", "t"], "http://sterna-door", id="no URL"),
        pytest.param(
            ["--scheduler", "here", "--token-file", "t", "--log-pattern", "("], "--log-pattern", id="no regex"
        ),
        pytest.param(["--scheduler", "here", "--token-file", "t", "--log-pattern", "x"], "no group", id="no group"),
        pytest.param(
            ["--scheduler", "here", "--token-file", "t", "--silent-after", "0"], "--silent-after", id="no time"
        ),
        pytest.param(["--scheduler", "here", "--token-file", "t", "--log-level", "loud"], "--log-level", id="no level"),
        pytest.param(["--scheduler", "here", "--token-file", "short"], "at least 16", id="a secret one can guess"),
    ],
)
def test_a_users_mistake_is_one_line_that_says_what_would_do(tmp_path, arguments, words):
    (tmp_path / "short").write_text("guess")
    (tmp_path / "t").write_text(SECRET)
    environment = {name: value for name, value in os.environ.items() if name != "SERVER_ENDPOINT"}
    outcome = subprocess.run(
        [STERNA, "monitor", "--port", "0", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert outcome.returncode == 2
    assert words in outcome.stderr
    assert "Traceback" not in outcome.stderr
