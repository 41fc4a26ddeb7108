"""Saving while training goes on: what is written is the state of one moment, however it changes meanwhile."""

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sterna.training.checkpoint import CheckpointProblem, CheckpointStore, LoanBroken, OptimizerLoan
from sterna.training.checkpoint.archive import Draft
from sterna.training.checkpoint.capture import Capture
from sterna.training.checkpoint.disk import Disk
from sterna.training.checkpoint.memory import Region
from tests.needs import needs
from tests.training.checkpoint.disks import Counting
from tests.training.checkpoint.trees import alike


class Moody(Disk):
    """Syncs nothing while it is held, and nothing at all while it has a reason not to."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.refuses: int | None = None

    def sync(self, fd: int) -> None:
        assert self.free.wait(60)
        if self.refuses is not None:
            raise OSError(self.refuses, os.strerror(self.refuses))
        super().sync(fd)


class Cached(Disk):
    """Has no way past the page cache."""

    def create_direct(self, path: Path) -> int:
        return self.create(path)


def loaded_shared(store: CheckpointStore) -> Any:
    newest = store.newest()
    assert newest is not None
    return store.load(newest).shared


def test_the_state_may_change_as_soon_as_begin_save_returns(tmp_path):
    np = needs("numpy")
    store = CheckpointStore(tmp_path, incarnation=1)
    for step in range(1, 6):
        weights = np.arange(400_000 * step, dtype=np.float64)
        expected, metrics = weights.copy(), {"loss": [0.5] * step}
        pending = store.begin_save({"w": weights, "metrics": metrics}, {"r": weights[::7]}, step=step, about={})
        weights[:] = -1
        metrics["loss"].append(9.9)
        saved = pending.result(60)
        loaded = store.load(saved.generation)
        assert alike(loaded.shared, {"w": expected, "metrics": {"loss": [0.5] * step}})
        assert alike(loaded.own["r"], expected[::7])


def test_archives_are_the_same_whether_training_waits_or_not(tmp_path):
    np = needs("numpy")
    store = CheckpointStore(tmp_path, incarnation=1)
    big = np.arange(100_003, dtype=np.int32)
    store.begin_save({"x": np.full(500_000, 255, np.uint8)}, {}, step=1, about={}).result(60)  # leaves its traces
    tree = {"odd": big[:99_999].copy(), "b": b"abc" * 333, "s": [big[:7].copy(), big[:1].copy()]}
    waited = store.save(tree, {}, step=2, about={}).generation
    pending = store.begin_save(tree, {}, step=2, about={}).result(60).generation
    assert (waited.path / "rank-0.sterna").read_bytes() == (pending.path / "rank-0.sterna").read_bytes()


@pytest.mark.parametrize("nbytes", [0, 1, 4095, 4096, 4097, 8_388_608, 8_388_609, 20_000_003])
@pytest.mark.parametrize(
    "disk", [Disk(), Counting(), Cached()], ids=["as it is", "half of each write", "no direct way"]
)
def test_every_length_is_written_whole_past_the_page_cache_or_not(tmp_path, nbytes, disk):
    store = CheckpointStore(tmp_path, incarnation=1, disk=disk)
    state = {"first": bytes(range(256)) * (nbytes // 256) + b"x" * (nbytes % 256), "then": bytearray(b"y" * 300)}
    saved = store.begin_save(state, {}, step=1, about={}).result(60)
    assert store.load(saved.generation).shared == state
    assert saved.generation.bytes == (saved.generation.path / "rank-0.sterna").stat().st_size


def test_one_save_at_a_time_and_the_next_waits_its_turn(tmp_path):
    disk = Moody()
    store = CheckpointStore(tmp_path, incarnation=1, disk=disk)
    disk.free.clear()
    first = store.begin_save({"n": 1}, {}, step=1, about={})
    assert store.pending is first
    assert not first.done()
    with pytest.raises(TimeoutError):
        first.result(0.01)
    second: list[Any] = []
    thread = threading.Thread(target=lambda: second.append(store.begin_save({"n": 2}, {}, step=2, about={})))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()  # it waits
    disk.free.set()
    thread.join(60)
    assert first.done()
    assert first.result(0).generation.step == 1
    assert second[0].result(60).generation.step == 2
    assert store.pending is None
    assert [generation.step for generation in store.generations()] == [2, 1]


def test_a_blocking_save_waits_for_the_one_in_the_background(tmp_path):
    store = CheckpointStore(tmp_path, incarnation=1)
    store.begin_save({"n": b"x" * 3_000_000}, {}, step=1, about={})
    store.save({"n": 2}, {}, step=2, about={})
    assert [generation.step for generation in store.generations()] == [2, 1]


def test_a_failure_in_the_background_is_told_and_training_goes_on(tmp_path):
    disk = Moody()
    store = CheckpointStore(tmp_path, incarnation=1, disk=disk)
    store.save({"n": 1}, {}, step=1, about={})
    disk.refuses = errno.ENOSPC
    pending = store.begin_save({"n": 2}, {}, step=2, about={})
    pending.wait_done()
    assert isinstance(pending.problem, CheckpointProblem)
    assert "No space left" in str(pending.problem)
    with pytest.raises(CheckpointProblem, match="No space left"):
        pending.result(0)
    disk.refuses = None
    assert loaded_shared(store) == {"n": 1}
    assert store.begin_save({"n": 3}, {}, step=3, about={}).result(60).generation.step == 3


def test_closing_waits_for_what_is_under_way(tmp_path):
    store = CheckpointStore(tmp_path, incarnation=1)
    pending = store.begin_save({"n": b"x" * 5_000_000}, {}, step=1, about={})
    store.close()
    assert pending.done()
    store.close()
    assert store.begin_save({"n": 2}, {}, step=2, about={}).result(60).generation.step == 2  # and opens again


def test_memory_that_was_prepared_is_used(tmp_path):
    np = needs("numpy")
    store = CheckpointStore(tmp_path, incarnation=1)
    state = {"w": np.ones(1_000_000)}
    store.prepare(state, {})
    store.begin_save(state, {}, step=1, about={}).result(60)
    region = store._region
    store.begin_save(state, {}, step=2, about={}).result(60)
    assert store._region is region
    assert region.nbytes >= 8_000_000
    assert alike(loaded_shared(store), state)


class TestLoan:
    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        needs("torch")

    def training(self, kind: str) -> tuple[Any, Any, Any]:
        import torch

        torch.manual_seed(3)
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 700), torch.nn.BatchNorm1d(700), torch.nn.ReLU(), torch.nn.Linear(700, 700),
            torch.nn.Linear(700, 1),
        )  # fmt: skip
        optimizer = {
            "adam": lambda: torch.optim.Adam(model.parameters()),
            "sgd": lambda: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
            "fused": lambda: torch.optim.AdamW(model.parameters(), fused=True),
        }[kind]()

        def step() -> None:
            optimizer.zero_grad()
            model(torch.randn(8, 64)).square().mean().backward()
            optimizer.step()

        return model, optimizer, step

    @pytest.mark.parametrize("kind", ["sgd", "adam", "fused"])
    def test_what_is_lent_is_saved_as_it_was_at_the_boundary(self, tmp_path, kind):
        import copy

        model, optimizer, step = self.training(kind)
        store = CheckpointStore(tmp_path, incarnation=1)
        loan = OptimizerLoan([optimizer])
        step()
        assert len(set(loan.lent())) >= 8
        for number in range(1, 9):
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            expected = copy.deepcopy(state)
            pending = store.begin_save(state, {}, step=number, about={}, loan=loan)
            step()
            pending.wait_captured()  # already so: the step waited
            step()
            loaded = store.load(pending.result(60).generation).shared
            assert alike(loaded, expected), f"save {number}"
        assert loan.why_broken is None
        loan.close()
        step()

    def test_the_step_waits_until_the_copy_is_done(self, tmp_path):
        _, optimizer, step = self.training("adam")
        store = CheckpointStore(tmp_path, incarnation=1)
        loan = OptimizerLoan([optimizer])
        step()
        settled: list[bool] = []
        for number in range(10):
            pending = store.begin_save({"o": optimizer.state_dict()}, {}, step=number, about={}, loan=loan)
            optimizer.register_step_pre_hook(lambda *_, pending=pending: settled.append(pending._capture.is_settled()))
            step()
            pending.result(60)
        assert settled
        assert all(settled)

    def test_only_what_an_optimizer_owns_is_lent(self, tmp_path):
        model, optimizer, step = self.training("adam")
        step()
        loan = OptimizerLoan([optimizer])
        tree = {"m": model.state_dict(), "o": optimizer.state_dict()}
        draft = Draft(tree, lent=loan.lent())
        lent = {tensor.data_ptr() for part in draft.parts for tensor, _ in part.lent}
        running = {buffer.data_ptr() for buffer in model.buffers()}  # of the batch norm: change in forward
        assert not lent & running
        assert {parameter.data_ptr() for parameter in model.parameters()} <= lent

    def test_a_lent_tensor_that_changes_too_early_drops_the_save_and_ends_the_lending(self, tmp_path):
        import torch

        weights = torch.nn.Parameter(torch.zeros(1_000_000))
        optimizer = torch.optim.SGD([weights], lr=0.1)
        loan = OptimizerLoan([optimizer])
        draft = Draft({"tree": {"w": weights.detach()}}, lent=loan.lent())
        capture = Capture(draft, Region(draft.body_bytes + 64))
        capture.wait_changing()
        with torch.no_grad():
            weights.add_(1)  # not in `step`, and before it was copied
        with pytest.raises(LoanBroken, match=r"\[1000000\] was changed"):
            capture.require_whole()
        assert capture.is_settled()  # nobody waits for it

        class Eager:
            """Changes what it lends as soon as it is lent."""

            def __init__(self) -> None:
                self.why: str | None = None

            def lent(self) -> set[int]:
                return {weights.data_ptr()}

            def begun(self, borrower: Any) -> None:
                with torch.no_grad():
                    weights.add_(1)

            def broken(self, why: str) -> None:
                self.why = why

        eager = Eager()
        store = CheckpointStore(tmp_path, incarnation=1)
        pending = store.begin_save({"w": weights.detach()}, {}, step=1, about={}, loan=eager)
        pending.wait_done()
        assert isinstance(pending.problem, LoanBroken)
        assert eager.why is not None
        assert store.newest() is None
        loan.broken("because")
        assert set(loan.lent()) == set()
        expected = weights.detach().clone()
        pending = store.begin_save({"w": weights.detach()}, {}, step=2, about={}, loan=loan)
        with torch.no_grad():
            weights.add_(1)
        assert torch.equal(store.load(pending.result(60).generation).shared["w"], expected)

    def test_memory_shared_with_something_that_is_not_lent_is_not_lent_either(self):
        import torch

        base = torch.zeros(1000)
        weights = torch.nn.Parameter(base[:500])
        loan = OptimizerLoan([torch.optim.SGD([weights], lr=0.1)])
        draft = Draft({"tree": [weights.detach(), base[400:]]}, lent=loan.lent())
        assert [part.steady for part in draft.parts] == [False]


def test_a_save_begun_from_a_loop_that_never_pauses_still_finishes(tmp_path):
    """The background thread needs the interpreter's lock now and then: a busy program must not starve it for ever."""
    store = CheckpointStore(Path(tmp_path), incarnation=1)
    pending = store.begin_save({"n": list(range(1000)), "b": b"x" * 2_000_000}, {}, step=1, about={})
    deadline = time.monotonic() + 60
    count = 0
    while not pending.done() and time.monotonic() < deadline:
        count += 1
    assert pending.result(0).generation.step == 1
