"""A job's state and its open change as the rules of its life read them; engines keep them in forms of their own."""

from typing import Protocol

from sterna.lifecycle.counters import CostOfStart, Counted
from sterna.model.jobs import Worker
from sterna.model.phases import Phase


class JobState(Counted, Protocol):
    @property
    def phase(self) -> Phase: ...

    @property
    def restarts(self) -> int: ...

    @property
    def losses(self) -> int: ...  # of nodes, in a row: restarts of the whole gang that followed from them

    @property
    def lost_s(self) -> float | None: ...  # when the latest of them was

    @property
    def resizes(self) -> int: ...

    @property
    def migrations(self) -> int: ...

    @property
    def progress(self) -> CostOfStart | None: ...


class OpenChange(Protocol):
    @property
    def kind(self) -> str: ...  # a `ChangeKind`

    @property
    def why(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def before(self) -> tuple[Worker, ...]: ...

    @property
    def after(self) -> tuple[Worker, ...]: ...
