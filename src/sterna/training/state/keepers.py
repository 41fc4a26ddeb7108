"""How each kind of object gives its state and takes it back. Which state is saved when is not decided here.

Frameworks are recognised, never imported: an object can only be theirs if the program has imported them. Wrappers of
torch that put a prefix before every key (DistributedDataParallel, DataParallel, torch.compile) are taken off, so that a
checkpoint fits with and without them.
"""

import random
import struct
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from sterna.training.checkpoint import CheckpointProblem
from sterna.training.checkpoint.skeleton import encoded
from sterna.training.errors import Mismatch, Unregistrable

WHAT_WOULD_DO = (
    "an object with state_dict() and load_state_dict(), a dict, list, deque or set, a NumPy array, a torch tensor or"
    " generator, a Keras model, optimizer or variable, or a pair of callables (save, load)"
)


class Keeper(NamedTuple):
    """One registered object, seen from here: where its state comes from and where it goes back to."""

    state: Callable[[], Any]
    put: Callable[[Any], object]


def keeper_of(name: str, value: Any) -> Keeper:
    """Raises Unregistrable, with the name and what would do."""
    value = _unwrapped(value)
    for make in _MAKERS:
        keeper = make(name, value)
        if keeper is not None:
            return keeper
    kind = type(value).__name__
    if isinstance(value, int | float | complex | str | bytes | bool | tuple | None):
        raise Unregistrable(
            f"{name!r} is a {kind}, which cannot be changed in place when a checkpoint is restored;"
            f" keep it in a dict and register that"
        )
    raise Unregistrable(f"{name!r} is a {kind}, which cannot be saved and restored; expected {WHAT_WOULD_DO}")


def checked_state(name: str, keeper: Keeper) -> Any:
    """Its state now. Raises Unregistrable if there is something in it that a checkpoint cannot hold."""
    state = keeper.state()
    try:
        encoded(state, _DryRun())
    except CheckpointProblem as problem:
        raise Unregistrable(f"{name!r} {problem}") from problem
    return state


def _unwrapped(value: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is None:
        return value
    while True:
        if isinstance(value, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            value = value.module
        elif isinstance(value, torch.nn.Module) and "_orig_mod" in value._modules:  # torch.compile
            value = value._orig_mod
        else:
            return value


def _state_dict(name: str, value: Any) -> Keeper | None:
    save, load = getattr(value, "state_dict", None), getattr(value, "load_state_dict", None)
    return Keeper(save, load) if callable(save) and callable(load) else None


def _keras_layer(name: str, value: Any) -> Keeper | None:
    """Models and layers: their weights, and the state of their own random generators (dropout)."""
    if not (callable(getattr(value, "get_weights", None)) and callable(getattr(value, "set_weights", None))):
        return None

    def seeds() -> list[Any]:
        return [each for each in getattr(value, "variables", ()) if "seed_generator" in getattr(each, "path", "")]

    def put(state: Any) -> None:
        here = len(value.get_weights())
        if here != len(state["weights"]) or len(seeds()) != len(state["seeds"]):
            raise Mismatch(
                f"{name!r} has {here} weights and the checkpoint {len(state['weights'])};"
                " build the model (call it once, or model.build(shape)) before it is registered or restored"
            )
        value.set_weights(state["weights"])
        for variable, seed in zip(seeds(), state["seeds"], strict=True):
            variable.assign(seed)

    return Keeper(lambda: {"weights": value.get_weights(), "seeds": [_array(each) for each in seeds()]}, put)


def _keras_optimizer(name: str, value: Any) -> Keeper | None:
    save, load = getattr(value, "save_own_variables", None), getattr(value, "load_own_variables", None)
    if not (callable(save) and callable(load) and hasattr(value, "variables")):
        return None

    def state() -> Any:
        variables: dict[str, Any] = {}
        save(variables)
        return variables

    def put(variables: Any) -> None:
        if len(variables) != len(value.variables):  # Keras itself would warn and go on with a fresh optimizer
            raise Mismatch(
                f"{name!r} has {len(value.variables)} variables and the checkpoint {len(variables)};"
                " call optimizer.build(model.trainable_variables) before it is registered or restored"
            )
        load(variables)

    return Keeper(state, put)


def _variable(name: str, value: Any) -> Keeper | None:
    """A variable of TensorFlow or Keras."""
    if callable(getattr(value, "assign", None)) and callable(getattr(value, "numpy", None)):
        return Keeper(lambda: _array(value), value.assign)
    return None


def _numpy_array(name: str, value: Any) -> Keeper | None:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray):
        return None

    def put(state: Any) -> None:
        if getattr(state, "shape", None) != value.shape or state.dtype != value.dtype:
            raise Mismatch(
                f"{name!r} is an array of shape {value.shape} and {value.dtype}, but in the checkpoint it has"
                f" shape {getattr(state, 'shape', None)} and {getattr(state, 'dtype', type(state).__name__)}"
            )
        numpy.copyto(value, state)

    return Keeper(lambda: value, put)


def _torch_tensor(name: str, value: Any) -> Keeper | None:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None

    def put(state: Any) -> None:
        if getattr(state, "shape", None) != value.shape:
            raise Mismatch(
                f"{name!r} is a tensor of shape {tuple(value.shape)}, but in the checkpoint"
                f" {tuple(getattr(state, 'shape', ()))}"
            )
        with torch.no_grad():
            value.copy_(state)

    return Keeper(value.detach, put)


def _generator(name: str, value: Any) -> Keeper | None:
    """Sources of random numbers that the program holds itself."""
    if isinstance(value, random.Random):
        return Keeper(lambda: packed_random(value), lambda state: put_random(value, state))
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Generator):
        return Keeper(value.get_state, value.set_state)
    if numpy is not None and isinstance(value, numpy.random.Generator):
        return Keeper(lambda: value.bit_generator.state, lambda state: setattr(value.bit_generator, "state", state))
    return None


