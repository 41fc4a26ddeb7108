"""How processes that run for long write their log on standard error: a fixed phrase and its keys, as text or as JSON.

    2026-03-04T05:06:07.089Z INFO sterna.engines.action_log: job started job=default/mnist decision=d-3f9a01c2-17

Code that logs uses the standard library's `logging` and gives the keys as `extra`, so engines, monitor and servers
import nothing for it. How a line looks is a matter of the process: this module is beside the commands that start one.

One record is one line that begins at the margin. Values, and messages of other libraries, have what could end a line or
paint on a terminal escaped; lines of a traceback are indented. So no name of a job can forge a record.
"""

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sterna.model.errors import InvalidRequest


class LogForm(StrEnum):
    TEXT = "text"
    JSON = "json"


def check_level(level: str) -> int:
    """Raises InvalidRequest."""
    levels = logging.getLevelNamesMapping()
    if level.upper() not in levels:
        raise InvalidRequest(field="--log-level", value=level, expected="debug, info, warning or error")
    return levels[level.upper()]


def log_to_stderr(level: str, form: LogForm) -> None:
    """From now on. Other libraries tell of trouble only, unless everything is wanted (debug)."""
    number = check_level(level)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form is LogForm.JSON else TextLines())
    logging.basicConfig(handlers=[handler], level=number if number <= logging.DEBUG else max(number, logging.WARNING))
    logging.getLogger("sterna").setLevel(number)


class TextLines(logging.Formatter):
    """For people: `TIME LEVEL LOGGER: phrase key=value key="a value with spaces"`."""

    def format(self, record: logging.LogRecord) -> str:
        keys = "".join(f" {key}={_shown(value)}" for key, value in _keys(record).items())
        line = f"{_time(record)} {record.levelname} {record.name}: {_escaped(record.getMessage())}{keys}"
        return "\n    ".join((line, *map(_escaped, _traceback(self, record).splitlines())))


class JsonLines(logging.Formatter):
    """For programs: one object a line. `time`, `level`, `logger` and `message` are never a key's."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            **_keys(record),
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if error := _traceback(self, record):
            said["error"] = error
        return json.dumps(said, default=str)


_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _keys(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _PLAIN}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info else []
    parts += [formatter.formatStack(record.stack_info)] if record.stack_info else []
    return "\n".join(parts)


def _shown(value: object) -> str:
    """A value as it is, or in quotes where it could be taken for something else."""
    text = str(value)
    plain = bool(text) and text.isprintable() and not any(sign in text for sign in ' "=')
    return text if plain else f'"{_escaped(text, quoted=True)}"'


def _escaped(text: str, *, quoted: bool = False) -> str:
    """Printable, and on one line."""
    if text.isprintable() and not quoted:
        return text
    signs = '"\\' if quoted else ""
    return "".join(f"\\{sign}" if sign in signs else sign if sign.isprintable() else _code(sign) for sign in text)


def _code(sign: str) -> str:
    return "\\u007f" if sign == "\x7f" else json.dumps(sign)[1:-1]
