"""What the SDK raises on purpose. The message says what happened to which object, and what would help."""


class TrainingError(Exception):
    """Base of them all."""


class Unregistrable(TrainingError, TypeError):
    """This object cannot be saved and restored as it is; the message names its key and what would do."""


class Mismatch(TrainingError):
    """A checkpoint and the program do not fit together: another shape, another data order."""


class RestoreFailed(TrainingError):
    """There are checkpoints, and none of them could be loaded by every rank. Nothing was overwritten."""


class NotEverybodyCame(TrainingError, TimeoutError):
    """The ranks did not find together in time; the message says who is missing."""


class Superseded(TrainingError):
    """A newer incarnation of this job has taken over: this process must save no more, and should end."""


class MembersLeft(TrainingError):
    """Members of an elastic launch were told to stop. All is saved; the launcher starts the remaining ones anew."""
