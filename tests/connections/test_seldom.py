"""A log that strangers cannot fill."""

import logging

from sterna.connections import Seldom
from tests.httpd.wires import Clock


def test_a_phrase_is_said_once_in_a_while_with_how_many_there_were():
    clock = Clock()
    seldom = Seldom(every_s=60.0, clock=clock)

    def says(phrase: str) -> int | None:
        record = logging.LogRecord("x", logging.WARNING, "", 0, phrase, (), None)
        return getattr(record, "suppressed", 0) if seldom.filter(record) else None

    assert [says("full"), says("full"), says("other"), says("full")] == [0, None, 0, None]
    clock.now_s += 60.0
    assert [says("full"), says("other"), says("full")] == [2, 0, None]


def test_what_it_remembers_has_a_limit():
    seldom = Seldom(clock=Clock())
    for number in range(10_000):
        seldom.filter(logging.LogRecord("x", logging.WARNING, "", 0, f"phrase {number}", (), None))
    assert len(seldom._last) <= 100
