"""What users get wrong, beside a job that trains: a clear word each time, and the job notices nothing."""

import json
import subprocess
import sys

import pytest

from sterna.model.errors import InvalidRequest
from tests.e2e.test_kill_engine import steps_of
from tests.e2e.up import Up, manifest, running, toy

_OPTIONS = ("--nodes", "2", "--gpus-per-node", "2", "--rate-limit", "0.2s")


@pytest.mark.slow
def test_mistakes_are_told_clearly_and_disturb_nobody_else(tmp_path):
    with running(tmp_path / "home", *_OPTIONS) as engine:
        engine.client.submit(toy("steady", tmp_path, steps=250, step_s=0.08), cwd=str(tmp_path))
        engine.until(lambda: engine.client.job("steady")["step"], "it trains")
        a_typo_in_a_manifest(engine)
        a_command_that_does_not_exist(engine)
        a_job_larger_than_the_machine(engine)
        a_worker_that_ignores_the_signal(engine)
        a_second_engine_in_the_same_home(engine)
        (tmp_path / "hurry").touch()
        (steady,) = engine.finished("steady")
        assert (steady["phase"], steady["restarts"], steady["resizes"]) == ("Succeeded", 0, 0)
        assert steps_of(tmp_path / "steady") == list(range(250))


def a_typo_in_a_manifest(engine: Up) -> None:
    text = manifest("typo", "true").replace('"command"', '"comand"')
    with pytest.raises(InvalidRequest, match=r"comand.*did you mean .command"):
        engine.client.submit(text, cwd=str(engine.home))
    assert [job["name"] for job in engine.client.jobs()] == ["steady"]


def a_command_that_does_not_exist(engine: Up) -> None:
    engine.client.submit(manifest("absent", "no-such-program", "--at", "all"), cwd=str(engine.home))
    (job,) = engine.finished("absent")
    assert (job["phase"], job["reason"], job["restarts"]) == ("Failed", "CommandNotFound", 0)
    assert "no-such-program" in engine.client.explain("absent")["summary"]


def a_job_larger_than_the_machine(engine: Up) -> None:
    engine.client.submit(manifest("huge", "true", gpus=3), cwd=str(engine.home))
    engine.until(lambda: engine.client.job("huge")["reason"] == "NeverFits", "it is told that it can never fit")
    answer = engine.client.explain("huge")
    assert answer["because"]["why"] == "NeverFits"
    assert "can never start" in answer["summary"]
    assert any("GPU" in sentence for sentence in answer["wouldChange"])
    engine.client.delete("huge")


def a_worker_that_ignores_the_signal(engine: Up) -> None:
    text = manifest("deaf", sys.executable, "-S", "-c", _DEAF).replace(
        '"terminationGracePeriodSeconds": 20', '"terminationGracePeriodSeconds": 1'
    )
    engine.client.submit(text, cwd=str(engine.home))
    engine.until(lambda: "deaf" in engine.log_of("deaf"), "it has begun")
    engine.client.delete("deaf")
    engine.until(lambda: "deaf" not in [job["name"] for job in engine.client.jobs()], "it is gone")
    assert [process for process in engine.processes() if _DEAF in process.cmdline()] == []


_DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"


def a_second_engine_in_the_same_home(engine: Up) -> None:
    command = [sys.executable, "-m", "sterna.interfaces.cli.main", "up", "--home", str(engine.home)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    assert "already runs" in refused.stderr


@pytest.mark.slow
def test_the_launcher_of_a_discovery_job_follows_the_workers_that_are_ready(tmp_path):
    """Horovod's contract: discover_hosts.sh names who is there, and the launcher is never restarted."""
    with running(tmp_path / "home", *_OPTIONS) as engine:
        from tests.e2e.test_frameworks import example, submit

        hurry = tmp_path / "hurry"
        args = ("--host-discovery-script", "/etc/mpi/discover_hosts.sh", "--pace", "1", "--epochs", "3")
        document = example("mpi.yaml", args=args, hurry=hurry)
        name = submit(engine, document, tmp_path)
        engine.until(lambda: "processes 3" in engine.log_of(name), "it trains with three")
        engine.client.scale(name, minimum=1, maximum=1)
        engine.until(lambda: "processes 1" in engine.log_of(name).partition("processes 3")[2], "it trains with one")
        engine.client.scale(name, minimum=1, maximum=2)
        engine.until(lambda: "processes 2" in engine.log_of(name).partition("processes 3")[2], "it trains with two")
        hurry.touch()
        (job,) = engine.finished(name)
        assert job["phase"] == "Succeeded", json.dumps(job, indent=1)
        assert len([one for one in job["workerDetails"] if one["role"] == "launcher"]) == 1
