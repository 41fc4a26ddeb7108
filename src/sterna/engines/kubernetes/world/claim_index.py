"""Persistent volume claims that jobs mount, as they were last read, and which jobs mount them.

Claims are read when a job asks for them and again now and then (`loop/claim_reader.py`) rather than watched: most jobs
have none, and a watch would bring every claim and every volume of the cluster.
"""

from collections.abc import Callable
from typing import NamedTuple

from sterna.engines.kubernetes.apiserver.ownership import JobKey
from sterna.lifecycle.held_back import FREE, ClaimState, Hold, hold_of
from sterna.model.workload import Workload


class ClaimKey(NamedTuple):
    namespace: str
    name: str


class Claims:
    """`obeyed` False: the cluster's own scheduler places the pods, and looks at gates and claims by itself."""

    def __init__(self, *, obeyed: bool = True) -> None:
        self.states: dict[ClaimKey, ClaimState] = {}
        self.users: dict[ClaimKey, set[str]] = {}  # uids of jobs that asked
        self.on_wanted: Callable[[], None] = lambda: None  # a claim is asked for that was not read yet
        self._obeyed = obeyed

    @property
    def unread(self) -> list[ClaimKey]:
        return sorted(self.users.keys() - self.states.keys())

    def hold_of(self, job: JobKey, workload: Workload | None) -> Hold:
        """What holds this job back, as far as it is known."""
        if workload is None or not self._obeyed:
            return FREE
        if not workload.gates and not workload.claims:
            return FREE
        return hold_of(workload, [self._asked(ClaimKey(job.namespace, name), job.uid) for name in workload.claims])

    def forget(self, key: ClaimKey) -> None:
        """No job has it any more."""
        self.states.pop(key, None)
        self.users.pop(key, None)

    def _asked(self, key: ClaimKey, uid: str) -> ClaimState | None:
        self.users.setdefault(key, set()).add(uid)
        if key not in self.states:
            self.on_wanted()
        return self.states.get(key)
