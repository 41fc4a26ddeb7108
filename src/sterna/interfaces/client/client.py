"""Every question that can be asked of a scheduler, as a plain method: one client, whichever engine answers.

Names and records are those of `interfaces/scheduler_port.py`.
"""

import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from sterna.interfaces.api.engine_home import Endpoint, state_home
from sterna.interfaces.client.connection import DEADLINE_S, SLOW_S, Connection, running
from sterna.interfaces.client.waiting import wait_until
from sterna.interfaces.scheduler_port import LogSelection, Questions, Record

T = TypeVar("T")
Question = Callable[[Questions], Coroutine[Any, Any, T]]


class Line(Protocol):
    """How questions reach the scheduler that answers them."""

    def ask(self, question: Question[T], *, within_s: float | None = None) -> T:
        """The scheduler's answer, or its error. `within_s` None: as long as the line usually waits."""
        ...

    def logs(self, wanted: LogSelection) -> Iterator[bytes]:
        """Bytes as they come; only the beginning has a deadline."""
        ...

    def shutdown(self, *, leave_jobs: bool) -> None: ...

    def close(self) -> None: ...


class Client:
    """The engine of one home: STERNA_HOME, unless another is given; or the scheduler at the other end of a `line`.

    Job ids are `namespace/name`, or a bare name in `namespace`.
    """

    def __init__(
        self,
        home: str | None = None,
        *,
        deadline_s: float = DEADLINE_S,
        line: Line | None = None,
        namespace: str = "default",
    ) -> None:
        self._home = state_home(home)
        self._line: Line = line or Connection(self._home, deadline_s=deadline_s)
        self._namespace = namespace

    @property
    def home(self) -> str:
        return str(self._home)

    def endpoint(self) -> Endpoint:
        """Where the engine of the home listens; `EngineUnavailable` when none runs."""
        return running(self._home)

    def close(self) -> None:
        """Give back what the line holds open."""
        self._line.close()

    def health(self) -> Record:
        return self._line.ask(lambda scheduler: scheduler.health())

    def submit(self, manifest: str, *, cwd: str | None = None, dry_run: bool = False) -> list[Record]:
        """Jobs from a YAML text, all or none. Programs run in `cwd`, which is here unless said otherwise."""
        where = cwd or os.getcwd()
        return self._slow(lambda scheduler: scheduler.submit(manifest, cwd=where, dry_run=dry_run))

    def jobs(self, *, namespace: str | None = None) -> list[Record]:
        return self._line.ask(lambda scheduler: scheduler.jobs(namespace=namespace))

    def job(self, job_id: str) -> Record:
        return self._line.ask(lambda scheduler: scheduler.job(self._id(job_id)))

    def delete(self, job_id: str) -> Record:
        return self._slow(lambda scheduler: scheduler.delete(self._id(job_id)))

    def nodes(self) -> list[Record]:
        return self._line.ask(lambda scheduler: scheduler.nodes())

    def migrations(self, job_id: str | None = None) -> list[Record]:
        full = None if job_id is None else self._id(job_id)
        return self._line.ask(lambda scheduler: scheduler.migrations(full))

    def events(self, job_id: str | None = None, *, after: int = 0, limit: int = 1000) -> list[Record]:
        full = None if job_id is None else self._id(job_id)
        return self._line.ask(lambda scheduler: scheduler.events(full, after=after, limit=limit))

    def explain(self, job_id: str) -> Record:
        return self._line.ask(lambda scheduler: scheduler.explain(self._id(job_id)))

    def scale(
        self, job_id: str, *, minimum: int | None = None, maximum: int | None = None, workers: int | None = None
    ) -> Record:
        full = self._id(job_id)
        return self._slow(lambda scheduler: scheduler.scale(full, minimum=minimum, maximum=maximum, workers=workers))

    def migrate(self, job_id: str, *, worker: int | None = None, to: str | None = None) -> Record:
        node = None if to is None else _whole(to)
        return self._slow(lambda scheduler: scheduler.migrate(self._id(job_id), worker=worker, to=node))

    def suspend(self, job_id: str) -> Record:
        return self._slow(lambda scheduler: scheduler.suspend(self._id(job_id)))

    def resume(self, job_id: str) -> Record:
        return self._slow(lambda scheduler: scheduler.resume(self._id(job_id)))

    def drain(self, node: str) -> Record:
        return self._slow(lambda scheduler: scheduler.drain(_whole(node)))

    def uncordon(self, node: str) -> Record:
        return self._slow(lambda scheduler: scheduler.uncordon(_whole(node)))

    def policy(self) -> Record:
        return self._line.ask(lambda scheduler: scheduler.policy())

    def set_policy(self, policy: str, settings: Mapping[str, str] | None = None) -> Record:
        return self._line.ask(lambda scheduler: scheduler.set_policy(policy, dict(settings or {})))

    def changed(self, *, after: int, timeout_s: float = 30.0) -> int:
        """The number of the newest event, once it is above `after` or time is up."""
        whole_s = max(0, min(60, int(timeout_s)))
        return self._line.ask(
            lambda scheduler: scheduler.changed(after=after, timeout_s=whole_s), within_s=timeout_s + DEADLINE_S
        )

    def logs(
        self,
        job_id: str,
        *,
        worker: str | None = None,
        follow: bool = False,
        previous: bool = False,
        every: bool = False,
        prefix: bool = False,
        tail: int | None = None,
    ) -> Iterator[bytes]:
        """What the job's processes print; with `follow`, until the job has ended."""
        return self._line.logs(LogSelection(self._id(job_id), worker, follow, previous, every, prefix, tail))

    def wait(self, job_id: str, *, until: str = "finished", timeout_s: float | None = None) -> Record | None:
        """Until the job is as asked: succeeded, finished, running, suspended, deleted or condition=NAME.

        Gives the job as it then is, None once it is deleted. `TimeoutError` when time is up, `Conflict` when it can no
        longer come true.
        """
        return wait_until(self, job_id, until, timeout_s=timeout_s)

    def shutdown(self, *, leave_jobs: bool = False) -> None:
        """Stop the engine. Its jobs stop at a committed step and go on when it is started again."""
        self._line.shutdown(leave_jobs=leave_jobs)

    def _id(self, job_id: str) -> str:
        return _whole(full_id(job_id, self._namespace))

    def _slow(self, question: Question[T]) -> T:
        return self._line.ask(question, within_s=SLOW_S)


def full_id(name: str, namespace: str = "default") -> str:
    """A job's id from what was typed: `name`, or `namespace/name`."""
    return name if "/" in name else f"{namespace}/{name}"


def _whole(name: str) -> str:
    """Halves of characters, of which no name consists, become question marks: they find nothing, and nothing breaks."""
    return name.encode(errors="replace").decode()
