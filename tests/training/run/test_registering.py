"""What can be registered comes back as it was, in place, whatever comes first; what cannot is refused by name."""

import collections
import random
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from sterna.training import Mismatch, Unregistrable
from sterna.training.checkpoint import CheckpointStore
from sterna.training.state.keepers import checked_state, keeper_of
from sterna.training.state.registry import Registry
from tests.needs import needs


class Stateful:
    def __init__(self, value: int) -> None:
        self.value = value

    def state_dict(self) -> dict[str, int]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.value = state["value"]


def make_random(seed: int) -> random.Random:
    source = random.Random(seed)
    source.gauss(0, 1)  # leaves half a pair behind, which is part of the state
    return source


KINDS: list[Any] = [
    pytest.param(Stateful, lambda each: each.value, id="an object with a state_dict"),
    pytest.param(lambda seed: {"a": seed, 1: [seed]}, dict, id="a dict"),
    pytest.param(lambda seed: collections.Counter({"a": seed}), dict, id="a Counter"),
    pytest.param(
        lambda seed: collections.OrderedDict(b=seed, a=2), lambda each: list(each.items()), id="an OrderedDict"
    ),
    pytest.param(lambda seed: [seed, [seed]], list, id="a list"),
    pytest.param(lambda seed: collections.deque([seed, 2], maxlen=3), list, id="a deque"),
    pytest.param(lambda seed: {seed, 7}, sorted, id="a set"),
    pytest.param(lambda seed: numpy.full((2, 3), seed), lambda each: each.tolist(), id="a NumPy array"),
    pytest.param(lambda seed: numpy.array(seed), lambda each: each.item(), id="a NumPy array without dimensions"),
    pytest.param(make_random, lambda each: each.gauss(0, 1), id="a random generator of Python"),
    pytest.param(numpy.random.default_rng, lambda each: each.random(), id="a random generator of NumPy"),
]


def moved(state: Any) -> Any:
    """As it comes back from the disk."""
    with tempfile.TemporaryDirectory() as directory:
        store = CheckpointStore(Path(directory), incarnation=0)
        saved = store.save({"state": state}, {}, step=0, about={})
        return store.load(saved.generation).shared["state"]


@pytest.mark.parametrize(("make", "seen"), KINDS)
@pytest.mark.parametrize("restored_first", [False, True], ids=["registered first", "restored first"])
def test_what_is_registered_comes_back_in_place_in_either_order(
    make: Callable[[int], Any], seen: Callable[[Any], Any], restored_first: bool
):
    before, after = make(1), make(2)
    saved = Registry()
    saved.add("it", before)
    states = {"it": moved(saved.state()["it"])}
    registry = Registry()
    if restored_first:
        registry.restore(states)
        registry.add("it", after)
    else:
        registry.add("it", after)
        registry.restore(states)
    assert seen(after) == seen(before)


def test_a_pair_of_callables_is_asked_and_told():
    told: list[Any] = []
    registry = Registry()
    registry.add("it", (lambda: {"x": 1}, told.append))
    assert registry.state() == {"it": {"x": 1}}
    registry.restore({"it": {"x": 2}})
    assert told == [{"x": 2}]


def test_what_nobody_has_asked_for_yet_is_carried_into_the_next_checkpoint():
    registry = Registry()
    registry.restore({"model": {"w": 1}, "scheduler": {"lr": 0.1}})
    model: dict[str, int] = {}
    registry.add("model", model)
    assert model == {"w": 1}
    assert registry.state() == {"model": {"w": 1}, "scheduler": {"lr": 0.1}}


