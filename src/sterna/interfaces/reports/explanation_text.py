"""Why a job is as it is, in words: the verdict, its numbers, what would change it, and what led here."""

from datetime import datetime
from typing import Any

from sterna.interfaces.reports.grid import Emphasis, indented, one_line, plainly, safe
from sterna.interfaces.reports.record_tables import EVENTS, record_table

Record = dict[str, Any]


def explanation_text(answer: Record, *, now: datetime, strong: Emphasis = plainly) -> str:
    parts = [
        f"{strong(one_line(answer.get('job')))}: {one_line(answer.get('phase'))}",
        safe(answer.get("summary") or ""),
    ]
    because = answer.get("because") or {}
    if because.get("why"):
        parts.append(f"{strong('Because')}\n{indented(_because(because))}")
    if changes := answer.get("wouldChange"):
        parts.append(f"{strong('What would change it')}\n{indented(_bullets(changes))}")
    if history := answer.get("history"):
        parts.append(f"{strong('What led here')}\n{indented(record_table(EVENTS, history, now=now))}")
    return "\n\n".join(part for part in parts if part)


def _because(because: Record) -> str:
    if because.get("sentence"):  # it has the numbers in it
        return f"{one_line(because['why'])}: {one_line(because['sentence'])}"
    numbers = because.get("numbers") or {}
    pairs = numbers.items() if isinstance(numbers, dict) else [(pair[0], pair[1]) for pair in numbers]
    lines = [one_line(because["why"])]
    lines += [f"{one_line(name).replace('_', ' ')}: {one_line(value)}" for name, value in pairs]
    return "\n".join(lines)


def _bullets(sentences: list[Any]) -> str:
    return "\n".join(f"- {one_line(sentence)}" for sentence in sentences)
