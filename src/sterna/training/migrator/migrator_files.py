"""Where the migrator keeps its files, and the few settings it takes, all from the environment.

| variable | without it |
|---|---|
| `MIGRATION_CKPT_PATH` | `./ckpts/migration.pth`; inside Sterna in the job's checkpoint directory |
| `MIGRATION_SIGNAL_PATH` | `./ckpts/signal`; inside Sterna beside the checkpoint |
| `MIGRATION_EVERY_S` | inside Sterna a checkpoint at least every 300 s of training, elsewhere only when asked |
| `MIGRATION_MEET_S` | ranks wait 300 s for each other |

Inside Sterna a path that is given is scoped by the job's id, so that two jobs with the same manifest do not write to
the same files. The id stays the same when a job is deleted and submitted again, so it finds its checkpoint.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sterna.protocol import WorkerIdentity
from sterna.training.errors import TrainingError

CKPT_PATH = "MIGRATION_CKPT_PATH"
SIGNAL_PATH = "MIGRATION_SIGNAL_PATH"
EVERY_S = "MIGRATION_EVERY_S"
MEET_S = "MIGRATION_MEET_S"

_EVERY_INSIDE_S = 300.0
_MEET_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratorFiles:
    """One job's files. Everything lies beside the two that the variables name."""

    checkpoint: Path
    signal: Path

    @property
    def previous(self) -> Path:
        return _beside(self.checkpoint, "previous")

    @property
    def damaged(self) -> Path:
        return _beside(self.checkpoint, "damaged")

    @property
    def manifest(self) -> Path:
        return _beside(self.checkpoint, "json")

    @property
    def state(self) -> Path:
        return _beside(self.signal, "state.json")

    @property
    def request(self) -> Path:
        return _beside(self.signal, "request.json")

    @property
    def ranks(self) -> Path:
        """A directory in which the ranks find each other."""
        return _beside(self.signal, "ranks")

    def make_directories(self) -> None:
        """Raises TrainingError where that is not possible."""
        for directory in (self.checkpoint.parent, self.signal.parent):
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise TrainingError(
                    f"{directory} cannot be made ({error}): set {CKPT_PATH} and {SIGNAL_PATH}"
                ) from error

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Where this process keeps its files. Raises BadEnvironment."""
        given = os.environ if environment is None else environment
        checkpoint = Path(given.get(CKPT_PATH) or "./ckpts/migration.pth").absolute()
        signal = Path(given.get(SIGNAL_PATH) or "./ckpts/signal").absolute()
        who = WorkerIdentity.from_environment(given)
        if who.inside:
            scope = who.job.replace("/", ".")
            checkpoint = checkpoint.parent / scope / checkpoint.name
            if not given.get(CKPT_PATH) and who.checkpoint_dir is not None:
                checkpoint = who.checkpoint_dir.absolute() / "migration.pth"
            asked = given.get(SIGNAL_PATH)
            signal = signal.parent / scope / signal.name if asked else checkpoint.with_name("signal")
        return cls(checkpoint=checkpoint, signal=signal)


def every_s(environment: Mapping[str, str] | None = None) -> float | None:
    """How often to save unasked. None: never."""
    given = os.environ if environment is None else environment
    inside = WorkerIdentity.from_environment(given).inside
    return _seconds(given, EVERY_S, default=_EVERY_INSIDE_S if inside else 0.0) or None


def meet_s(environment: Mapping[str, str] | None = None) -> float:
    """How long ranks wait for each other."""
    return _seconds(os.environ if environment is None else environment, MEET_S, default=_MEET_S)


def _seconds(given: Mapping[str, str], name: str, *, default: float) -> float:
    text = given.get(name)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise TrainingError(f"{name} is {text!r}; expected a number of seconds, 0 or more")
    return seconds


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}.{suffix}")
