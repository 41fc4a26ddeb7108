"""pytorchjob-migration's interface: `migrator` and `MigratableVariable`, without its defects.

    from sterna.training import migrator

    migrator.register("model", model)
    migrator.register("optimizer", optimizer)
    migrator.register("metrics", metrics)
    migrator.listening()
    if migrator.resume:
        migrator.load_ckpt()

or, shorter,

    from sterna.training.migrator import MigratableVariable

    model = MigratableVariable(model)
    optimizer = MigratableVariable(optimizer, key="optimizer")

Importing it does nothing. `rank` may be set before the first use, by programs whose ranks neither the environment nor
torch's process group knows.
"""

from sterna.training.migrator.shim import Migrator

__all__ = [
    "MigratableVariable",
    "finish",
    "listening",
    "load_ckpt",
    "rank",
    "register",
    "save_ckpt",
    "step",
]

rank: int | None = None
resume: bool  # these two are asked anew each time, see __getattr__
signal: str

_migrator = Migrator(rank=lambda: rank)

register = _migrator.register
listening = _migrator.listening
save_ckpt = _migrator.save_ckpt
load_ckpt = _migrator.load_ckpt
step = _migrator.step
finish = _migrator.finish
MigratableVariable = _migrator.variable


def __getattr__(name: str) -> object:
    if name == "resume":
        return _migrator.resume
    if name == "signal":
        return _migrator.signal
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
