"""The process that matches patterns, as the monitor sees it: started when first needed, killed when it hangs."""

import asyncio
import contextlib
import json
import logging
import sys
from pathlib import Path
from typing import Any

from sterna.monitor import matching

log = logging.getLogger(__name__)

BUDGET_S = 0.5  # for one request's lines
_DEADLINE_S = 5.0  # for the whole process, a start included; a busy machine may need it
_ANSWER_BYTES_MAX = 4 << 20

Found = list[tuple[int, dict[str, str]]]


async def pattern_fault(pattern: str) -> str | None:
    """What is wrong with a pattern, how long it takes to be compiled included; None: nothing. The caller's
    event loop goes on meanwhile."""
    matcher = Matcher()
    try:
        await matcher.found(pattern, [""])
    finally:
        await matcher.stop()
    return matcher.faults.get(pattern)


class Matcher:
    """One at a time. A pattern that was too slow once is never tried again: `faults` says why."""

    def __init__(self, *, budget_s: float = BUDGET_S, deadline_s: float = _DEADLINE_S) -> None:
        self.faults: dict[str, str] = {}
        self.took_s = 0.0  # by the latest request, as the process measured it
        self._budget_s = budget_s
        self._deadline_s = deadline_s
        self._process: asyncio.subprocess.Process | None = None

    async def found(self, pattern: str, lines: list[str]) -> Found:
        """The lines that match, by their place, with their groups; nothing for a pattern that has a fault."""
        self.took_s = 0.0
        if not lines or self._is_bad(pattern):
            return []
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await self._ask(pattern, lines)
        except TimeoutError:
            answer = {}
            await self.stop()
        except (OSError, ValueError) as error:  # it died; the next request starts another
            log.warning("pattern matcher ended", extra={"why": str(error)})
            await self.stop()
            return []
        self.took_s = float(answer.get("took_s", self._budget_s))
        if "found" in answer:
            return [(int(place), groups) for place, groups in answer["found"]]
        fault = answer.get("bad") or f"took longer than {self._budget_s:g} s for {len(lines)} lines"
        self._note(pattern, str(fault))
        return []

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    def _is_bad(self, pattern: str) -> bool:
        if pattern in self.faults:
            return True
        too_long = len(pattern) > matching.PATTERN_CHARACTERS_MAX  # all else is found out in the process
        if too_long:
            self._note(pattern, f"longer than {matching.PATTERN_CHARACTERS_MAX} characters")
        return too_long

    def _note(self, pattern: str, fault: str) -> None:
        if len(self.faults) >= 1000:  # a scheduler that sends ever new bad patterns does not fill the memory
            self.faults.clear()
        self.faults[pattern] = fault
        log.warning("pattern not used", extra={"pattern": pattern[:200], "fault": fault[:200]})

    async def _ask(self, pattern: str, lines: list[str]) -> dict[str, Any]:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", str(Path(matching.__file__)), f"{self._budget_s:g}",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_ANSWER_BYTES_MAX,
            )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"pattern": pattern, "lines": lines}).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
            raise OSError(f"exit code {await process.wait()}")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer
