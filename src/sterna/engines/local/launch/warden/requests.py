"""What a request may say. Everything that arrives over the socket is checked here, field by field, or `Refused`."""

import math
import os
import re
from collections.abc import Callable
from typing import Any

from sterna.engines.local.launch.warden.ports import PORTS_MAX
from sterna.engines.local.launch.warden.values import Hook, Launch
from sterna.engines.local.launch.warden.wire import Refused

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
LOG_BYTES_MIN = 4096
GRACE_S_MAX = 30 * 86400.0
IDS_MAX = 100_000


class Fields:
    """One JSON object, asked for its fields one by one."""

    def __init__(self, wire: Any, at: str = "") -> None:
        if not isinstance(wire, dict):
            raise Refused("invalid", "an object", field=at or "request", value=wire)
        self._wire = wire
        self._at = f"{at}." if at else ""

    def id(self, name: str = "id") -> str:
        return str(self._checked(name, _is_id, "letters, digits and ._-, at most 128"))

    def ids(self, name: str = "ids") -> list[str]:
        expected = "a list of ids"
        return list(self._checked(name, lambda value: _is_list(value, IDS_MAX) and all(map(_is_id, value)), expected))

    def text(self, name: str) -> str:
        return str(self._checked(name, lambda value: _is_text(value) and value != "", "text without NUL"))

    def path(self, name: str) -> str:
        return str(self._checked(name, lambda value: _is_text(value) and value.startswith("/"), "an absolute path"))

    def argv(self, name: str = "argv") -> tuple[str, ...]:
        def command(value: Any) -> bool:
            return _is_list(value, IDS_MAX) and len(value) > 0 and value[0] != "" and all(map(_is_text, value))

        return tuple(self._checked(name, command, "a command: a list of texts, the first not empty"))

    def env(self, name: str = "env") -> dict[str, str]:
        def environment(value: Any) -> bool:
            return isinstance(value, dict) and all(
                key != "" and "=" not in key and _is_text(key) and _is_text(text) for key, text in value.items()
            )

        return dict(self._checked(name, environment, "an object of texts, no name empty or with ="))

    def whole(self, name: str, low: int, high: int) -> int:
        expected = f"a whole number, {low} to {high}"
        return int(self._checked(name, lambda value: _is_whole(value, low, high), expected))

    def seconds(self, name: str) -> float:
        def duration(value: Any) -> bool:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return number and math.isfinite(value) and 0 <= value <= GRACE_S_MAX

        return float(self._checked(name, duration, f"seconds, 0 to {GRACE_S_MAX:g}"))

    def flag(self, name: str) -> bool:
        return bool(self._checked(name, lambda value: isinstance(value, bool), "true or false"))

    def cpus(self, name: str) -> tuple[int, ...]:
        def cores(value: Any) -> bool:
            return _is_list(value, 8192) and len(value) > 0 and all(_is_whole(core, 0, 65535) for core in value)

        return tuple(sorted(set(self._checked(name, cores, "a list of cores, not empty"))))

    def has(self, name: str) -> bool:
        return self._wire.get(name) is not None

    def within(self, name: str) -> "Fields":
        return Fields(self._wire.get(name), f"{self._at}{name}")

    def _checked(self, name: str, holds: Callable[[Any], bool], expected: str) -> Any:
        value = self._wire.get(name)
        if not holds(value):
            raise Refused("invalid", expected, field=f"{self._at}{name}", value=value)
        return value


def launch_in(fields: Fields) -> Launch:
    return Launch(
        id=fields.id(),
        argv=fields.argv(),
        env=fields.env(),
        cwd=fields.path("cwd"),
        log_path=fields.path("log_path"),
        log_bytes_max=fields.whole("log_bytes_max", LOG_BYTES_MIN, 2**50),
        log_parts_max=fields.whole("log_parts_max", 0, 1000),
        memory_bytes=fields.whole("memory_bytes", 1, 2**62) if fields.has("memory_bytes") else None,
        cpu_milli=fields.whole("cpu_milli", 1, 10**9) if fields.has("cpu_milli") else None,
        cpus=fields.cpus("cpus") if fields.has("cpus") else None,
        nice=fields.whole("nice", -20, 19),
        node=fields.id("node") if fields.has("node_cpu_milli") else "",
        node_cpu_milli=fields.whole("node_cpu_milli", 1, 10**9) if fields.has("node_cpu_milli") else None,
    )


def hook_in(fields: Fields) -> Hook:
    return Hook(
        name=fields.id("name"),
        argv=fields.argv(),
        timeout_s=fields.seconds("timeout_s"),
        env=fields.env() if fields.has("env") else None,
    )


def port_count_in(fields: Fields) -> int:
    return fields.whole("count", 0, PORTS_MAX)


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_text(value: Any) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # half of a pair, which no system call takes
        return False
    return True


def _is_list(value: Any, length_max: int) -> bool:
    return isinstance(value, list) and len(value) <= length_max


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
