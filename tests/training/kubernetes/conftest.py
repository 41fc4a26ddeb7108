"""Pods for a test, none of which outlives it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.kubernetes.pods import Pods


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    made = Pods(tmp_path)
    yield made
    made.kill()
