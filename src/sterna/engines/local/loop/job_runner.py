"""Carries one job towards what is intended: moves on rows, one commit, then what the world lacks. Level-triggered.

`reconcile` may be called at any moment and any number of times. It looks, changes rows, commits, and only then touches
processes and mailboxes; whatever fails is due again at the next look. One job is carried on by one call at a time.
"""

import os
from collections.abc import Collection, Mapping

from sterna.engines.local.launch.warden.values import ProcessState
from sterna.engines.local.loop.carry_out import Hands
from sterna.engines.local.process.home import Home
from sterna.engines.local.progress.program_progress import note
from sterna.engines.local.reconcile import changes, job_conditions
from sterna.engines.local.reconcile.effects_due import due
from sterna.engines.local.reconcile.gang import WARM_S, Gang
from sterna.engines.local.reconcile.row_changes import Letters, carry_out, five_letters
from sterna.engines.local.reconcile.row_moves import next_moment, next_moves
from sterna.engines.local.store.job_book import Book, LocalJob, LocalProcess, committed_now
from sterna.model.errors import InvariantBroken
from sterna.protocol import read_orders, read_status
from sterna.protocol.mailbox import STATUS_FILE

_ROUNDS_MAX = 64  # moves lead to moves; no honest chain is longer


class Runner:
    def __init__(
        self,
        book: Book,
        home: Home,
        hands: Hands,
        *,
        warm_s: float = WARM_S,
        letters: Letters = five_letters,
    ) -> None:
        self.closing = False  # everything commits and goes
        self._book = book
        self._home = home
        self._hands = hands
        self._warm_s = warm_s
        self._letters = letters

    async def reconcile(self, job: LocalJob) -> float | None:
        """Bring the job as far as it can come now. The moment to look again; None: when something happens."""
        for _ in range(_ROUNDS_MAX):
            if not self._book.has(job):
                return None  # dropped while an effect was carried out: rows written now would bring it back
            self.settle(job)
            self._book.commit(f"job {job.row.id}")
            fence = -1 if job.fence is None else job.fence
            effects = due(self._look(job), fence=fence, hooks_begun=frozenset(job.hooks_begun))
            if not effects:
                self._hands.write_contract_files(job)
                return next_moment(self._look(job))
            for effect in effects:
                await self._hands.perform(job, effect)
        raise InvariantBroken(f"job {job.row.id} does not come to rest")

    def settle(self, job: LocalJob) -> None:
        """All moves that follow from what is known, on rows in memory.

        A gang makes its first step once all of its ranks have attached, and each has said so before: a rank that is
        read as not attached now proves that none of them has trained anything yet.
        """
        for process in job.live:
            if process.status is None:
                self.heard(job, process)
        for _ in range(_ROUNDS_MAX):
            moves = next_moves(self._look(job))
            if not moves:
                break
            for move in moves:
                carry_out(self._book, job, move, letters=self._letters)
        else:
            raise InvariantBroken(f"job {job.row.id}: no end of moves, the last ones were {moves}")
        changes.follow(self._book, job, self._look(job))
        job_conditions.tell(self._book, job)
        self._book.prune(job)

    def heard(self, job: LocalJob, process: LocalProcess) -> bool:
        """Read a worker's status; says whether it is worth a look at its job."""
        path = self._home.mailbox(job.row.uid, process.row.uid)
        try:
            stamp = os.stat(path / STATUS_FILE).st_mtime_ns
        except OSError:
            return False
        if stamp == process.status_stamp:
            return False
        status = read_status(path)
        if status is None:
            return False
        before, process.status, process.status_stamp = process.status, status, stamp
        if process.committed_s is None and committed_now(process):
            process.committed_s = self._book.timeline.now()
        note(self._book, job, process)
        if before is None or (before.first_step_mono_s is None) != (status.first_step_mono_s is None):
            return True
        return (before.phase, before.ack) != (status.phase, status.ack)

    def adopt(self, job: LocalJob, states: Mapping[str, ProcessState], held: Collection[str]) -> None:
        """What a census and the mailboxes say of this job's processes.

        `held` are those that the warden was known to hold when the census was asked for: they are gone if it does not
        name them. Of those that came later it says nothing.
        """
        for process in job.processes.values():
            uid = process.row.uid
            if uid in states:
                process.told(states[uid])
            elif uid in held:
                process.denied()
            if process.row.live:
                orders = read_orders(self._home.mailbox(job.row.uid, process.row.uid))
                process.order_written = orders.seq if orders is not None else 0
                self.heard(job, process)

    def _look(self, job: LocalJob) -> Gang:
        return job.look(self._book.timeline.now(), closing=self.closing, warm_s=self._warm_s)
