"""Saves happen between two steps, whether the program says where that is or not."""

import copy
import pickle
import threading

import pytest

from sterna.training.migrator.boundary import Boundary
from sterna.training.migrator.checkpoint_files import take_stock
from tests.needs import needs
from tests.training.migrator.workshop import Stub, launch, until

torch = needs("torch")


class Program:
    """A model, its optimizer, and a note of what was the case at each boundary."""

    def __init__(self, *, watch: str = "model optimizer") -> None:
        self.model = torch.nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.at: list[tuple[int, bool]] = []  # steps done, gradients pending
        self.pending = False
        self.boundary = Boundary(lambda: self.at.append((self.boundary.steps, self.pending)))
        for name in watch.split():
            self.boundary.watch(getattr(self, name))

    def forward(self):
        return self.model(torch.ones(1, 2)).sum()

    def step(self, micro_batches: int = 1):
        for _ in range(micro_batches):
            self.forward().backward()
            self.pending = True
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.pending = False


@pytest.mark.parametrize(
    ("watch", "act", "expected"),
    [
        pytest.param("model optimizer", lambda p: [p.step() for _ in range(3)], [0, 1, 2], id="before each forward"),
        pytest.param("model optimizer", lambda p: [p.step(3), p.step(3)], [0, 1], id="not between micro-batches"),
        pytest.param("optimizer", lambda p: [p.step() for _ in range(3)], [0, 1, 2], id="without the module"),
        pytest.param("model", lambda p: [p.step() for _ in range(3)], [0, 0, 0], id="without the optimizer, uncounted"),
        pytest.param(
            "model optimizer",
            lambda p: [p.step(), p.model.eval(), p.forward(), p.forward()],
            [0, 1, 1],
            id="at any forward pass of an evaluation",
        ),
        pytest.param(
            "model optimizer",
            lambda p: [p.step(), p.boundary.step(), p.step(), p.boundary.step(), p.step()],
            [0, 1, 2],
            id="only where the program says so, once it does",
        ),
    ],
)
def test_voda_42_where_the_boundaries_are(watch, act, expected):
    program = Program(watch=watch)
    act(program)
    assert [steps for steps, _ in program.at] == expected
    if watch != "optimizer":
        assert not any(pending for _, pending in program.at)


def test_voda_42_a_forward_pass_without_gradients_is_a_boundary_too():
    program = Program()
    program.step()
    with torch.no_grad():
        program.forward()
        program.forward()
    assert [steps for steps, _ in program.at] == [0, 1, 1]


def test_voda_42_when_it_is_overdue_any_forward_pass_will_do():
    program = Program()
    program.step()
    program.forward()
    program.forward()  # a program that evaluates with gradients on, or skips its steps
    assert len(program.at) == 2
    program.boundary.overdue = True
    program.forward()
    assert len(program.at) == 3


def test_voda_42_training_waits_while_it_is_frozen_and_is_not_frozen_inside_a_step():
    program = Program()
    program.step()
    thread = threading.Thread(target=program.step)
    with program.boundary.freeze() as frozen:
        assert frozen
        thread.start()
        thread.join(timeout=0.2)
        assert thread.is_alive(), "it trained although it was frozen"
        assert program.boundary.steps == 1
    thread.join(timeout=30)
    assert program.boundary.steps == 2
    program.forward()
    with program.boundary.freeze() as frozen:
        assert not frozen


@pytest.mark.parametrize("says_so", [False, True], ids=["watched through hooks", "the program calls step()"])
def test_voda_42_a_save_beside_training_is_never_torn(tmp_path, says_so):
    """Every parameter counts the steps, one after the other, and so does a dict after them: all must agree (M2)."""
    parameters = [torch.nn.Parameter(torch.zeros(2_000)) for _ in range(40)]
    model = torch.nn.ParameterList(parameters)
    counter = {"step": 0}

    class CountsUp(torch.optim.Optimizer):  # type: ignore[name-defined]
        def step(self, closure=None):
            for parameter in parameters:
                parameter.data += 1

    class Forward(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return x

    network, optimizer = Forward(), CountsUp(parameters, {})
    migrator = launch(tmp_path, model=network, optimizer=optimizer, counter=counter)
    migrator.listening(interval=0.001)
    stop = threading.Event()
    trained = []

    def train():
        while not stop.is_set():
            network(torch.zeros(1))
            optimizer.step()
            counter["step"] += 1
            if says_so:
                migrator.step()
        trained.append(counter["step"])

    thread = threading.Thread(target=train)
    thread.start()
    try:
        for _ in range(15):
            (tmp_path / "signal").write_text("save")
            until(lambda: migrator.signal == "resume", "a save at a boundary")
            saved = torch.load(tmp_path / "migration.pth", weights_only=True)
            values = {float(value) for tensor in saved["model"].values() for value in (tensor.min(), tensor.max())}
            assert values == {float(saved["counter"]["step"])}
    finally:
        stop.set()
        thread.join(timeout=30)
    assert trained[0] > 15


def test_voda_42_a_long_pause_between_steps_does_not_hold_up_a_save(tmp_path):
    program = Program(watch="")
    migrator = launch(tmp_path, model=program.model, optimizer=program.optimizer)
    migrator.listening(interval=0.01)
    program.step()
    (tmp_path / "signal").write_text("save")  # and the program reads data for a minute
    until(lambda: migrator.signal == "resume", "the listener saves by itself")
    (kept,) = take_stock(migrator._begin().session.desk).complete.values()
    assert (kept.step, kept.untorn) == (1, True)


def test_voda_42_without_boundaries_a_save_that_may_be_torn_says_so(tmp_path):
    class Restless(Stub):
        def state_dict(self):
            self.value += 1
            return super().state_dict()

    migrator = launch(tmp_path, model=Restless(0))
    migrator.listening(interval=0.01)
    (tmp_path / "signal").write_text("save")
    until(lambda: migrator.signal == "resume", "the listener saves all the same")
    (kept,) = take_stock(migrator._begin().session.desk).complete.values()
    assert not kept.untorn


def test_voda_42_a_module_that_is_called_by_a_way_around_it_has_boundaries_all_the_same():
    program = Program(watch="optimizer")
    program.boundary.watch(torch.nn.Sequential(program.model))
    for _ in range(3):
        program.step()
    assert [steps for steps, _ in program.at] == [0, 1, 2]


@pytest.mark.parametrize("inner", [False, True], ids=["the compiled one is watched", "the one inside is watched"])
def test_voda_42_a_compiled_module_has_its_boundaries_too(inner):
    program = Program(watch="")
    model = torch.compile(program.model, backend="eager")
    program.boundary.watch(program.model if inner else model)
    program.boundary.watch(program.optimizer)
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        program.optimizer.step()
    assert [steps for steps, _ in program.at] == [0, 1, 2]


def test_voda_42_a_watched_module_can_be_copied_and_pickled_and_its_copies_do_not_count():
    program = Program()
    copies = [copy.deepcopy(program.model), pickle.loads(pickle.dumps(program.model))]
    program.step()
    for other in copies:
        other(torch.ones(1, 2)).sum().backward()
    assert len(program.at) == 1
    optimizer = copy.deepcopy(program.optimizer)
    optimizer.step()
    assert program.boundary.steps == 1


def test_voda_42_what_is_registered_twice_counts_once():
    program = Program(watch="model optimizer model optimizer")
    program.step()
    program.step()
    assert ([steps for steps, _ in program.at], program.boundary.steps) == ([0, 1], 2)
