"""What is asked of one rank, by orders in its mailbox and by SIGTERM, and what of it is answered already."""

import time
from typing import NamedTuple

from sterna.protocol import Order, Orders, WorkerIdentity, read_status
from sterna.training.orders.notices import Notices
from sterna.training.orders.stopping import Stopping
from sterna.training.ranks.cut import Cut, Kind

_KINDS = {Order.RUN: Kind.NOTHING, Order.COMMIT: Kind.COMMIT, Order.HOLD: Kind.HOLD, Order.STOP: Kind.STOP}
_LEAVE_IT_TO_RANK_0_S = 0.25  # the same order reaches all ranks, and rank 0 acts on its own: others need not ask
_MEET_ALL_THE_SAME_S = 5.0  # a gang told to stop on its way in stops at its first boundary, if it still comes that far


class Answer(NamedTuple):
    covered: bool  # the latest order is fulfilled by the cut
    told: bool  # this rank itself was told to stop, not only others


class Demands:
    """`leads`: this rank acts for all, or for itself alone, and need not leave anything to rank 0."""

    def __init__(self, identity: WorkerIdentity, *, leads: bool) -> None:
        self.stopping = Stopping(grace_s=identity.grace_s)
        self._identity = identity
        self._leads = leads
        self._notices = Notices(identity)
        self._stop_kind = Kind.LEAVE if identity.elastic else Kind.STOP
        self._asked_s: float | None = None  # since when there is an order that rank 0 might take care of
        self.answered = self._answered_before()  # seq of the last order that is taken care of, or being saved for

    def look(self) -> Orders:
        """The latest orders; one to stop starts the clock of `stopping`."""
        now_s = time.monotonic()
        orders = self._notices.look(now_s)
        if orders.seq > self.answered:
            self.stopping.heed(orders, now_s)
        return orders

    def wait(self, at_most_s: float) -> None:
        """Until the engine sends a wake, or so long."""
        self._notices.wait(at_most_s)

    def wanted(self, now_s: float) -> Kind:
        """What this rank asks for at a boundary. An order to run is answered by being there."""
        orders = self.look()
        want = self._stop_kind if self.stopping.signalled else Kind.NOTHING
        if orders.seq > self.answered:
            if orders.order is Order.RUN:
                self.answered = orders.seq
            elif self._leads or self._asked_for_long(now_s):
                want = max(want, self._kind_of(orders.order))
        return want

    def answer(self, cut: Cut) -> Answer:
        """A cut is being taken: what it does for the latest order."""
        orders = self.look()
        covered = orders.seq > self.answered and self._kind_of(orders.order) <= cut.kind
        if covered:
            self.answered = orders.seq
        self._asked_s = None
        return Answer(covered, self.stopping.signalled or (covered and orders.order is Order.STOP))

    def answer_all(self) -> int:
        """There is nothing to do about any of them. The number of the latest."""
        self.answered = max(self.answered, self._notices.orders.seq)
        return self.answered

    def told_to_stop(self) -> bool:
        """By a signal, or by an order that is not answered yet."""
        orders = self.look()
        return self.stopping.signalled or (orders.seq > self.answered and orders.order is Order.STOP)

    def should_leave_meeting(self) -> bool:
        """Whether to wait no longer for ranks that have yet to come. Nothing was trained, so nothing would be lost.

        In an elastic launch the others go on without this one, and find together sooner if it leaves with their
        knowledge, at the first boundary.
        """
        if not self.told_to_stop():
            return False
        now_s = time.monotonic()
        if self._identity.elastic and self.stopping.give_up_s is not None:
            return self.stopping.too_late(now_s)
        return self.stopping.told_for_s(now_s) > _MEET_ALL_THE_SAME_S

    def kind_ending_hold(self) -> Kind | None:
        """Leading rank, standing still: what the hold ends in. None: it lasts; a newer order may have said so again."""
        orders = self.look()
        if self.stopping.signalled:
            return Kind.STOP
        if orders.seq <= self.answered:
            return None
        self.answered = orders.seq
        return None if orders.order is Order.HOLD else _KINDS[orders.order]

    def late_hold(self) -> bool:
        """Another rank, standing still with all the others: whether its own order to do so has come only now."""
        orders = self.look()
        if orders.seq <= self.answered or orders.order is not Order.HOLD:
            return False
        self.answered = orders.seq
        return True

    def close(self, *, listening: bool) -> None:
        """`listening`: the process is about to end because it was told to, and may be told again."""
        self._notices.close()
        if not listening:
            self.stopping.close()

    def _kind_of(self, order: Order) -> Kind:
        return self._stop_kind if order is Order.STOP else _KINDS[order]

    def _asked_for_long(self, now_s: float) -> bool:
        if self._asked_s is None:
            self._asked_s = now_s
        return now_s - self._asked_s >= _LEAVE_IT_TO_RANK_0_S

    def _answered_before(self) -> int:
        """What a process before this one had acknowledged. An engine orders each process anew to stop.

        Where there is no engine, an order that is answered already came from a hook of a container that is gone by now.
        """
        assert self._identity.mailbox is not None
        before, orders = read_status(self._identity.mailbox), self._notices.look(time.monotonic())
        ack = before.ack if before is not None else 0
        anew = self._identity.wake is not None and orders.order in (Order.STOP, Order.HOLD)
        return min(ack, orders.seq - 1) if anew else ack
