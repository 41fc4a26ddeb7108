"""The preStop and postStart hooks as processes, beside a trainer that lives, dies, or never answers."""

import io
import json
import re
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from sterna.training.migrator import prestop
from sterna.training.migrator.prestop import Liveness
from sterna.training.migrator.signal_protocol import TrainerState, Word
from sterna.training.processes import pid_started
from tests.needs import needs
from tests.training.migrator.toy_trainer import Program
from tests.training.migrator.workshop import (
    PATIENCE_S,
    SAID,
    Stub,
    environment,
    events,
    launch,
    process_environment,
    run_hook,
    toy_trainer,
    until,
)

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
DATE = r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \S+ \d{4}"


@pytest.mark.parametrize("api", ["a", "b"])
def test_voda_43_the_hook_has_a_trainer_save_and_the_next_one_goes_on_from_there(tmp_path, api):
    needs("torch")
    with toy_trainer(tmp_path, "--api", api, "--steps", "100000", "--step-s", "0.002") as trainer:
        until(lambda: len(events(tmp_path, "step")) > 20, "the trainer trains")
        asked_at = len(events(tmp_path, "step"))
        log = tmp_path / "logs" / "preStop.log"
        hook = run_hook(tmp_path, "--log", str(log))
        assert (hook.returncode, hook.stdout, hook.stderr) == (0, "", "")
        lines = log.read_text().splitlines()
        assert re.fullmatch(f"stop: {DATE}", lines[0])
        assert all(re.fullmatch(f"{STAMP} saving ckpts...", line) for line in lines[1:-1])
        assert re.fullmatch(f"{STAMP} finish ckpts!", lines[-1])
        assert (tmp_path / "signal").read_text() == "resume"
        trainer.terminate()
        trainer.wait(timeout=PATIENCE_S)
    said = (tmp_path / SAID).read_text()
    assert re.search(f"{STAMP} save migrate ckpt\n{STAMP} saved ckpt!", said)
    (kept,) = json.loads((tmp_path / "migration.pth.json").read_text())["generations"]
    assert kept["untorn"]
    assert kept["step"] >= asked_at
    steps = kept["step"] + 25
    with toy_trainer(tmp_path, "--api", api, "--steps", str(steps)) as trainer:
        assert trainer.wait(timeout=PATIENCE_S) == 0
    assert events(tmp_path, "resumed")[-1]["step"] == kept["step"]
    never_moved = Program(2_000)
    for _ in range(steps):
        never_moved.train_a_step()
    (ended,) = events(tmp_path, "ended")
    assert (ended["digest"], ended["best"]) == (never_moved.digest(), never_moved.metrics["best"])
    assert (tmp_path / "signal").read_text() == "init"
    assert not launch(tmp_path).resume, "it came to its end"


def test_voda_43_the_hook_waits_no_longer_once_it_is_saved(tmp_path, monkeypatch):
    """In the hook's own time, which stands still but for its waits."""
    migrator = launch(tmp_path, model=Stub(1))
    assert migrator.signal == "init"
    waits: list[float] = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 35:
            migrator.save_ckpt()

    clock = SimpleNamespace(monotonic=lambda: sum(waits), sleep=sleep, strftime=time.strftime)
    monkeypatch.setattr(prestop, "time", clock)
    said = io.StringIO()
    assert prestop.ask_and_wait(environment(tmp_path), deadline_s=25, to=said) == 0
    assert len(waits) == 35, "it waited on after the save"
    assert max(waits) < 2, "a save that comes during a wait is noticed when the wait ends"
    assert said.getvalue().count("saving ckpts...") == 4, "once a second: at 0, 1, 2 and 3 s"


