"""How ranks agree on ONE step at which all of them save: the rules, as pure functions over values.

A *cut* is that step. Rank 0 (the chief) opens it, moves it later if it must, and settles it; the others only say where
they are. No rank ever waits before the cut, which is what keeps jobs in lock-step from deadlock: a rank that stands at
step c has done its part of every step up to c, and the chief moves the cut past any rank that may already be inside a
later step without having heard of it. So, whatever the pattern in which ranks wait for each other inside their steps
(each step, every k-th, never), all ranks reach the cut, provided that step n of one rank waits for no more than step n
of another.

    each rank, at each boundary:   post(boundary)  ->  read the cut  ->  post(knows, arrived)
    chief, standing at the cut:    settled(cut, posts), until it is final; or further on, if it was moved

The order inside a boundary matters: a rank posts where it is *before* it reads the cut, and the chief writes the cut
before it reads the posts. One of the two therefore always sees the other.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    """Why there is a cut. A greater one includes the smaller ones."""

    NOTHING = 0
    PERIODIC = 1  # save in the background and train on
    COMMIT = 2  # the same, because it was asked for
    HOLD = 3  # save, then stand still until released
    LEAVE = 4  # save, then ranks that were told to stop end, and the others end to be started anew without them
    STOP = 5  # save, then end


class State(IntEnum):
    """How far a cut has come."""

    OPEN = 0
    FINAL = 1  # all ranks stand at the step: save now
    VOID = 2  # it did not come about: train on
    RELEASED = 3  # the hold is over: train on, or end if the kind has become STOP


class Cut(NamedTuple):
    """The step at which all ranks save, or are about to."""

    step: int  # may rise while the cut is open, never fall
    id: int  # counts cuts from 1; 0: there was none yet
    kind: Kind
    state: State


class RankPost(NamedTuple):
    """Where one rank is, as it says itself."""

    boundary: int  # steps it has done; it is working on the next one, unless it has arrived
    knows: int  # id of the newest cut it has read
    arrived: bool = False  # it stands still at `boundary`, where the cut it knows is
    standing: bool = False  # it stands still at `boundary` until there is a cut there: its program said "save now"
    done: bool = False  # it will train no more, and is not waited for
    wants: Kind = Kind.NOTHING  # what it asks the chief for


NO_CUT = Cut(step=0, id=0, kind=Kind.NOTHING, state=State.VOID)


def opened(previous: Cut, kind: Kind, *, boundary: int, others: Iterable[RankPost]) -> Cut:
    """The chief, standing at `boundary`, opens a cut at the first step that no rank can have passed."""
    return Cut(max(boundary, _first_unpassed(previous.id + 1, others)), previous.id + 1, kind, State.OPEN)


def raised(cut: Cut, kind: Kind) -> Cut:
    """An open cut that serves a greater purpose than it was opened for."""
    return cut._replace(kind=max(cut.kind, kind)) if cut.state is State.OPEN else cut


def settled(cut: Cut, others: Iterable[RankPost]) -> Cut:
    """What the chief, standing at the cut, makes of it: final if all ranks are there, later if one is past it.

    A rank that will train no more is not waited for. It brings no part of a checkpoint either, so a cut that is for a
    checkpoint only is void: the others are about to be through as well.
    """
    others = tuple(others)
    if cut.kind < Kind.HOLD and any(post.done for post in others):
        return cut._replace(state=State.VOID)
    if all(post.done or (post.knows == cut.id and post.arrived and post.boundary == cut.step) for post in others):
        return cut._replace(state=State.FINAL)
    return cut._replace(step=max(cut.step, _first_unpassed(cut.id, others)))


def posted(post: RankPost, cut: Cut) -> RankPost:
    """What a rank at a boundary posts once it has read `cut`."""
    return post._replace(knows=cut.id, arrived=cut.state is State.OPEN and post.boundary >= cut.step)


def _first_unpassed(cut_id: int, others: Iterable[RankPost]) -> int:
    """The first boundary at which every rank is certain to hear of the cut."""
    return max((post.boundary + (post.knows != cut_id) for post in others if not post.done), default=0)
