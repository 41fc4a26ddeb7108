"""No process of a test outlives it, however it ends."""

from collections.abc import Iterator

import pytest

from tests.training.run.gang import Gang


@pytest.fixture(autouse=True)
def _nobody_is_left_behind() -> Iterator[None]:
    yield
    while Gang.all:
        Gang.all.pop().kill()
