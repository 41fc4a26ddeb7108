"""This process as a training process: environment in, run out, and nothing of it left for the next test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sterna import training
from sterna.protocol import STERNA_VARIABLES
from sterna.training.reporting.trainer_status import CA_CERT, TOKEN, URL
from tests.training.reporting.listener import Listener, listening

Attach = Callable[..., training.Run]


@pytest.fixture
def attach(monkeypatch: pytest.MonkeyPatch) -> Iterator[Attach]:
    """`attach(STERNA_POD="a", settings={"metric": "loss"})`: a new run, as if the process had just begun."""
    runs: list[training.Run] = []
    for name in (*STERNA_VARIABLES, URL, CA_CERT, TOKEN, "RANK", "WORLD_SIZE", "LOCAL_RANK", "POD_NAME"):
        monkeypatch.delenv(name, raising=False)

    def attached(settings: dict[str, Any] | None = None, **environment: str) -> training.Run:
        monkeypatch.setattr("sterna.training.run._current", None)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        runs.append(training.attach(**(settings or {})))
        return runs[-1]

    yield attached
    for run in runs:
        run.finish()


@pytest.fixture
def monitor() -> Iterator[Listener]:
    with listening() as listener:
        yield listener
