"""All processes of one home: which run, which ended, what is on disk about it, and which ports are held.

The order that matters is kept here: an end is first appended to the journal and synced, then told. Ends of the same
moment share one sync.
"""

import os
from collections.abc import Callable

from sterna.engines.local.launch.warden.event_loop import now_s
from sterna.engines.local.launch.warden.exit_journal import Journal
from sterna.engines.local.launch.warden.ports import Ports
from sterna.engines.local.launch.warden.values import Census, Hook, HookEnded, Launch, ProcessState
from sterna.engines.local.launch.warden.wire import Refused
from sterna.engines.local.launch.warden.workers.cgroups import Cgroups, kill_each
from sterna.engines.local.launch.warden.workers.child import Children, not_run
from sterna.engines.local.launch.warden.workers.leftovers import children_of
from sterna.engines.local.launch.warden.workers.training_process import Worker

DISK_S = 10.0  # how long an end waits for a full disk before it is told all the same


class Processes:
    """The warden's processes by id. What is asked of an id that is not known raises Refused."""

    def __init__(self, *, name: str, token: str, children: Children, cgroups: Cgroups, journal: Journal) -> None:
        self.name = name  # of this warden
        self.token = token  # of this home
        self.children = children
        self.cgroups = cgroups
        self.ports = Ports()
        self.on_end: Callable[[ProcessState], None] = lambda state: None
        self._journal = journal
        self._workers: dict[str, Worker] = {}
        self._ends: dict[str, ProcessState] = {}  # recorded, and not yet forgotten
        self._unrecorded: list[Worker] = []
        self._disk_until_s: float | None = None
        self.is_closing = False  # nothing is started any more
        children.loop.settle(self._record)

    def load(self) -> None:
        """Take over what an earlier warden recorded."""
        self._ends = self._journal.load()

    @property
    def is_empty(self) -> bool:
        return not self._workers and not self._ends

    @property
    def live_ids(self) -> list[str]:
        return sorted(self._workers)

    def start(self, launch: Launch, call: Callable[[ProcessState], None]) -> None:
        """At most one process for an id, ever: whatever became of it is the answer to every further start."""
        if launch.id in self._ends:
            call(self._ends[launch.id])
            return
        worker = self._workers.get(launch.id)
        if worker is None:
            if self.is_closing:
                raise Refused("unavailable", "this warden is about to leave")
            worker = Worker(launch, self)
            try:
                self._journal.began(worker.state)
            except OSError as error:
                raise Refused("unavailable", f"journal: {error.strerror}; nothing was started") from error
            self._workers[launch.id] = worker
            worker.begin()
        worker.when_started(call)

    def stop(
        self, process_id: str, grace_s: float, pre_stop: Hook | None = None, *, whole_group: bool = True
    ) -> ProcessState:
        """Have it end within `grace_s`; its state now. Raises Refused for an unknown id."""
        worker = self._workers.get(process_id)
        if worker is not None:
            worker.stop(grace_s, pre_stop, whole_group=whole_group)
        return self.state_of(process_id)

    def run_hook(self, process_id: str, hook: Hook, call: Callable[[HookEnded], None]) -> None:
        """Run a hook beside a live worker, once for each name; `call` gets its end."""
        worker = self._workers.get(process_id)
        if worker is not None:
            worker.run_hook(hook, call)
            return
        ran = [ended for ended in self.state_of(process_id).hooks if ended.name == hook.name]
        call(ran[0] if ran else not_run(hook))

    def state_of(self, process_id: str) -> ProcessState:
        if process_id in self._workers:
            return self._workers[process_id].state
        if process_id in self._ends:
            return self._ends[process_id]
        raise Refused("unknown", f"there is no process {process_id!r}", field="id", value=process_id)

    def census(self) -> Census:
        states = self._everything()
        return Census(self.name, os.getpid(), tuple(states[name] for name in sorted(states)), self.ports.held())

    def forget(self, process_ids: list[str]) -> None:
        """All or none; those it never heard of pass, because a repeat after a lost answer must."""
        alive = sorted(self._workers.keys() & set(process_ids))
        if alive:
            raise Refused("conflict", f"still running, so not to be forgotten: {', '.join(alive[:10])}")
        known = [process_id for process_id in process_ids if process_id in self._ends]
        for process_id in process_ids:
            self.ports.release(process_id)
            self._ends.pop(process_id, None)
        try:
            self._journal.forgot(known)
            if self._journal.is_long:
                self._journal.rewrite(self._everything())
        except OSError:
            return  # a full disk: the next warden would know them once more than needed

    def conclude(self, worker: Worker) -> None:
        """A worker has ended: record it after this round of the loop, then tell."""
        self._unrecorded.append(worker)

    def _record(self) -> None:
        """After each round of the loop: everything that ended in it, with one sync."""
        if not self._unrecorded:
            return
        workers, self._unrecorded = self._unrecorded, []
        try:
            self._journal.ended([worker.end for worker in workers])
        except OSError as error:
            until_s = self._disk_until_s = self._disk_until_s or now_s() + DISK_S
            if now_s() < until_s:
                self._unrecorded = workers
                self.children.loop.after(0.5, self._record)
                return
            note = f"its end is not on disk: {error.strerror}"
            for worker in workers:
                worker.end = worker.end._replace(notes=(*worker.end.notes, note))
        self._disk_until_s = None
        for worker in workers:
            self._tell(worker)
        if not self._workers and not self.cgroups.places:
            kill_each(children_of(os.getpid()))  # what hid and was adopted: no worker is left that it could belong to

    def _tell(self, worker: Worker) -> None:
        state = worker.end
        del self._workers[state.id]
        self._ends[state.id] = state
        worker.recorded(state)
        self.on_end(state)

    def _everything(self) -> dict[str, ProcessState]:
        return {**self._ends, **{name: worker.state for name, worker in self._workers.items()}}
