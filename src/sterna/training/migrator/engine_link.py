"""The wire to Sterna's engine, for programs that know nothing of it: orders in, status out.

The SDK's own `Notices` and `Outbox`, and what a migrator makes of the orders. Outside Sterna there is none of this.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from sterna.protocol import CommittedCheckpoint, Order, Orders, WorkerIdentity, WorkerPhase, read_status
from sterna.training.orders.notices import Notices
from sterna.training.orders.outbox import Outbox

_LOOK_S = 0.2  # how often to look by oneself while standing still: a wake may be lost


class Link:
    """One process's wire. Only the first process of a worker speaks; the others just listen.

    `facts` gives the fields of the status that change with every step.
    """

    def __init__(self, who: WorkerIdentity, *, facts: Callable[[], dict[str, Any]]) -> None:
        assert who.mailbox is not None
        self._notices = Notices(who)
        before = read_status(who.mailbox)  # of a process that torchrun has replaced by this one
        self._outbox = Outbox(who, ack=0 if before is None else before.ack, facts=facts)
        self._outbox.tell()

    def hold(self) -> None:
        """Stand by until ordered to run. Told to stop before it has begun, a worker just stands until it is ended."""
        while (orders := self._look()).order in (Order.HOLD, Order.STOP):
            phase = WorkerPhase.READY if orders.order is Order.HOLD else WorkerPhase.COMMITTED
            if (phase, orders.seq) != (self._outbox.status.phase, self._outbox.status.ack):
                self._outbox.tell(phase=phase, ack=orders.seq)
            self.wait(_LOOK_S)
        self._outbox.tell(phase=WorkerPhase.RESTORING)

    def restored(self, *, step: int, load_s: float) -> None:
        """Note for the next status what was loaded."""
        self._outbox.note(restored_step=step, load_s=load_s)

    def training(self, numbers: Mapping[str, float]) -> None:
        """Training is under way, so an order to run is fulfilled."""
        orders, status = self._look(), self._outbox.status
        ack = max(status.ack, orders.seq) if orders.order is Order.RUN else status.ack
        self._outbox.report(dict(numbers))
        if (WorkerPhase.TRAINING, ack) != (status.phase, status.ack):
            self._outbox.tell(phase=WorkerPhase.TRAINING, ack=ack)

    def pending(self) -> Orders | None:
        """An order that needs a checkpoint and has not got it yet."""
        orders = self._look()
        return orders if orders.seq > self._outbox.status.ack and orders.order is not Order.RUN else None

    def saved(self, checkpoint: CommittedCheckpoint, *, save_s: float) -> None:
        """Tell that a checkpoint is durable."""
        self._outbox.tell(checkpoint=checkpoint, save_s=save_s, problem=None)

    def fulfilled(self, orders: Orders) -> None:
        """The state that `orders` asked for is durable."""
        self._outbox.tell(
            phase=WorkerPhase.TRAINING if orders.order is Order.COMMIT else WorkerPhase.COMMITTED, ack=orders.seq
        )

    def released(self) -> bool:
        """Whether a stop or hold has been taken back."""
        orders = self._look()
        return orders.seq > self._outbox.status.ack and orders.order in (Order.RUN, Order.COMMIT)

    def park(self) -> None:
        """Stand still after a stop or hold, until the process is ended from outside or told to go on."""
        while not self.released():
            orders = self._look()
            if orders.seq > self._outbox.status.ack:  # a hold has become a stop, or the reverse
                self._outbox.tell(ack=orders.seq)
            self.wait(_LOOK_S)
        self._outbox.tell(phase=WorkerPhase.TRAINING)

    def problem(self, text: str) -> None:
        """Tell why nothing could be saved."""
        self._outbox.tell(problem=text)

    def finished(self) -> None:
        """Tell that the program came to its end, unless it was stopped."""
        if self._outbox.status.phase is not WorkerPhase.COMMITTED:  # one that was stopped has not finished
            self._outbox.tell(phase=WorkerPhase.FINISHED)

    def wait(self, at_most_s: float) -> None:
        """Until there may be orders, or so long."""
        self._notices.wait(at_most_s)

    def _look(self) -> Orders:
        return self._notices.look(time.monotonic())
