"""Inside Sterna: the shim obeys orders, acknowledges them in the status file, and stands by until its turn."""

import threading
from pathlib import Path
from typing import Any

import pytest

from sterna.protocol import Order, Orders, WorkerPhase, read_status, wake_worker, worker_environment, write_orders
from sterna.training.checkpoint import raise_fence
from sterna.training.errors import TrainingError
from sterna.training.migrator.migrator_files import MigratorFiles, every_s, meet_s
from sterna.training.migrator.shim import Migrator
from tests.needs import needs
from tests.training.migrator.workshop import environment, listed, run_hook, until

torch = needs("torch")


class Worker:
    """One worker of a job as the engine set it up, and a program in it that trains in a thread."""

    def __init__(
        self, home: Path, *, incarnation: int = 1, standby: bool = False, rank: int = 0, world: int = 1
    ) -> None:
        self.mailbox = home / f"worker-{incarnation}-{rank}"
        self.mailbox.mkdir(parents=True)
        self.checkpoints = home / "checkpoints"
        self.checkpoints.mkdir(exist_ok=True)
        self.environment = worker_environment(
            job="default/mnist", worker=f"mnist-{incarnation}-{rank}", rank=rank, world_size=world,
            incarnation=incarnation, checkpoint_dir=self.checkpoints, mailbox=self.mailbox,
            wake=home / "wake", standby=standby,
        )  # fmt: skip
        self.migrator = listed(Migrator(environment=self.environment))
        self.counter = {"step": 0}
        self.model = torch.nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.migrator.register("model", self.model)
            self.migrator.register("optimizer", self.optimizer)
            self.migrator.register("counter", self.counter)
            self.migrator.listening(interval=0.02)
            if self.migrator.resume:
                self.migrator.load_ckpt()
            while not self.stopping.wait(0.002):
                self.optimizer.zero_grad()
                self.model(torch.ones(1, 2)).sum().backward()
                self.optimizer.step()
                self.counter["step"] += 1
        except BaseException as error:
            self.failure = error

    def order(self, seq: int, order: Order) -> None:
        write_orders(self.mailbox, Orders(seq=seq, order=order, reason="test"))
        wake_worker(self.mailbox)

    def status(self, **expected: Any) -> Any:
        """Once the status is as expected."""

        def fitting():
            assert self.failure is None, self.failure
            status = read_status(self.mailbox)
            return status if status is not None and all(getattr(status, k) == v for k, v in expected.items()) else None

        return until(fitting, f"a status with {expected}, not {read_status(self.mailbox)}")


@pytest.fixture
def start(tmp_path):
    workers = []

    def started(**how):
        workers.append(Worker(tmp_path, **how))
        return workers[-1]

    yield started
    for worker in workers:
        worker.order(99, Order.RUN)
        worker.stopping.set()
        worker.thread.join(timeout=30)


def test_voda_42_a_stop_is_committed_acknowledged_and_stood_still_for(start):
    worker = start()
    worker.status(phase=WorkerPhase.TRAINING)
    worker.order(3, Order.STOP)
    status = worker.status(phase=WorkerPhase.COMMITTED, ack=3)
    assert status.checkpoint.step == worker.counter["step"], "nothing is trained after the commit"
    saved = torch.load(worker.checkpoints / "migration.pth", weights_only=True)
    assert saved["counter"] == worker.counter
    worker.order(4, Order.RUN)  # it was taken back
    worker.status(phase=WorkerPhase.TRAINING, ack=4)
    until(lambda: worker.counter["step"] > status.checkpoint.step, "it trains on")


def test_voda_42_a_commit_is_acknowledged_and_training_goes_on(start):
    worker = start()
    worker.status(phase=WorkerPhase.TRAINING)
    worker.order(1, Order.COMMIT)
    status = worker.status(phase=WorkerPhase.TRAINING, ack=1)
    assert status.checkpoint.generation == 1
    assert status.save_s > 0
    until(lambda: worker.counter["step"] > status.checkpoint.step, "it trains on")
    assert worker.status(phase=WorkerPhase.TRAINING).metrics["step"] > 0, "the program's own numbers are told"


def test_voda_42_a_stand_by_takes_over_exactly_where_the_old_worker_stopped(start):
    old = start(incarnation=1)
    old.status(phase=WorkerPhase.TRAINING)
    new = start(incarnation=2, standby=True)
    new.status(phase=WorkerPhase.READY)
    old.order(1, Order.STOP)
    committed = old.status(phase=WorkerPhase.COMMITTED, ack=1)
    raise_fence(new.checkpoints, 2)
    new.order(1, Order.RUN)
    status = new.status(phase=WorkerPhase.TRAINING, ack=1)
    assert status.restored_step == committed.checkpoint.step == old.counter["step"]
    assert status.first_step_mono_s > committed.last_step_mono_s
    until(lambda: new.counter["step"] > old.counter["step"], "the new one trains on")


