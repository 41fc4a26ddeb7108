"""Rank 0 can be faster than the engine: all act on its order before the others have theirs, which then come late."""

import pytest

from sterna.protocol import Order, Orders, WorkerPhase, wake_worker, write_orders
from tests.training.run.gang import Gang
from tests.training.run.programs import counting


@pytest.mark.parametrize("order", [Order.HOLD, Order.COMMIT])
def test_an_order_that_comes_when_it_is_fulfilled_already_is_acknowledged_too(tmp_path, order):
    gang = Gang.started(tmp_path, counting, 100_000, 0.005, ranks=3)
    gang.until_phase(WorkerPhase.TRAINING)
    seq = gang.order(order, ranks=[0])
    gang.until(lambda status: status.checkpoint is not None)
    if order is Order.HOLD:
        gang.until_phase(WorkerPhase.COMMITTED)
    for rank in (1, 2):
        write_orders(gang.mailboxes[rank], Orders(seq=seq, order=order))
        wake_worker(gang.mailboxes[rank])
    gang.until_acked(seq)
    gang.order(Order.RUN)
    results = gang.stopped()
    assert {result["stopped"] for result in results} == {True}
    assert len({result["step"] for result in results}) == 1
