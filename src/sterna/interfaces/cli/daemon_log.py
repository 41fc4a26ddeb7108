"""What processes that run for long say on standard error: a fixed phrase and its keys, as text or as JSON."""

import json
import logging
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
    number = check_level(level)
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if form is LogForm.JSON else _Keys("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=number)


_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _Keys(logging.Formatter):
    """A fixed phrase, and then what it is about: `cycle actions=3 took_s=0.012`."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        keys = " ".join(f"{key}={_shown(value)}" for key, value in _extras(record).items())
        head, newline, rest = line.partition("\n")
        return (f"{head} {keys}" if keys else head) + newline + rest


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extras(record),
        }
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _PLAIN}


def _shown(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(sign in text for sign in ' "=\n') else text
