"""Ranks coming to a common step, by the rules of `cut` over a `Board`. A world of one agrees with itself at once."""

import time
from collections.abc import Sequence
from typing import Protocol

from sterna.training.errors import NotEverybodyCame
from sterna.training.patience import Patience
from sterna.training.ranks.board import Board
from sterna.training.ranks.cut import NO_CUT, Cut, Kind, RankPost, State, opened, posted, raised, settled

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.0005, 0.02
_LOOKS_BEFORE_MOVING = 3  # a rank that has posted its boundary reads the cut within microseconds: no need to run on


class Agreement(Protocol):
    """What a step boundary asks of it."""

    @property
    def absent(self) -> Sequence[int]:
        """Rank 0 only: ranks that had ended before the latest cut, and so bring no part of a checkpoint to it."""

    def at_boundary(self, boundary: int, want: Kind, until_s: float | None = None) -> Cut | None:
        """The cut at which all ranks stand now, or None: train on. May wait for others, never before the cut.

        No longer than `until_s` (monotonic) where this rank has to be gone by then: a cut that has not come about is
        given up, while running out of patience is an error.
        """

    def here(self, boundary: int) -> Cut:
        """The cut at this very boundary, which all ranks ask for: their programs said "save now"."""

    def release(self, kind: Kind) -> None:
        """Rank 0 only: end a hold. With Kind.STOP all ranks end, otherwise they train on."""

    def released(self) -> Kind | None:
        """Other ranks only: what the hold ended in; None while it lasts."""

    def close(self) -> None:
        """This rank will train no more."""


class Alone:
    """A world of one rank, or a rank that trains independently."""

    absent: Sequence[int] = ()

    def __init__(self) -> None:
        self._cuts = 0

    def at_boundary(self, boundary: int, want: Kind, until_s: float | None = None) -> Cut | None:
        if want is Kind.NOTHING:
            return None
        self._cuts += 1
        return Cut(boundary, self._cuts, want, State.FINAL)

    def here(self, boundary: int) -> Cut:
        self._cuts += 1
        return Cut(boundary, self._cuts, Kind.COMMIT, State.FINAL)

    def release(self, kind: Kind) -> None:
        return

    def released(self) -> Kind | None:
        return None  # there is no other rank to hold or release it

    def close(self) -> None:
        return


class Chief:
    """Rank 0's side: opens cuts, moves and settles them."""

    def __init__(self, board: Board, *, patience_s: float) -> None:
        self._board = board
        self._patience_s = patience_s
        self._cut = NO_CUT
        self.absent: Sequence[int] = ()

    def at_boundary(self, boundary: int, want: Kind, until_s: float | None = None) -> Cut | None:
        others = self._board.others()
        want = max((want, *(post.wants for post in others)))
        if self._cut.state is State.OPEN:
            self._write(raised(self._cut, want))
        elif want is Kind.NOTHING or any(post.arrived for post in others):
            return None  # in the second case a rank has not yet read how the last cut ended
        elif not self._write(opened(self._cut, want, boundary=boundary, others=others)):
            return None
        if self._is_at(boundary):
            self._stand_at(boundary, until_s)
        return self._cut if self._cut.state is State.FINAL and self._cut.step == boundary else None

    def _stand_at(self, boundary: int, until_s: float | None) -> None:
        looks = 0
        for in_time in _waiting(self._patience_s, until_s):
            others = self._board.others()
            after = settled(self._cut, others)
            self.absent = [rank for rank, post in enumerate(others, start=1) if post.done]
            looks = looks + 1 if after.step > self._cut.step else 0
            if after.state is not State.OPEN or looks >= _LOOKS_BEFORE_MOVING:
                self._write(after)
            if not self._is_at(boundary):
                return
            if not in_time:
                self._write(self._cut._replace(state=State.VOID))
                return

    def _is_at(self, boundary: int) -> bool:
        return self._cut.state is State.OPEN and self._cut.step <= boundary

    def here(self, boundary: int) -> Cut:
        if self._cut.state is State.OPEN:
            self._write(self._cut._replace(state=State.VOID))  # it lies ahead: no rank gets there before this is done
        for in_time in _waiting(self._patience_s):
            others = self._board.others()
            late = [post for post in others if not (post.done or (post.standing and post.knows == self._cut.id))]
            if not late and self._write(Cut(boundary, self._cut.id + 1, Kind.COMMIT, State.FINAL)):
                break
            if not in_time:
                raise NotEverybodyCame(
                    f"waited {self._patience_s:.0f} s at step {boundary} for {len(late)} other ranks to call commit();"
                    " outside a steps() loop all ranks must call it"
                )
        return self._cut

    def release(self, kind: Kind) -> None:
        self._write(self._cut._replace(kind=max(kind, self._cut.kind), state=State.RELEASED))

    def released(self) -> Kind | None:
        return None

    def _write(self, cut: Cut) -> bool:
        """Whether the cut is as given now. If not, no other rank has seen it, and it does not count."""
        if cut != self._cut and self._board.write_cut(cut):
            self._cut = cut
        return cut == self._cut

    def close(self) -> None:
        if self._cut.state is State.OPEN:
            self._write(self._cut._replace(state=State.VOID))
        self._board.close()


