"""What can be kept of a program's variables, how it is taken from them, and how it is given back to them.

The file holds what a restricted load accepts: tensors, plain containers, plain values. torch is needed to write and to
read it; nothing here imports torch before that.
"""

import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from sterna.training.checkpoint.checkpoint_problems import short
from sterna.training.errors import Mismatch, RestoreFailed, TrainingError
from sterna.training.migrator.signal_protocol import Generation

_WRAPPERS = ("module.", "_orig_mod.")  # what DistributedDataParallel, DataParallel and compile put before every name


class Kind(StrEnum):
    """What a variable is, as far as saving and loading differ. Kept in the manifest."""

    MODULE = "module"
    OPTIMIZER = "optimizer"
    STATE = "state"  # anything else with state_dict and load_state_dict
    DICT = "dict"
    LIST = "list"
    TENSOR = "tensor"
    ARRAY = "array"
    PLAIN = "plain"  # a value that cannot be changed in place: it is saved and, on loading, left as the program set it


def kind_of(variable: object) -> Kind:
    """Frameworks are recognised where the program has imported them, and never imported."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(variable, torch.nn.Module):
        return Kind.MODULE
    if torch is not None and isinstance(variable, torch.optim.Optimizer):
        return Kind.OPTIMIZER
    if callable(getattr(variable, "state_dict", None)) and callable(getattr(variable, "load_state_dict", None)):
        return Kind.STATE
    if isinstance(variable, dict):
        return Kind.DICT
    if isinstance(variable, list):
        return Kind.LIST
    if torch is not None and isinstance(variable, torch.Tensor):
        return Kind.TENSOR
    if numpy is not None and isinstance(variable, numpy.ndarray):
        return Kind.ARRAY
    return Kind.PLAIN


def state_of(variable: Any) -> Any:
    """What of `variable` goes into the file. Nothing of it is copied."""
    if kind_of(variable) in (Kind.MODULE, Kind.OPTIMIZER, Kind.STATE):
        return variable.state_dict()
    return variable


def give_back(variable: Any, saved: Any, *, key: str) -> None:
    """Bring `variable` to what was saved, in place. Raises Mismatch when that is of another kind."""
    kind = kind_of(variable)
    match kind:
        case Kind.MODULE:
            _expect(isinstance(saved, Mapping), key, kind, saved)
            variable.load_state_dict(rewrapped(saved, variable.state_dict()))
        case Kind.OPTIMIZER | Kind.STATE:
            variable.load_state_dict(saved)
        case Kind.DICT:
            _expect(isinstance(saved, Mapping), key, kind, saved)
            variable.update(saved)
        case Kind.LIST:
            _expect(isinstance(saved, list), key, kind, saved)
            variable[:] = saved
        case Kind.TENSOR:
            _expect(kind_of(saved) is kind and saved.shape == variable.shape, key, kind, saved)
            variable.data.copy_(saved)
        case Kind.ARRAY:
            _expect(kind_of(saved) is kind and saved.shape == variable.shape, key, kind, saved)
            variable[...] = saved
        case Kind.PLAIN:
            warnings.warn(
                f"{key!r} is a {type(variable).__name__}, which cannot be changed in place: it stays as it is. "
                "Put it into a dict and register that.",
                stacklevel=3,
            )


def rewrapped(saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """`saved` under the names of `wanted`, when the two differ only by the wrappers around the module.

    Anything else is returned as it is: `load_state_dict` says best what does not fit.
    """
    if saved.keys() == wanted.keys():
        return saved
    name_by_bare = {_bare(name): name for name in wanted}
    if len(name_by_bare) != len(wanted) or {_bare(name) for name in saved} != name_by_bare.keys():
        return saved
    renamed = OrderedDict((name_by_bare[_bare(name)], value) for name, value in saved.items())
    versions = getattr(saved, "_metadata", None)
    if versions is not None:  # which version of its layout each submodule was saved with, by the submodule's path
        outer = _wrapping(wanted)
        renamed._metadata = {  # type: ignore[attr-defined]  # where torch itself puts it
            (outer + _bare(f"{path}." if path else "")).removesuffix("."): version for path, version in versions.items()
        }
    return renamed


def dump(state: Any) -> Callable[[Any], None]:
    """A writer of `state` for `shelf.write_aside`."""
    torch = _torch()

    def write(file: Any) -> None:
        torch.save(state, file)

    return write


def load(path: Path, *, map_location: Any, weights_only: bool) -> Any:
    """Read a checkpoint. Raises RestoreFailed when it holds what a restricted load does not accept."""
    torch = _torch()
    try:
        with torch.serialization.safe_globals(_numpy_names() if weights_only else []):
            return torch.load(path, map_location=map_location, weights_only=weights_only)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a file that was prepared to harm makes torch raise anything
        if type(error).__name__ != "UnpicklingError":
            raise RestoreFailed(f"{path} cannot be loaded: {type(error).__name__}: {short(error)}") from error
        raise RestoreFailed(
            f"{path} holds objects that are not loaded unless you ask for it ({_first_line(error)}): register their "
            "state as dict of plain values, or, if you trust the file, call load_ckpt(weights_only=False)"
        ) from error


class Saved:
    """`body` is a dict of keys (`migrator.register`) or a list in the order of the calls (`MigratableVariable`)."""

    def __init__(self, body: Any, generation: Generation) -> None:
        if isinstance(body, list):
            self.positional = True
            self._by_key: dict[str, Any] = {str(position): state for position, state in enumerate(body)}
        elif isinstance(body, Mapping):
            self.positional = False
            self._by_key = {str(key): state for key, state in body.items()}
        else:
            raise Mismatch(
                f"the checkpoint holds a {type(body).__name__}; expected a dict of variables or a list of them"
            )
        self._kinds = dict(generation.kinds)
        self._left = set(self._by_key)

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    @property
    def all_given(self) -> bool:
        """Every variable that was saved has gone back to where it came from."""
        return not self._left

    def check(self, key: str, variable: object) -> None:
        """Raises Mismatch when something else was saved under this key. Without a manifest only the shapes tell."""
        was, now = self._kinds.get(key), kind_of(variable)
        if was is not None and was != now:
            raise Mismatch(
                f"variable {key!r} was saved as {was} and is a {now} ({type(variable).__name__}) now: register the "
                "same variables in the same order, or under keys"
            )

    def give(self, key: str, variable: Any) -> None:
        """Bring `variable` to what was saved under `key`. Raises Mismatch."""
        self.check(key, variable)
        give_back(variable, self._by_key[key], key=key)
        self._left.discard(key)


def _numpy_names() -> list[Any]:
    """What a NumPy array or number is rebuilt with. A dict of metrics holds such numbers as often as not."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return []
    samples = [numpy.zeros(1), numpy.float64(0)]
    rebuilt_by = [sample.__reduce__()[0] for sample in samples]
    return [*rebuilt_by, numpy.ndarray, numpy.dtype, *{type(numpy.dtype(code)) for code in numpy.typecodes["All"]}]


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise TrainingError("torch cannot be imported, and checkpoints of the migrator are torch files") from error
    return torch


def _bare(name: str) -> str:
    while name.startswith(_WRAPPERS):
        name = name.removeprefix(next(wrapper for wrapper in _WRAPPERS if name.startswith(wrapper)))
    return name


def _wrapping(names: Mapping[str, Any]) -> str:
    first = next(iter(names), "")
    return first.removesuffix(_bare(first))


def _expect(fits: bool, key: str, kind: Kind, saved: object) -> None:
    if not fits:
        raise Mismatch(
            f"{key!r} is a {kind} now and a {_described(saved)} was saved: are the variables still the same?"
        )


def _described(saved: Any) -> str:
    shape = getattr(saved, "shape", None)
    return type(saved).__name__ + (f" of shape {tuple(shape)}" if shape is not None else "")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if "GLOBAL" in line or "Unsupported" in line), lines[0] if lines else "")
