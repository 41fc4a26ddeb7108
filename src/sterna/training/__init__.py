"""The SDK that training code imports: save, resume, report, be moved. Standard library only, nothing on import.

    from sterna import training

    run = training.attach()                     # outside Sterna every call does nothing
    run.register(model=model, optimizer=optimizer, metrics=metrics)
    run.restore()                               # newest complete checkpoint, all ranks agree on the step
    for epoch, batch in run.steps(loader, epochs=10):
        ...
        run.report(loss=loss)
        if run.should_stop():                   # a stop was ordered and is committed; the loop ends by itself, too
            break

torch, TensorFlow and NumPy are recognised when the program already uses them, and never imported from here.
"""

from sterna.training.data.shards import Shards
from sterna.training.errors import (
    MembersLeft,
    Mismatch,
    NotEverybodyCame,
    RestoreFailed,
    Superseded,
    TrainingError,
    Unregistrable,
)
from sterna.training.run import Restored, Run, attach

__all__ = [
    "MembersLeft",
    "Mismatch",
    "NotEverybodyCame",
    "RestoreFailed",
    "Restored",
    "Run",
    "Shards",
    "Superseded",
    "TrainingError",
    "Unregistrable",
    "attach",
]
