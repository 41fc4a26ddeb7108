"""From what the manifest says to what is executed: `$(NAME)` is filled in, and fields of the pod get their values.

The rules are Kubernetes': a name that is not defined stays as it is written, `$$` is a dollar sign, and what was filled
in is not looked at again. A variable may use those before it, so a few lines can ask for gigabytes: what comes out is
bounded by what Linux lets a process begin with.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sterna.engines.contracts.naming import labels_of, worker_name
from sterna.model.errors import InvalidRequest
from sterna.model.jobs import Worker
from sterna.model.workload import Program, Workload

WORD_BYTES_MAX = 128 * 2**10 - 1  # of one argument, or of NAME=value: Linux' MAX_ARG_STRLEN without the zero at its end
LAUNCH_BYTES_MAX = 2**20  # of all that a manifest makes of its command and variables; Linux takes 2 MiB by default
_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    argv: tuple[str, ...]
    env: dict[str, str]  # complete, but for what the machine itself gives (PATH, HOME)
    post_start: tuple[str, ...] = ()
    pre_stop: tuple[str, ...] = ()


def launch_of(
    program: Program,
    *,
    given: Mapping[str, str],
    fields: Mapping[str, str],
    moved: Mapping[str, str] | None = None,
    where: str = "program",
) -> Launch:
    """`given` is what the engine sets (contract and STERNA_*); it wins, and the manifest's values may refer to it.

    `fields` are the pod's, as `pod_fields` gives them. `moved` are directories that lie elsewhere here: commands in
    manifests name /etc/mpi, which a process on a user's machine cannot have. `where` opens the name of a field that
    becomes too long: `InvalidRequest`.
    """
    room = _Room(where)
    env = dict(given)
    env |= {name: fields.get(path, "") for name, path in program.env_fields if name not in given}
    for name, value in program.env:
        if name not in given:
            env[name] = room.expanded(f"env {name}", value, env, beside=len(name) + 1)
    argv = [room.expanded(f"command[{index}]", word, env) for index, word in enumerate(program.argv)]
    return Launch(
        argv=tuple(_moved(word, moved) for word in argv),
        env={name: _moved(value, moved) for name, value in env.items()},
        post_start=tuple(_moved(word, moved) for word in program.post_start),  # hooks are not expanded, as in a pod
        pre_stop=tuple(_moved(word, moved) for word in program.pre_stop),
    )


def expanded(text: str, env: Mapping[str, str]) -> str:
    return _Room("text").expanded("", text, env)


class _Room:
    """What is left of `LAUNCH_BYTES_MAX`: counted while words are filled in, so that nothing bigger is ever made."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._left_bytes = LAUNCH_BYTES_MAX

    def expanded(self, field: str, text: str, env: Mapping[str, str], *, beside: int = 0) -> str:
        """`beside`: bytes that stand before it, a variable's name."""
        parts: list[str] = []
        size, end = beside, 0
        closed = text.rfind(")") + 1  # behind it no name ends: looking for one at every $( there would be quadratic
        for found in _REFERENCE.finditer(text, 0, closed):
            value = "$" if found[1] else env.get(found[2], found[0])
            parts += (text[end : found.start()], value)
            size += _bytes(parts[-2]) + _bytes(value)
            end = found.end()
            self._require(field, text, size)
        parts += (text[end:closed], text[closed:].replace("$$", "$"))
        size += _bytes(parts[-2]) + _bytes(parts[-1])
        self._require(field, text, size)
        self._left_bytes -= size + 1  # the zero at its end
        return "".join(parts)

    def _require(self, field: str, text: str, size: int) -> None:
        if size > WORD_BYTES_MAX:
            expected = f"at most {WORD_BYTES_MAX} bytes once its $(NAMES) are filled in"
            raise InvalidRequest(field=f"{self._where}: {field}", value=text, expected=expected)
        if size >= self._left_bytes:
            expected = f"at most {LAUNCH_BYTES_MAX} bytes of command and env together once $(NAMES) are filled in"
            raise InvalidRequest(field=f"{self._where}: {field}", value=text, expected=expected)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def pod_fields(workload: Workload, worker: Worker, *, uid: str, host_ip: str, pod_ip: str) -> dict[str, str]:
    """What `valueFrom.fieldRef` may ask for."""
    labels = {**dict(workload.labels), **labels_of(workload, worker.role, worker.ordinal, slot=uid)}
    return {
        "metadata.name": worker_name(workload, worker.role, worker.ordinal),
        "metadata.namespace": workload.namespace,
        "metadata.uid": uid,
        "spec.nodeName": worker.node,
        "spec.serviceAccountName": "default",
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        **{f"metadata.labels['{key}']": value for key, value in labels.items()},
        **{f"metadata.annotations['{key}']": value for key, value in workload.annotations},
    }


def _moved(text: str, moved: Mapping[str, str] | None) -> str:
    for before, now in (moved or {}).items():
        text = text.replace(before, now)
    return text
