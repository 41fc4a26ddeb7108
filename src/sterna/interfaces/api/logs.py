"""What a job's processes print, as one stream: once, or for as long as the job lives, new processes included.

Which processes: those that live, or where none does the last of each worker; `previous` gives the one before that, and
`every` all there ever were. Reading one file is `logfile.py`; which files there are, the scheduler knows.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from sterna.interfaces.api.logfile import LogReader
from sterna.interfaces.api.port import FINISHED, LogFile, Scheduler
from sterna.model.errors import InvalidRequest, NotFound

_LOOK_EVERY_S = 0.2  # for new bytes
_ASK_EVERY_S = 1.0  # for new processes
_LINE_MAX = 1 << 16  # a longer one is cut rather than kept


class Selection(NamedTuple):
    """Which output of a job is wanted, and how."""

    job_id: str
    worker: str | None = None  # None: of all workers
    follow: bool = False
    previous: bool = False
    every: bool = False
    prefix: bool = False  # each line begins with the worker it is from
    tail: int = -1  # lines of each process; below 0: all


async def log_stream(scheduler: Scheduler, wanted: Selection) -> AsyncIterator[bytes]:
    """The stream. A job that is not there is an error now, before the answer begins."""
    if wanted.previous and (wanted.follow or wanted.every):
        raise InvalidRequest(field="previous", value=True, expected="neither follow nor every beside it")
    files = scheduler.log_files(wanted.job_id, wanted.worker)
    return _followed(scheduler, wanted, files) if wanted.follow else _printed(wanted, chosen(files, wanted))


def chosen(files: Sequence[LogFile], wanted: Selection) -> list[LogFile]:
    """Out of all processes, the newest last, those that are meant."""
    if wanted.every:
        return list(files)
    newest = {_seat(file): file for file in files}
    current = [file for file in files if file.live] or list(newest.values())
    if not wanted.previous:
        return current
    return list({_seat(file): file for file in files if file not in current}.values())


async def _printed(wanted: Selection, files: Sequence[LogFile]) -> AsyncIterator[bytes]:
    """File after file, each as long as it was when its turn came: a busy writer must not keep us for ever."""
    for file in files:
        output = await asyncio.to_thread(_Output, file, wanted)
        try:
            left = output.reader.pending_bytes
            while left > 0 and (content := await asyncio.to_thread(output.reader.read)):
                yield output.shown(content[:left])
                left -= len(content)
            yield output.rest()
        finally:
            output.reader.close()


async def _followed(scheduler: Scheduler, wanted: Selection, files: Sequence[LogFile]) -> AsyncIterator[bytes]:
    """Until the job has ended and everything is told. Processes that start meanwhile are told from their beginning."""
    clock = asyncio.get_running_loop()
    seen = {file.path for file in files}
    outputs = [await asyncio.to_thread(_Output, file, wanted) for file in chosen(files, wanted)]
    asked_s, over = -_ASK_EVERY_S, False
    try:
        while True:
            contents = await asyncio.to_thread(_news, outputs)
            for content in contents:
                yield content
            if over and not contents:
                break
            if clock.time() - asked_s >= _ASK_EVERY_S:
                asked_s, over = clock.time(), await _is_over(scheduler, wanted.job_id)
                fresh = [file for file in _files(scheduler, wanted) if file.path not in seen]
                seen.update(file.path for file in fresh)
                outputs += [await asyncio.to_thread(_Output, file, wanted._replace(tail=-1)) for file in fresh]
            elif not contents:
                await asyncio.sleep(_LOOK_EVERY_S)
        for output in outputs:
            yield output.rest()
    finally:
        for output in outputs:
            output.reader.close()


class _Output:
    """One process on its way into the stream: bytes as they are, or line by line where lines of several mix."""

    def __init__(self, file: LogFile, wanted: Selection) -> None:
        self.reader = LogReader(file.path, tail=wanted.tail if wanted.tail >= 0 else None)
        self._prefix = f"[{file.worker}] ".encode() if wanted.prefix else b""
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


def _news(outputs: Sequence[_Output]) -> list[bytes]:
    """A chunk of each that has one."""
    return [output.shown(content) for output in outputs if (content := output.reader.read())]


async def _is_over(scheduler: Scheduler, job_id: str) -> bool:
    try:
        return (await scheduler.job(job_id))["phase"] in FINISHED
    except NotFound:
        return True


def _files(scheduler: Scheduler, wanted: Selection) -> Sequence[LogFile]:
    try:
        return scheduler.log_files(wanted.job_id, wanted.worker)
    except NotFound:  # deleted while we watched
        return []


def _seat(file: LogFile) -> str:
    """Role and ordinal: what the processes that followed each other as one worker have in common."""
    return file.worker.rpartition("-")[0]
