"""Checkpoints of a training job: generations in a directory of its own, loadable whatever was killed while.

    store = CheckpointStore(directory, incarnation=3, rank=0, world_size=1)
    newest = store.newest()                                  # digests verified; store.skipped says what was not taken
    loaded = store.load(newest) if newest else None          # loaded.shared["model"], loaded.own["rng"]
    pending = store.begin_save({"model": model.state_dict()}, {"rng": ...}, step=120, about={"epoch": 2})
    pending.done(), pending.stall_s, pending.result(timeout_s=60)

Values are trees of plain Python, NumPy arrays and torch tensors: state is already extracted from live objects. Nothing
is ever pickled or unpickled here, and neither torch nor NumPy is imported unless the program has done so or their data
is to be loaded.
"""

from sterna.training.checkpoint.checkpoint_problems import CheckpointProblem, Damaged, Fenced, LoanBroken
from sterna.training.checkpoint.checkpoint_values import FilesToSave, Generation, Loaded, Saved, SavedFiles, Skipped
from sterna.training.checkpoint.fence import raise_fence
from sterna.training.checkpoint.lending import Loan, OptimizerLoan
from sterna.training.checkpoint.pending_save import PendingSave
from sterna.training.checkpoint.store import CheckpointStore

__all__ = [
    "CheckpointProblem",
    "CheckpointStore",
    "Damaged",
    "Fenced",
    "FilesToSave",
    "Generation",
    "Loaded",
    "Loan",
    "LoanBroken",
    "OptimizerLoan",
    "PendingSave",
    "Saved",
    "SavedFiles",
    "Skipped",
    "raise_fence",
]
