"""How much work a job has left: its program's word, then its owner's, then what jobs like it took."""

import pytest

from sterna.lifecycle.work_left import work_left, work_total


@pytest.mark.parametrize(
    ("done", "told", "epoch", "declared", "expected"),
    [
        pytest.param(0.0, None, 0, None, None, id="nobody says"),
        pytest.param(0.0, None, 0, 20.0, 20.0, id="what the owner declared, before anything is done"),
        pytest.param(5.0, None, 5, 20.0, 20.0, id="epochs are counted as epochs"),
        pytest.param(500.0, None, 5, 20.0, 2000.0, id="a program that counts steps did 100 an epoch"),
        pytest.param(500.0, None, 0, 20.0, None, id="steps, and no epoch yet: nobody can say"),
        pytest.param(500.0, 900.0, 5, 20.0, 900.0, id="the program knows best"),
    ],
)
def test_all_of_its_work(done, told, epoch, declared, expected):
    assert work_total(done=done, told=told, epoch=epoch, declared_epochs=declared) == expected


@pytest.mark.parametrize(
    ("total", "done", "usual", "expected"),
    [
        pytest.param(20.0, 0.0, 100.0, 20.0, id="what was declared goes before what jobs like it took"),
        pytest.param(None, 30.0, 100.0, 70.0, id="what jobs like it took, where nothing was declared"),
        pytest.param(None, 100.0, 100.0, None, id="it is longer than those before it"),
        pytest.param(None, 30.0, None, None, id="there is none like it"),
        pytest.param(20.0, 25.0, None, 0.0, id="it did more than it said"),
    ],
)
def test_what_is_left(total, done, usual, expected):
    assert work_left(total=total, done=done, usual=usual) == expected
