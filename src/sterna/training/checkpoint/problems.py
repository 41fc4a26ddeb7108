"""What can go wrong with a checkpoint, as exceptions. All of them leave training free to go on."""


class CheckpointProblem(Exception):
    """Something about a checkpoint is not as it should be. The message names the file or value and what would help."""


class Fenced(CheckpointProblem):
    """A newer incarnation (or another process with the same rank) has taken over: this one must write no more."""


class LoanBroken(CheckpointProblem):
    """Lent memory was changed before it was copied. This save is dropped; later ones do not borrow."""


class Damaged(CheckpointProblem):
    """What is on disk is not what was written: a digest, a bound or a name does not hold. Never loaded."""
