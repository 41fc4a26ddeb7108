"""The random number generators that a program uses without owning them: Python's, NumPy's global one, torch's.

Saved for each rank with every checkpoint, so that a run that was moved draws what it would have drawn. Only what the
program has imported is looked at. TensorFlow's global generator cannot be read and is not here; Keras layers keep their
own state, which travels with the model.
"""

import random
import sys
from typing import Any

from sterna.training.state.keepers import packed_random, put_random


def chance_now() -> dict[str, Any]:
    """A copy: drawing on does not change it."""
    state: dict[str, Any] = {"python": packed_random(random)}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and "numpy.random" in sys.modules:
        state["numpy"] = numpy.random.get_state(legacy=False)
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def put_chance(state: dict[str, Any]) -> None:
    """A library that was not in use when this was saved keeps its state, and so does a GPU that was not there."""
    if "python" in state:
        put_random(random, state["python"])
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if "numpy" in state and numpy is not None:
        numpy.random.set_state(state["numpy"])
    if "torch" in state and torch is not None:
        torch.set_rng_state(state["torch"])
    if "cuda" in state and torch is not None and torch.cuda.is_available():
        for device, saved in enumerate(state["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(saved, device)


def loader_chance(loader: Any) -> list[Any]:
    """State of the torch generators that a DataLoader and its sampler own; empty for anything else."""
    return [generator.get_state() for generator in _generators(loader)]


def put_loader_chance(loader: Any, states: list[Any]) -> None:
    """Give a DataLoader and its sampler the states that `loader_chance` took."""
    for generator, state in zip(_generators(loader), states, strict=False):
        generator.set_state(state)


def _generators(loader: Any) -> list[Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    owners = (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None))
    found: dict[int, Any] = {}
    for owner in owners:
        generator = getattr(owner, "generator", None)
        if isinstance(generator, torch.Generator):
            found[id(generator)] = generator
    return list(found.values())
