"""What the API needs of a scheduler: the seam between HTTP and whatever engine stands behind it.

Records are plain JSON values with camelCase keys, already in the form in which people and programs see them, so that
nothing between the engine and `-o json` renames anything. Errors are those of `sterna.model.errors`: `InvalidRequest`,
`NotFound`, `Conflict`, `EngineUnavailable`, `EngineRefused`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

Record = dict[str, Any]

PHASES = ("Waiting", "Running", "Resizing", "Suspended", "Succeeded", "Failed")
FINISHED = frozenset({"Succeeded", "Failed"})


class LogFile(Protocol):
    """What one process of a job has written. Rotated parts stand beside it, see `logfile.py`."""

    @property
    def worker(self) -> str:
        """Uid of the process's worker: job, role, ordinal and five letters of its own."""
        ...

    @property
    def path(self) -> Path: ...

    @property
    def live(self) -> bool:
        """May it still grow?"""
        ...


class Scheduler(Protocol):
    """One engine with its jobs. A job id is `namespace/name`."""

    async def submit(self, manifest: str, *, cwd: str, dry_run: bool = False) -> list[Record]:
        """Jobs from one YAML text, several documents: all of them or none."""
        ...

    async def jobs(self, *, namespace: str | None = None) -> list[Record]: ...

    async def job(self, job_id: str) -> Record:
        """The full record: with `manifest`, `workerDetails` and `history`."""
        ...

    async def nodes(self) -> list[Record]: ...

    async def migrations(self, job_id: str | None = None) -> list[Record]: ...

    async def events(self, job_id: str | None = None, *, after: int = 0, limit: int = 1000) -> list[Record]:
        """Oldest first; `id` rises, so that whoever follows asks for those after the last."""
        ...

    async def explain(self, job_id: str) -> Record: ...

    async def scale(
        self, job_id: str, *, minimum: int | None, maximum: int | None, workers: int | None
    ) -> Record: ...  # workers=N fixes both bounds

    async def migrate(self, job_id: str, *, worker: int | None, to: str | None) -> Record: ...

    async def drain(self, node: str) -> Record: ...

    async def uncordon(self, node: str) -> Record: ...

    async def suspend(self, job_id: str) -> Record: ...

    async def resume(self, job_id: str) -> Record: ...

    async def delete(self, job_id: str) -> Record: ...

    async def policy(self) -> Record: ...

    async def set_policy(self, policy: str, settings: Mapping[str, str]) -> Record: ...

    def log_files(self, job_id: str, worker: str | None) -> Sequence[LogFile]:
        """Of every process the job has had, or of one worker's: the newest last."""
        ...

    async def changed(self, *, after: int, timeout_s: float) -> int:
        """The number of the newest event once it is above `after`, or whatever it is when time is up."""
        ...

    async def health(self) -> Record: ...
