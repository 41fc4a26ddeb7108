"""How a program becomes a run: once per process, and only where it is asked to."""

import os

from sterna.protocol import WorkerIdentity
from sterna.training.ranks.worker import Settings
from sterna.training.run import Run

_current: Run | None = None


def attach(
    *,
    rng: bool = True,
    save_every_s: tuple[float, float] | None = (10.0, 600.0),
    keep: int = 2,
    patience_s: float = 600.0,
    metric: str = "",
    every_rank_reports: bool = False,
) -> Run:
    """The run that this process is part of. Calling it again gives the same one, until it is finished.

    rng           keep the state of random number generators (Python's, NumPy's global one, torch's) with checkpoints
    save_every_s  shortest and longest interval between periodic checkpoints; in between it follows from what a save
                  costs. None: only when ordered or asked to
    keep          how many checkpoints to keep
    patience_s    how long ranks wait for each other, before it counts as an error
    metric        which of the reported numbers is an evaluation's result; by default what STERNA_METRIC says, or the
                  best known name: eval_loss, val_accuracy, loss and the like, before others
    every_rank_reports  send every rank's evaluations to the monitor; by default only rank 0's
    """
    global _current
    if _current is None or _current._finished or _current._pid != os.getpid():
        settings = Settings(
            save_every_s=save_every_s,
            keep=keep,
            patience_s=patience_s,
            metric=metric,
            every_rank_reports=every_rank_reports,
        )
        _current = Run(WorkerIdentity.from_environment(), settings, rng=rng)
    return _current
