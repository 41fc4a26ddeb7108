"""Which generation to load: the newest complete one that is still what was written and not made behind the fence."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sterna.training.checkpoint.fence import FILE, Fence, FenceLock, put_up, read_fence
from sterna.training.checkpoint.generations import Manifest, being_read, found, order_of
from sterna.training.checkpoint.problems import CheckpointProblem, Damaged
from sterna.training.checkpoint.values import Skipped


@dataclass(frozen=True, slots=True)
class Choice:
    manifest: Manifest | None
    skipped: tuple[Skipped, ...]  # newer than the chosen one, newest first
    damaged: tuple[str, ...]  # those of them that will never be loadable again


def choose(directory: Path, verify: Callable[[Manifest], None]) -> Choice:
    """`verify` raises CheckpointProblem for a generation that must not be loaded."""
    fence, skipped = fence_for_reading(directory)
    damaged: list[str] = []
    for one in found(directory, fence):
        if isinstance(one, Skipped):
            skipped.append(one)
            continue
        try:
            with being_read(one.generation.path):
                verify(one)
            return Choice(one, tuple(skipped), tuple(damaged))
        except Damaged as problem:
            skipped.append(Skipped(one.generation.name, str(problem), lost=True))
            damaged.append(one.generation.name)
        except (CheckpointProblem, OSError) as problem:
            skipped.append(Skipped(one.generation.name, str(problem), lost=True))
    return Choice(None, tuple(skipped), tuple(damaged))


def fence_for_reading(directory: Path) -> tuple[Fence, list[Skipped]]:
    """A fence that cannot be read keeps everybody from writing, but is no reason to lose what can be loaded."""
    try:
        return read_fence(directory), []
    except (CheckpointProblem, OSError) as problem:
        return Fence(), [Skipped(FILE, str(problem))]


def raise_fence(directory: Path, incarnation: int) -> None:
    """From now on only `incarnation` and later ones may write here. Never lowers the fence; safe to repeat.

    Call it once everything that older incarnations were asked to save is saved: what they complete afterwards is
    ignored. Raises CheckpointProblem where the directory cannot be written.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FenceLock(directory):
            try:
                fence = read_fence(directory)
            except Damaged:
                fence = Fence()  # whoever raises it knows best who may write
            if incarnation <= fence.lowest:
                return
            put_up(directory, fence, incarnation, _newest(directory, fence))
    except OSError as error:
        raise CheckpointProblem(f"the fence in {directory} cannot be raised: {error.strerror}") from error


def _newest(directory: Path, fence: Fence) -> tuple[int, int] | None:
    """Order of the newest that is complete. One that cannot be read counts: the reason may pass, the fence does not."""
    for one in found(directory, fence):
        if isinstance(one, Manifest):
            return one.generation.order
        if one.lost:
            return order_of(one.name)
    return None
