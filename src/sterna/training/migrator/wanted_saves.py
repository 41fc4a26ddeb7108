"""When a save is wanted, and in which thread it is done: the trainer's at a step boundary, or else the listener's.

Saves are wanted by the signal file, by Sterna's orders, and by the clock. A save that fails is logged and tried again a
little later; it never disturbs training.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sterna.protocol import CommittedCheckpoint, Order, Orders
from sterna.training.checkpoint import Fenced
from sterna.training.errors import Superseded
from sterna.training.migrator.boundary import Boundary, Progress
from sterna.training.migrator.console import say
from sterna.training.migrator.engine_link import Link
from sterna.training.migrator.owner import Contents, Owner
from sterna.training.migrator.session import Session
from sterna.training.migrator.signal_protocol import Generation, Request, Wish

_LOOK_WHILE_WANTED_S = 0.1
_FREEZE_AFTER_S = 1.0  # without a boundary: the program does something else for long
_OVERDUE_AFTER_S = 5.0  # without an optimizer step: any forward pass will do
_TRY_AGAIN_AFTER_S = 5.0
_COST_SHARE = 0.01  # of the time, for periodic saves


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A save that is wanted, since when, and by which request or order."""

    since_s: float
    request: Request | None = None
    orders: Orders | None = None
    aloud: bool = True  # a hook or an order asked for it


class Saving:
    """`variables` are those that are registered, `contents` is what to save of them as of the moment it is called."""

    def __init__(
        self,
        session: Session,
        boundary: Boundary,
        progress: Progress,
        variables: Callable[[], Mapping[str, Any]],
        contents: Callable[[], Contents],
        *,
        every_s: float | None,
    ) -> None:
        self._session = session
        self._boundary = boundary
        self._variables = variables
        self._contents = contents
        self._progress = progress
        self._every_s = every_s
        self._wanted: Wanted | None = None
        self._serving = threading.RLock()
        self._parked = False
        self._over = False  # another process owns the files: nothing is saved any more
        self._not_before_s = 0.0
        self._saved_s = time.monotonic()
        self._saved_step = -1
        self._cost_s = 0.0

    @property
    def wanted(self) -> bool:
        return self._wanted is not None

    def at_boundary(self) -> None:
        """In the thread that trains."""
        if self._wanted is not None:
            self._serve(still=True)

    def now(self) -> Generation:
        """The program itself asks, so this is a boundary. Raises what goes wrong."""
        owner = self._session.owner
        assert owner is not None
        with self._serving:
            return self._save(owner, request=owner.wish()[1], still=True)

    def look(self) -> float:
        """In the listener's thread: what is wanted? Answers after how many seconds to look again; 0: as usual."""
        if not self._serving.acquire(blocking=False):
            return _LOOK_WHILE_WANTED_S  # a save is under way
        try:
            self._take_wishes()
            self.tell_progress()
        finally:
            self._serving.release()
        wanted = self._wanted
        if wanted is None:
            return 0.0
        waited_s = time.monotonic() - wanted.since_s
        if not self._boundary.watched:
            self._serve(still=False)
        elif waited_s > _FREEZE_AFTER_S:
            self._boundary.overdue = waited_s > _OVERDUE_AFTER_S
            with self._boundary.freeze() as frozen:
                if frozen:
                    self._serve(still=False)  # parameters stand still, but the program may still change its dicts
        return _LOOK_WHILE_WANTED_S

    def tell_progress(self) -> None:
        """Nothing before the first step is done, where steps are known."""
        begun = self._boundary.steps > 0 or not self._boundary.watched
        if self._session.link is not None and begun and not self._parked:
            self._session.link.training(_numbers_in(self._variables()))

    def _take_wishes(self) -> None:
        if self._over or time.monotonic() < self._not_before_s:
            return
        owner, link = self._session.owner, self._session.link
        orders = None if link is None else link.pending()
        if owner is None:
            if link is not None:
                self._follow(link, orders)
            return
        if self._parked or not owner.restored:
            orders = None  # in the one case it is dealt with, in the other it waits for the first boundary
        try:
            owner.beat()
            wish, request = owner.wish()
        except (Superseded, OSError) as error:
            self._failed(error)
            return
        if wish is Wish.ANSWER or (wish is Wish.SAVE and self._parked):
            owner.answer(request)
        asked = wish is Wish.SAVE and not self._parked
        if asked or orders is not None or self._due(owner):
            before = self._wanted
            self._wanted = Wanted(
                since_s=time.monotonic() if before is None else before.since_s,
                request=request if asked else None,
                orders=orders,
                aloud=asked or orders is not None,
            )

    def _follow(self, link: Link, orders: Orders | None) -> None:
        """A rank that owns no files: rank 0 saves, and while it stands still the other ranks cannot train on."""
        if orders is not None:
            link.fulfilled(orders)
            self._parked = orders.order is not Order.COMMIT
        elif self._parked and link.released():
            self._parked = False

    def _due(self, owner: Owner) -> bool:
        """Whether a periodic save is due: only of what has changed, and within their share of the time."""
        if self._every_s is None or not owner.restored or self._parked:
            return False
        if self._boundary.watched and self._progress.step == self._saved_step:
            return False
        return time.monotonic() - self._saved_s >= max(self._every_s, self._cost_s / _COST_SHARE)

    def _serve(self, *, still: bool) -> None:
        with self._serving:
            wanted, owner, link = self._wanted, self._session.owner, self._session.link
            if wanted is None or owner is None:
                return
            self._wanted = None
            self._boundary.overdue = False
            if wanted.aloud:
                say("save migrate ckpt")
            try:
                generation = self._save(owner, request=wanted.request, still=still)
            except Exception as error:  # a save that fails must not end the program's training
                self._failed(error)
                return
            if wanted.aloud:
                say("saved ckpt!" if generation.untorn else "saved ckpt! (variables changed during the save)")
            if wanted.orders is None or link is None:
                return
            link.fulfilled(wanted.orders)
            if wanted.orders.order is Order.COMMIT:
                return
            self._parked = True
        link.park()
        self._parked = False

    def _save(self, owner: Owner, *, request: Request | None, still: bool) -> Generation:
        began_s = time.monotonic()
        step = self._progress.step
        generation = owner.save(self._contents, step=step, still=still, request=request)
        self._saved_s = time.monotonic()
        self._saved_step = step
        self._cost_s = self._saved_s - began_s
        if self._session.link is not None:
            self._session.link.saved(_committed(generation, self._cost_s), save_s=self._cost_s)
        return generation

    def _failed(self, error: Exception) -> None:
        self._not_before_s = time.monotonic() + _TRY_AGAIN_AFTER_S
        self._over = isinstance(error, Superseded | Fenced)
        problem = f"{type(error).__name__}: {error}"
        say(f"could not save ckpt: {problem}")
        if self._session.link is not None:
            self._session.link.problem(problem)


def _committed(generation: Generation, stall_s: float) -> CommittedCheckpoint:
    return CommittedCheckpoint(
        generation=generation.number,
        step=generation.step,
        bytes=generation.bytes,
        digest=generation.digest,
        stall_s=stall_s,
        at_mono_s=time.monotonic(),
    )


def _numbers_in(variables: Mapping[str, Any]) -> dict[str, float]:
    """The numbers in the program's own dicts of metrics."""
    return {
        str(name): value
        for variable in tuple(variables.values())
        if isinstance(variable, dict)
        for name, value in tuple(variable.items())
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