def test_voda_42_who_is_fenced_off_writes_no_more_and_says_so(start, capsys):
    old = start(incarnation=1)
    old.status(phase=WorkerPhase.TRAINING)
    raise_fence(old.checkpoints, 2)
    old.order(1, Order.COMMIT)
    status = until(lambda: (found := read_status(old.mailbox)) and found.problem and found, "the problem is told")
    assert "incarnation 1 may no longer write" in status.problem
    assert not (old.checkpoints / "migration.pth").exists()


def test_voda_44_other_ranks_acknowledge_too(start):
    first, second = start(rank=0, world=2), start(rank=1, world=2)
    for worker in (first, second):
        worker.status(phase=WorkerPhase.TRAINING)
    for worker in (first, second):
        worker.order(1, Order.STOP)
    for worker in (first, second):
        worker.status(phase=WorkerPhase.COMMITTED, ack=1)
    second.order(2, Order.RUN)
    second.status(phase=WorkerPhase.TRAINING, ack=2)


def test_voda_43_the_hook_of_an_old_worker_leaves_its_replacement_alone(start):
    worker = start(incarnation=2)
    worker.status(phase=WorkerPhase.TRAINING)
    hook = run_hook(worker.checkpoints, **{**worker.environment, "STERNA_INCARNATION": "1", **unset()})
    assert (hook.returncode, "another trainer has taken over" in hook.stdout) == (0, True)
    own = run_hook(worker.checkpoints, **{**worker.environment, **unset()})
    assert (own.returncode, own.stdout.rstrip()[-13:]) == (0, "finish ckpts!")


def test_voda_43_the_hook_is_answered_by_a_worker_that_stands_still(start):
    worker = start()
    worker.status(phase=WorkerPhase.TRAINING)
    worker.order(1, Order.STOP)
    worker.status(phase=WorkerPhase.COMMITTED)
    hook = run_hook(worker.checkpoints, **{**worker.environment, **unset()})
    assert (hook.returncode, hook.stdout.rstrip()[-13:]) == (0, "finish ckpts!")


def unset() -> dict[str, str]:
    return {"MIGRATION_CKPT_PATH": "", "MIGRATION_SIGNAL_PATH": ""}


@pytest.mark.parametrize(
    ("given", "inside", "checkpoint", "signal"),
    [
        pytest.param({}, False, "ckpts/migration.pth", "ckpts/signal", id="as it always was"),
        pytest.param({"CKPT": "/pvc/a.pth"}, False, "/pvc/a.pth", "ckpts/signal", id="each path on its own"),
        pytest.param({}, True, "jobs/u1/migration.pth", "jobs/u1/signal", id="inside, the job's own directory"),
        pytest.param(
            {"CKPT": "/pvc/a.pth", "SIGNAL": "/pvc/word"},
            True,
            "/pvc/default.mnist/a.pth",
            "/pvc/default.mnist/word",
            id="inside, a shared volume is divided by job (M8)",
        ),
    ],
)
def test_voda_40_where_the_files_are(tmp_path, monkeypatch, given, inside, checkpoint, signal):
    monkeypatch.chdir(tmp_path)
    variables = {f"MIGRATION_{name}_PATH": path for name, path in given.items()}
    if inside:
        variables |= worker_environment(
            job="default/mnist", worker="w", rank=0, world_size=1, incarnation=1, checkpoint_dir="jobs/u1",
            mailbox="mail", wake="wake",
        )  # fmt: skip
    places = MigratorFiles.from_environment(variables)
    assert (places.checkpoint, places.signal) == (tmp_path / checkpoint, tmp_path / signal)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({}, (None, 300.0), id="outside, only when asked"),
        pytest.param({"MIGRATION_EVERY_S": "60", "MIGRATION_MEET_S": "5"}, (60.0, 5.0), id="as set"),
        pytest.param({"STERNA_MAILBOX": "m"}, (300.0, 300.0), id="inside, by the clock too"),
        pytest.param({"STERNA_MAILBOX": "m", "MIGRATION_EVERY_S": "0"}, (None, 300.0), id="inside, switched off"),
    ],
)
def test_voda_47_how_often_and_how_long(variables, expected):
    assert (every_s(variables), meet_s(variables)) == expected


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_voda_47_a_setting_that_is_no_time_is_refused(text):
    with pytest.raises(TrainingError, match=f"MIGRATION_EVERY_S is '{text}'"):
        every_s({"MIGRATION_EVERY_S": text})


def test_voda_40_a_directory_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match="cannot be made"):
        _ = Migrator(environment=environment(tmp_path / "file")).resume