def test_voda_43_the_hook_needs_no_torch_and_no_network_of_imports(tmp_path):
    script = (
        "import sys\n"
        "from sterna.training.migrator import prestop, poststart\n"
        "heavy = {'torch', 'numpy', 'asyncio', 'pydantic', 'yaml', 'rich'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=process_environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_voda_43_the_hook_ends_at_once_when_the_trainer_is_dead(tmp_path):
    needs("torch")
    with toy_trainer(tmp_path, "--steps", "100000", "--step-s", "0.002") as trainer:
        until(lambda: events(tmp_path, "step"), "the trainer trains")
        assert run_hook(tmp_path).returncode == 0
        good = (tmp_path / "migration.pth").read_bytes()
        trainer.kill()
        trainer.wait(timeout=PATIENCE_S)
        hook = run_hook(tmp_path, "--deadline-s", "600")
    assert hook.returncode == 1
    assert re.search(r"the trainer \(process \d+ on .+\) is gone: the last checkpoint stays as it is", hook.stdout)
    assert (tmp_path / "migration.pth").read_bytes() == good
    assert (tmp_path / "signal").read_text() == "resume", "nothing was asked of the dead"


def test_voda_43_the_hook_notices_when_the_trainer_dies_while_it_waits(tmp_path):
    needs("torch")
    pause = tmp_path / "pause"
    with toy_trainer(tmp_path, "--api", "step", "--steps", "100000", "--pause", str(pause)) as trainer:
        until(lambda: events(tmp_path, "step"), "the trainer trains")
        pause.touch()
        until(lambda: events(tmp_path, "paused"), "it stands still")
        hook = subprocess.Popen(
            [sys.executable, "-m", "sterna.training.migrator.prestop", "--deadline-s", "600"],
            env=process_environment(tmp_path),
            stdout=subprocess.PIPE,
            text=True,
        )
        until(lambda: (tmp_path / "signal").read_text() == "save", "the hook asks")
        trainer.kill()
        trainer.wait(timeout=PATIENCE_S)
        said, _ = hook.communicate(timeout=PATIENCE_S)
    assert hook.returncode == 1
    assert "is gone" in said
    assert not launch(tmp_path).resume  # and the `save` that is left is nobody's order
    assert not (tmp_path / "migration.pth").exists()


def test_voda_43_the_hook_gives_up_at_its_deadline(tmp_path):
    migrator = launch(tmp_path, model=Stub())
    assert migrator.signal == "init"  # it has begun, and does not listen
    hook = run_hook(tmp_path, "--deadline-s", "0.3")
    assert hook.returncode == 1
    assert "did not answer in time" in hook.stdout
    assert (tmp_path / "signal").read_text() == "save", "it may still be obeyed before the kill"


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        pytest.param(lambda d: None, "no trainer has used", id="nobody ever trained here"),
        pytest.param(lambda d: launch(d, model=Stub()).finish(), "training has ended", id="training is over"),
    ],
)
def test_voda_43_the_hook_has_nothing_to_do(tmp_path, prepare, said):
    prepare(tmp_path)
    hook = run_hook(tmp_path)
    assert hook.returncode == 0
    assert said in hook.stdout


def test_voda_43_the_hook_answers_for_a_trainer_of_pytorchjob_migration(tmp_path):
    signal = tmp_path / "signal"
    signal.write_text("init")

    def original():
        until(lambda: signal.read_text() == "save", "the hook asks")
        (tmp_path / "migration.pth").write_bytes(b"weights")
        signal.write_text("resume")

    trainer = threading.Thread(target=original)
    trainer.start()
    hook = run_hook(tmp_path)
    trainer.join(timeout=PATIENCE_S)
    assert hook.returncode == 0
    assert hook.stdout.rstrip().endswith("finish ckpts!")


def test_voda_43_a_trainer_that_has_only_just_begun_does_not_bury_the_good_checkpoint(tmp_path):
    launch(tmp_path, model=Stub(5)).save_ckpt()
    good = (tmp_path / "migration.pth").read_bytes()
    migrator = launch(tmp_path, model=Stub(0))
    migrator.listening(interval=0.01)  # and the program builds on, before it asks for `resume`
    hook = run_hook(tmp_path)
    assert (hook.returncode, hook.stdout.rstrip()[-13:]) == (0, "finish ckpts!")
    assert (tmp_path / "migration.pth").read_bytes() == good
    assert migrator.resume


@pytest.mark.parametrize("log", ["postStart.log", "missing/postStart.log", None])
def test_voda_43_post_start_notes_the_time(tmp_path, log):
    arguments = [] if log is None else ["--log", str(tmp_path / log)]
    done = subprocess.run(
        [sys.executable, "-m", "sterna.training.migrator.poststart", *arguments],
        env=process_environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    said = done.stdout if log is None else (tmp_path / log).read_text()
    assert re.fullmatch(f"start: {DATE}\n", said)


def test_voda_43_a_log_that_cannot_be_written_does_not_fail_the_hook(tmp_path):
    (tmp_path / "file").touch()
    launch(tmp_path, model=Stub()).finish()
    hook = run_hook(tmp_path, "--log", str(tmp_path / "file" / "preStop.log"))
    assert hook.returncode == 0
    assert "cannot write to" in hook.stderr
    assert "training has ended" in hook.stdout


def test_voda_43_a_trainer_elsewhere_is_known_by_its_heartbeat(tmp_path, monkeypatch):
    heartbeat = tmp_path / "state.json"
    heartbeat.touch()
    far = TrainerState(incarnation="x", lineage="x", word=Word.INIT, pid=1, pid_started=1, host="elsewhere")
    now_s = [100.0]
    monkeypatch.setattr("sterna.training.migrator.prestop.time.monotonic", lambda: now_s[0])
    liveness = Liveness(heartbeat)
    assert not liveness.gone(far)
    now_s[0] += 9
    assert not liveness.gone(far)
    now_s[0] += 2
    assert liveness.gone(far)
    heartbeat.write_text("beat")
    assert not liveness.gone(far)
    heartbeat.unlink()
    assert liveness.gone(far)


def test_voda_43_a_zombie_counts_as_gone():
    child = subprocess.Popen([sys.executable, "-c", ""])
    until(lambda: pid_started(child.pid) == 0, "the child is a zombie")
    child.wait()
    assert pid_started(child.pid) == 0
