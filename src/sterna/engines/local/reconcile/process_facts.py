"""What is known of one process outside, and the one way in which that may change: forward.

Facts about a process come by several ways: answers to its start and its stop, its end as the warden pushes it, a
census, the answer to `forget`. They overtake each other. An end, for one, is noted the moment it is read from the
socket, while the answer that was read just before it waits for its asker's task to have its turn. So no order among
facts is relied on. A process's life has an order of its own, and a fact about an earlier part of it says nothing new:

    unheard of < starting < running < stopping < lost < failed < exited < forgotten

`Known` is the furthest part that any fact told of. What comes out is the same in whatever order facts come in.
"""

from dataclasses import dataclass

from sterna.engines.local.launch.warden.values import ProcessPhase, ProcessState

# How it ended is told by its warden. Lost is told by others that did not see the end, so an end in detail counts more.
_ORDER = (
    ProcessPhase.STARTING,
    ProcessPhase.RUNNING,
    ProcessPhase.STOPPING,
    ProcessPhase.LOST,
    ProcessPhase.FAILED,
    ProcessPhase.EXITED,
)
_RANK = {phase: rank for rank, phase in enumerate(_ORDER)}


@dataclass(frozen=True, slots=True)
class Known:
    state: ProcessState | None = None  # None: the warden never told of it, or has forgotten it
    forgotten: bool = False

    def told(self, state: ProcessState) -> "Known":
        """By the warden, whenever that was: an answer, a pushed end, its line in a census."""
        if self.forgotten or (self.state is not None and _further(self.state) >= _further(state)):
            return self
        return Known(state)

    def denied(self, uid: str) -> "Known":
        """It was held by the warden when this was asked, and the warden answers that it does not know of it."""
        lost = ProcessState(uid, ProcessPhase.LOST, None, 0.0, 0.0, message="the warden does not know of it any more")
        return self.told(lost)

    def forgot(self) -> "Known":
        """The warden was told to forget it, and has."""
        return Known(forgotten=True)


def _further(state: ProcessState) -> tuple[int, int, int]:
    """How far on in its life; within one part, hooks and notes only become more."""
    return _RANK[state.phase], len(state.hooks), len(state.notes)
