"""Regular expressions over lines, in a process of its own: a pattern that never ends must not stop anything else.

Run as a program (`python matching.py BUDGET_S`): reads requests, one JSON object a line, and answers each with one. A
pattern is compiled here as well: 966 characters can take five seconds, during which Python runs nothing else, in no
thread. The alarm interrupts what takes longer than its budget, since both the compiler and the matcher of Python look
for signals while they work; the monitor kills the whole process if even that does not help. Memory is limited, since it
is the monitor's. Standard library only, nothing of Sterna.
"""

import json
import re
import resource
import signal
import sys
import time
from types import FrameType
from typing import Any

GROUPS = ("value", "metric", "step", "epoch", "units_done", "units_total", "step_s", "epoch_s", "workers")
PATTERN_CHARACTERS_MAX = 1000
MEMORY_BYTES_MAX = 96 << 20  # addresses: the interpreter alone has an eighth of it


class TooSlow(Exception):
    pass


def fault_of(pattern: str) -> str | None:
    """What is wrong with a pattern; None: nothing. Only its form: how long it takes shows when it is used."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        return f"longer than {PATTERN_CHARACTERS_MAX} characters"
    try:
        groups = re.compile(pattern).groupindex
    except (re.error, RecursionError, OverflowError) as error:
        return f"not a regular expression: {error}"
    if unknown := [name for name in groups if name not in GROUPS]:
        return f"unknown group {unknown[0]}; expected some of {', '.join(GROUPS)}"
    if not {"value", "step", "epoch", "units_done"} & groups.keys():
        return "no group (?P<value>...), (?P<step>...), (?P<epoch>...) or (?P<units_done>...)"
    return None


def found_in(pattern: str, lines: list[str]) -> list[list[Any]]:
    """For each line that matches somewhere: its place in the list, and its groups."""
    compiled = re.compile(pattern)
    found: list[list[Any]] = []
    for place, line in enumerate(lines):
        match = compiled.search(line)
        if match is not None:
            found.append([place, {name: text for name, text in match.groupdict().items() if text is not None}])
    return found


def _alarm(signum: int, frame: FrameType | None) -> None:
    raise TooSlow


def _answer(request: dict[str, Any], budget_s: float) -> dict[str, Any]:
    signal.setitimer(signal.ITIMER_REAL, budget_s)
    began_s = time.monotonic()
    try:
        fault = fault_of(request["pattern"])
        if fault is not None:
            return {"bad": fault}
        found = found_in(request["pattern"], request["lines"])
        return {"found": found, "took_s": time.monotonic() - began_s}
    except TooSlow:
        return {"slow": True}
    except MemoryError:
        return {"bad": "needs too much memory"}
    except (re.error, RecursionError, OverflowError) as error:
        return {"bad": f"{error}"}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def main() -> None:
    budget_s = float(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    signal.signal(signal.SIGALRM, _alarm)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the monitor, which ends this by closing the pipe
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(_answer(json.loads(line), budget_s)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
