"""What a job's processes print, as one stream: once, or for as long as the job lives, new processes included.

Which processes: those that live, or where none does the last of each worker; `previous` gives the one before that, and
`every` all there ever were. Which there are and how one is read, the scheduler knows.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from sterna.interfaces.scheduler_port import FINISHED, Log, LogReader, LogSelection, Scheduler
from sterna.model.errors import InvalidRequest, NotFound

_LOOK_EVERY_S = 0.2  # for new bytes
_ASK_EVERY_S = 1.0  # for new processes
_FAREWELL_S = 3.0  # for bytes that are still on their way when the job has ended
_LINE_MAX = 1 << 16  # a longer one is cut rather than kept


async def log_stream(scheduler: Scheduler, wanted: LogSelection) -> AsyncGenerator[bytes, None]:
    """The stream. A job that is not there is an error now, before the answer begins."""
    if wanted.previous and (wanted.follow or wanted.every):
        raise InvalidRequest(field="previous", value=True, expected="neither follow nor every beside it")
    logs = await scheduler.logs(wanted.job_id, wanted.worker)
    return _followed(scheduler, wanted, logs) if wanted.follow else _printed(wanted, chosen(logs, wanted))


def chosen(logs: Sequence[Log], wanted: LogSelection) -> list[Log]:
    """Out of all processes, the newest last, those that are meant."""
    if wanted.every:
        return list(logs)
    newest = {log.seat: log for log in logs}
    current = [log for log in logs if log.live] or list(newest.values())
    if not wanted.previous:
        return current
    return list({log.seat: log for log in logs if log not in current}.values())


async def _printed(wanted: LogSelection, logs: Sequence[Log]) -> AsyncGenerator[bytes, None]:
    """Log after log, each as long as it was when its turn came."""
    for log in logs:
        output = await _opened(log, wanted)
        try:
            while content := await output.reader.read():
                yield output.shown(content)
            yield output.rest()
        finally:
            await output.reader.close()


async def _followed(scheduler: Scheduler, wanted: LogSelection, logs: Sequence[Log]) -> AsyncGenerator[bytes, None]:
    """Until the job has ended and everything is told. Processes that start meanwhile are told from their beginning."""
    clock = asyncio.get_running_loop()
    seen = {log.key for log in logs}
    outputs = [await _opened(log, wanted) for log in chosen(logs, wanted)]
    asked_s, over_s = -_ASK_EVERY_S, None
    try:
        while True:
            told = False
            for output in outputs:
                if content := await output.reader.read():
                    told = True
                    yield output.shown(content)
            if over_s is not None and not told and (_all_told(outputs) or clock.time() - over_s > _FAREWELL_S):
                break
            if clock.time() - asked_s >= _ASK_EVERY_S:
                asked_s = clock.time()
                if over_s is None and await _is_over(scheduler, wanted.job_id):
                    over_s = asked_s
                fresh = [log for log in await _logs(scheduler, wanted) if log.key not in seen]
                seen.update(log.key for log in fresh)
                outputs += [await _opened(log, wanted._replace(tail=None)) for log in fresh]
            elif not told:
                await asyncio.sleep(_LOOK_EVERY_S)
        for output in outputs:
            yield output.rest()
    finally:
        for output in outputs:
            await output.reader.close()


class _Output:
    """One process on its way into the stream: bytes as they are, or line by line where lines of several mix."""

    def __init__(self, worker: str, reader: LogReader, wanted: LogSelection) -> None:
        self.reader = reader
        self._prefix = f"[{worker}] ".encode() if wanted.prefix else b""
        self._part = b""  # of a line whose end has not come

    def shown(self, content: bytes) -> bytes:
        if not self._prefix:
            return content
        *lines, self._part = (self._part + content).split(b"\n")
        if len(self._part) > _LINE_MAX:
            lines, self._part = [*lines, self._part], b""
        return b"".join(self._prefix + line + b"\n" for line in lines)

    def rest(self) -> bytes:
        line, self._part = self._part, b""
        return self._prefix + line + b"\n" if line else b""


async def _opened(log: Log, wanted: LogSelection) -> _Output:
    reader = await log.open(tail=wanted.tail, follow=wanted.follow)
    return _Output(log.worker, reader, wanted)


def _all_told(outputs: Sequence[_Output]) -> bool:
    return all(output.reader.dry for output in outputs)


async def _is_over(scheduler: Scheduler, job_id: str) -> bool:
    try:
        return (await scheduler.job(job_id))["phase"] in FINISHED
    except NotFound:
        return True


async def _logs(scheduler: Scheduler, wanted: LogSelection) -> Sequence[Log]:
    try:
        return await scheduler.logs(wanted.job_id, wanted.worker)
    except NotFound:  # deleted while we watched
        return []
