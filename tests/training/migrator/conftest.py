"""No listener outlives its test."""

from collections.abc import Iterator

import pytest

from tests.training.migrator.workshop import quieten


@pytest.fixture(autouse=True)
def _quiet_afterwards() -> Iterator[None]:
    yield
    quieten()