class Member:
    """Any other rank's side: says where it is and does as the cut says."""

    absent: Sequence[int] = ()

    def __init__(self, board: Board, *, patience_s: float) -> None:
        self._board = board
        self._patience_s = patience_s
        self._over = 0  # id of the newest cut that is behind us, taken or void
        self._post = RankPost(boundary=-1, knows=0)

    def at_boundary(self, boundary: int, want: Kind, until_s: float | None = None) -> Cut | None:
        self._put(RankPost(boundary, self._post.knows, wants=want))
        for in_time in _waiting(self._patience_s, until_s):
            cut = self._board.cut()
            if cut.id == self._over:
                return None
            if cut.state is not State.OPEN:
                return self._ended(cut, boundary, want)
            if self._post.knows != cut.id or not self._post.arrived:
                self._put(posted(self._post, cut))
            if boundary < cut.step:
                return None
            if not in_time:
                if until_s is not None and time.monotonic() >= until_s:
                    return None
                raise NotEverybodyCame(
                    f"waited {self._patience_s:.0f} s at step {boundary} for rank 0 to say whether all ranks are there"
                )
        return None

    def here(self, boundary: int) -> Cut:
        self._put(RankPost(boundary, self._post.knows, standing=True))
        for in_time in _waiting(self._patience_s):
            cut = self._board.cut()
            if cut.id != self._over and cut.state is State.FINAL and cut.step == boundary:
                break
            if cut.id != self._over and cut.state is State.VOID:
                self._over = cut.id
                self._put(RankPost(boundary, cut.id, standing=True))
            if not in_time:
                raise NotEverybodyCame(
                    f"waited {self._patience_s:.0f} s at step {boundary} for rank 0 to call commit();"
                    " outside a steps() loop all ranks must call it"
                )
        self._over = cut.id
        self._put(RankPost(boundary, cut.id))
        return cut

    def _ended(self, cut: Cut, boundary: int, want: Kind) -> Cut | None:
        """Leave a cut behind, and show it, so that the next one can be opened. The cut itself if it is to be taken."""
        taken = self._post.arrived and self._post.knows == cut.id and cut.step == boundary
        taken = taken and cut.state is not State.VOID
        self._over = cut.id
        self._put(RankPost(boundary, cut.id, wants=Kind.NOTHING if taken and want <= cut.kind else want))
        return cut if taken else None

    def release(self, kind: Kind) -> None:
        return

    def released(self) -> Kind | None:
        cut = self._board.cut()
        if cut.id != self._over:
            return Kind.NOTHING  # rank 0 is training again, and further than this hold
        return cut.kind if cut.state is State.RELEASED else None

    def _put(self, post: RankPost) -> None:
        if post != self._post and self._board.write_post(post):
            self._post = post

    def close(self) -> None:
        self._put(self._post._replace(arrived=False, standing=False, done=True, wants=Kind.NOTHING))
        self._board.close()


def _waiting(patience_s: float, until_s: float | None = None) -> Patience:
    return Patience(patience_s, until_s=until_s, first_s=_FIRST_WAIT_S, longest_s=_LONGEST_WAIT_S)
