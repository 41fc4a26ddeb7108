"""Where the public traces are, for the tests that need them. They are not part of the repository."""

import os
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parent.parent


def trace_path(name: str) -> Path:
    """A file or directory of the traces, by its path among them; the test is skipped (or fails) where it is absent."""
    directory = Path(os.environ.get("STERNA_TRACES") or _REPOSITORY.parent / "shared" / "traces")
    path = directory / name
    if path.exists():
        return path
    message = f"{path} is not there: set STERNA_TRACES to the directory of the public traces"
    if os.environ.get("STERNA_REQUIRE") == "1":
        pytest.fail(message)
    pytest.skip(message)