def _container(name: str, value: Any) -> Keeper | None:
    if isinstance(value, dict):  # subclasses too: saved as what they hold, restored in place
        return Keeper(
            lambda: value if type(value) is dict else dict(value), lambda state: _refill(value, state, "update")
        )
    if isinstance(value, list):
        return Keeper(
            lambda: value if type(value) is list else list(value), lambda state: _refill(value, state, "extend")
        )
    if isinstance(value, deque):
        return Keeper(lambda: list(value), lambda state: _refill(value, state, "extend"))
    if isinstance(value, set):
        return Keeper(lambda: set(value), lambda state: _refill(value, state, "update"))
    return None


def _pair(name: str, value: Any) -> Keeper | None:
    if isinstance(value, tuple) and len(value) == 2 and all(callable(each) for each in value):
        return Keeper(*value)
    return None


_MAKERS: tuple[Callable[[str, Any], Keeper | None], ...] = (
    _state_dict,
    _keras_layer,
    _keras_optimizer,
    _numpy_array,
    _torch_tensor,
    _variable,
    _generator,
    _container,
    _pair,
)


def _refill(container: Any, state: Any, fill: str) -> None:
    container.clear()
    getattr(container, fill)(state)


def _array(variable: Any) -> Any:
    value = variable.numpy()
    return value.copy() if hasattr(value, "copy") else value  # TensorFlow may hand out its own memory


_WORDS = struct.Struct("<625I")  # 624 of the Mersenne Twister and its index


def packed_random(source: Any) -> dict[str, Any]:
    """State of a `random.Random`, or of the module itself, which has the same methods."""
    version, words, gauss_next = source.getstate()
    return {"version": version, "words": _WORDS.pack(*words), "gauss_next": gauss_next}


def put_random(source: Any, state: Any) -> None:
    source.setstate((state["version"], _WORDS.unpack(state["words"]), state["gauss_next"]))


class _DryRun:
    """For finding out whether a tree can be saved, without saving it."""

    def foreign(self, value: object) -> dict[str, Any] | None:
        return {} if type(value).__module__.partition(".")[0] in ("numpy", "torch", "ml_dtypes") else None

    def long_bytes(self, value: Any) -> None:
        return None

    def files(self, value: Any) -> None:
        return None