def test_what_the_checkpoint_does_not_have_is_said_and_left_alone(caplog):
    registry = Registry()
    first, second = {"a": 1}, {"b": 1}
    registry.add("first", first)
    registry.restore({})
    registry.add("second", second)
    assert (first, second) == ({"a": 1}, {"b": 1})
    assert [record.getMessage() for record in caplog.records] == [
        "'first' is not in the checkpoint that was restored: it keeps the state it has",
        "'second' is not in the checkpoint that was restored: it keeps the state it has",
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param(3, "'it' is a int, which cannot be changed in place .* keep it in a dict", id="a number"),
        pytest.param("x", "'it' is a str", id="a text"),
        pytest.param(None, "'it' is a NoneType", id="nothing"),
        pytest.param((1, 2), "'it' is a tuple", id="a tuple"),
        pytest.param(
            object(), "'it' is a object, which cannot be saved and restored; expected an object", id="an object"
        ),
        pytest.param(lambda: 1, "'it' is a function", id="a single callable"),
        pytest.param({"a": [object()]}, r"'it' cannot be saved: \['a'\]\[0\]: a builtins.object", id="deep inside"),
        pytest.param(
            [Stateful(1)], r"'it' cannot be saved: \[0\]: .*state_dict\(\): save that", id="a model in a list"
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_name_and_what_would_do(value, message):
    with pytest.raises(Unregistrable, match=message):
        Registry().add("it", value)


def test_a_name_has_to_be_one():
    for name in ("", 3, None):
        with pytest.raises(Unregistrable, match="is not a name"):
            Registry().add(name, {})  # type: ignore[arg-type]


def test_a_shape_that_has_changed_is_named():
    registry = Registry()
    registry.restore({"weights": numpy.zeros((2, 2)), "model": {"other": 1}})
    with pytest.raises(Mismatch, match=re.escape("'weights' is an array of shape (3,) and float64, but")):
        registry.add("weights", numpy.zeros(3))
    with pytest.raises(Mismatch, match="'model' does not take its state out of the checkpoint: 'value'"):
        registry.add("model", Stateful(1))


def test_checkpoints_are_portable_between_wrapped_and_plain_torch_modules():
    torch = needs("torch")

    def make(seed: int) -> Any:
        torch.manual_seed(seed)
        return torch.nn.Linear(3, 2)

    plain, other = make(1), make(2)
    wrapped = torch.nn.DataParallel(torch.compile(make(3)))
    state = moved(checked_state("model", keeper_of("model", wrapped)))
    assert set(state) == {"weight", "bias"}
    keeper_of("model", plain).put(state)
    assert torch.equal(plain.weight, wrapped.module._orig_mod.weight)
    keeper_of("model", torch.compile(other)).put(moved(plain.state_dict()))
    assert torch.equal(other.weight, plain.weight)


def test_torch_tensors_optimizers_schedules_scalers_and_generators():
    torch = needs("torch")

    def make(seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01 * seed, amsgrad=True)
        scheduler = torch.optim.lr_scheduler.SequentialLR(
            optimizer,
            [
                torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=2),
                torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5),
            ],
            milestones=[2],
        )
        for _ in range(seed * 2):
            optimizer.zero_grad()
            model(torch.ones(3)).sum().backward()
            optimizer.step()
            scheduler.step()
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=seed)
        plateau.step(1.0)
        return {
            "model": model,
            "optimizer": optimizer,
            "scheduler": scheduler,
            "plateau": plateau,
            "scaler": torch.amp.GradScaler("cpu", init_scale=2.0**seed, enabled=True),
            "tensor": torch.full((2,), float(seed)),
            "generator": torch.Generator().manual_seed(seed),
        }

    before, after = make(3), make(1)
    saved, registry = Registry(), Registry()
    for name, each in before.items():
        saved.add(name, each)
    registry.restore({name: moved(state) for name, state in saved.state().items()})
    for name, each in after.items():
        registry.add(name, each)
    assert len(registry.optimizers) == 1
    for both in (before, after):
        both["optimizer"].zero_grad()
        both["model"](torch.ones(3)).sum().backward()
        both["optimizer"].step()
        both["scheduler"].step()
        both["plateau"].step(2.0)
    assert torch.equal(after["model"].weight, before["model"].weight)
    assert after["optimizer"].state_dict()["param_groups"] == before["optimizer"].state_dict()["param_groups"]
    assert after["scaler"].get_scale() == 8.0
    assert after["tensor"].tolist() == [3.0, 3.0]
    assert torch.equal(torch.randn(3, generator=after["generator"]), torch.randn(3, generator=before["generator"]))
