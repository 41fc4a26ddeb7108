"""What the operator wrote, read from the API server's audit log while it grows."""

import json
import re
from collections import Counter, deque
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, NamedTuple

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_JOB = re.compile(r"[a-z]+-\d+")  # the name of a job of the storm, with which those of its pods and events begin


class Write(NamedTuple):
    at_s: float
    verb: str
    what: str  # pods, services, events, elasticjobs/status, ...
    namespace: str
    name: str
    code: int

    @property
    def job(self) -> tuple[str, str]:
        """Namespace and name; empty for what is written for no job."""
        found = _JOB.match(self.name)
        return (self.namespace, found[0]) if found else ("", "")

    @property
    def makes_pod(self) -> bool:
        return self.verb == "create" and self.what == "pods" and self.code == 201


class AuditTrail:
    """Of one user, from now on. Leases are left out: they are renewed for ever."""

    def __init__(self, file: Path, user: str) -> None:
        self.writes: deque[Write] = deque()
        self._file = file
        self._user = user
        self._open: IO[str] | None = None
        self._rest = ""
        self._reopen(at_end=True)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()

    def read(self) -> list[Write]:
        """Those since the last time, which `writes` has from now on."""
        fresh: list[Write] = []
        while True:
            fresh += self._read()
            if self._open is not None and self._file.stat().st_ino == self._inode():
                break
            if not self._reopen(at_end=False):
                break
        self.writes.extend(fresh)
        return fresh

    def _read(self) -> list[Write]:
        if self._open is None:
            return []
        *lines, self._rest = (self._rest + self._open.read()).split("\n")
        events = [json.loads(line) for line in lines if line]
        found = [_write(event) for event in events if event.get("user", {}).get("username") == self._user]
        return [write for write in found if write is not None]

    def _reopen(self, *, at_end: bool) -> bool:
        """A log that has become too large is put aside and begun anew."""
        self.close()
        self._open, self._rest = None, ""
        if self._file.exists():
            self._open = self._file.open(encoding="utf-8")
            self._open.seek(0, 2 if at_end else 0)
        return self._open is not None

    def _inode(self) -> int:
        assert self._open is not None
        return Path(f"/proc/self/fd/{self._open.fileno()}").stat().st_ino

    def since(self, at_s: float) -> list[Write]:
        return [write for write in self.writes if write.at_s >= at_s]

    def of_job(self, namespace: str, name: str) -> str:
        """What was written for it, by kind."""
        found = Counter(f"{each.verb} {each.what} {each.code}" for each in self.writes if each.job == (namespace, name))
        return ", ".join(f"{count} {what}" for what, count in found.most_common())

    def minutes(self) -> Iterator[tuple[tuple[str, str], int, int]]:
        """Of every job and every minute that ends with a write: how much was written, and how many pods were made."""
        windows: dict[tuple[str, str], deque[Write]] = {}
        made: Counter[tuple[str, str]] = Counter()
        for write in sorted(self.writes):
            job, window = write.job, windows.setdefault(write.job, deque())
            window.append(write)
            made[job] += write.makes_pod
            while window[0].at_s < write.at_s - 60.0:
                made[job] -= window.popleft().makes_pod
            yield job, len(window), made[job]


def _write(event: dict[str, object]) -> Write | None:
    about = event.get("objectRef")
    if event["verb"] not in WRITES or not isinstance(about, dict) or about.get("resource") == "leases":
        return None
    at_s = datetime.fromisoformat(str(event["requestReceivedTimestamp"]).replace("Z", "+00:00")).timestamp()
    what = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    answer = event.get("responseStatus")
    code = int(answer.get("code", 0)) if isinstance(answer, dict) else 0
    return Write(at_s, str(event["verb"]), what, about.get("namespace", ""), about.get("name", ""), code)
