"""How much work a job has left: as its program says, else as its owner declared, else as jobs like it took."""


def work_total(*, done: float, told: float | None, epoch: int, declared_epochs: float | None) -> float | None:
    """All of its work, in the units that its program counts. None: neither program nor owner says.

    `told` is the program's own total and `epoch` how far it has come. An owner declares epochs; where the program
    counts something else, what it did per epoch so far says how much that is.
    """
    if told is not None or declared_epochs is None:
        return told
    if not done:
        return declared_epochs
    return declared_epochs * done / epoch if epoch > 0 else None


def work_left(*, total: float | None, done: float, usual: float | None) -> float | None:
    """What is left of `total`, else of what jobs like it usually took. None: it cannot be told."""
    if total is None and usual is not None and done < usual:  # else it is longer than those before it
        total = usual
    return None if total is None else max(0.0, total - done)
