"""A place for tests that sync thousands of times: in memory where that is possible, as killing needs no disk."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    try:
        place = Path(tempfile.mkdtemp(prefix="sterna-test-", dir="/dev/shm"))
    except OSError:
        yield tmp_path
        return
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
