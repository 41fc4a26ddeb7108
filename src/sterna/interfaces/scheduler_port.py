"""What can be asked of a scheduler: the one port that every interface asks through, whichever engine answers.

The local engine answers in its own process, the console of a cluster from the API server, and
`client/http_scheduler.py` passes questions on to an engine of another process. Records are plain JSON values with
camelCase keys, already in the form in which people and programs see them, so that nothing between the engine and
`-o json` renames anything. Errors are those of `sterna.model.errors`: `InvalidRequest`, `NotFound`, `Conflict`,
`EngineUnavailable`, `EngineRefused`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

Record = dict[str, Any]

PHASES = ("Waiting", "Running", "Resizing", "Suspended", "Succeeded", "Failed")
FINISHED = frozenset({"Succeeded", "Failed"})


class LogReader(Protocol):
    """A log that is being read."""

    async def read(self) -> bytes:
        """The next bytes. Empty: that was all; of a log that is followed, nothing new now."""
        ...

    @property
    def dry(self) -> bool:
        """Of a log that is followed: all that was written until now has been read, or no more can come."""
        ...

    async def close(self) -> None: ...


class Log(Protocol):
    """What one process of a job has written, wherever that is kept."""

    @property
    def worker(self) -> str:
        """The worker that wrote it, as shown to users."""
        ...

    @property
    def seat(self) -> str:
        """What the processes that followed each other as one worker have in common."""
        ...

    @property
    def key(self) -> str:
        """Tells this process from all others of the job."""
        ...

    @property
    def live(self) -> bool:
        """May it still grow?"""
        ...

    async def open(self, *, tail: int | None, follow: bool) -> LogReader:
        """From its beginning, or only its last lines. Followed, it goes on as it grows."""
        ...


class LogSelection(NamedTuple):
    """Which output of a job is wanted, and how."""

    job_id: str
    worker: str | None = None  # None: of all workers
    follow: bool = False
    previous: bool = False
    every: bool = False
    prefix: bool = False  # each line begins with the worker it is from
    tail: int | None = None  # lines of each process. None: all


class Questions(Protocol):
    """Everything that is answered by a record. A job id is `namespace/name`."""

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
        """Oldest first; `id` rises, so a follower asks for those after the last."""
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

    async def changed(self, *, after: int, timeout_s: float) -> int:
        """The number of the newest event once it is above `after`, or whatever it is when time is up."""
        ...

    async def health(self) -> Record: ...


class Scheduler(Questions, Protocol):
    """One engine with its jobs, in this process: it can also open what they print, which `log_stream` puts together."""

    async def logs(self, job_id: str, worker: str | None) -> Sequence[Log]:
        """Of every process the job has had, or of one worker's: the newest last."""
        ...
