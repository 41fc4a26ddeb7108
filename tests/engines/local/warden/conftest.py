"""Every test gets a home with nobody in it, and leaves it the same way."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.local.warden.keeping import Keeping


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[Keeping]:
    kept = Keeping(tmp_path / "home")
    yield kept
    kept.end()


@pytest.fixture(params=["auto", "none"], ids=["with control groups", "without control groups"])
def either_keeping(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Keeping]:
    """For promises that must hold on a machine that gives us no control groups as well."""
    kept = Keeping(tmp_path / "home", cgroups=request.param)
    yield kept
    kept.end()
