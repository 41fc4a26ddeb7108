"""What a test needs that an installation may lack: a framework, a program. Skipped there, a failure where required."""

import importlib
import os
import shutil
from types import ModuleType
from typing import NoReturn

import pytest


def needs(module: str) -> ModuleType:
    """The imported module; the test is skipped where it is not installed, and fails with STERNA_REQUIRE=1."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        absent(f"{module} cannot be imported ({error})")


def needs_program(name: str) -> str:
    """Path of a program; the test is skipped where there is none, and fails with STERNA_REQUIRE=1."""
    path = shutil.which(name)
    if path is None:
        absent(f"there is no program {name}")
    return path


def seeds(default: int) -> range:
    """The tries of a random test: `default` in CI, as many as STERNA_SEEDS says in a soak."""
    return range(int(os.environ.get("STERNA_SEEDS") or default))


def absent(message: str) -> NoReturn:
    """The machine cannot show what the test is about: skipped, and a failure with STERNA_REQUIRE=1."""
    if os.environ.get("STERNA_REQUIRE") == "1":
        pytest.fail(message)
    pytest.skip(message, allow_module_level=True)
