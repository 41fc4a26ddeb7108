"""One process of a job inside Sterna: joins the others, does what it is ordered to at step boundaries, says so.

`Run` is what a program sees; this is what happens behind it when there is an engine.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sterna.protocol import Order, Orders, Phase, Status, WorkerIdentity, read_status
from sterna.training.agreement import Agreement, Alone
from sterna.training.checkpoint import Loaded, SaveInterval
from sterna.training.cut import Cut, Kind
from sterna.training.errors import Superseded, TrainingError
from sterna.training.joining import Joining
from sterna.training.notices import Notices
from sterna.training.outbox import Outbox
from sterna.training.progress import Progress
from sterna.training.registry import Registry
from sterna.training.saving import Captured, Saving, store_of

_KINDS = {Order.RUN: Kind.NOTHING, Order.COMMIT: Kind.COMMIT, Order.HOLD: Kind.HOLD, Order.STOP: Kind.STOP}
_LEAVE_IT_TO_RANK_0_S = 0.25  # the same order reaches all ranks, and rank 0 acts on its own: others need not ask
_HOLD_LOOK_S, _RELEASE_LOOK_S = 0.2, 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a program may choose. See `attach`."""

    save_every_s: tuple[float, float] | None
    keep: int
    patience_s: float


class Worker:
    """Everything that needs an engine. Used by the training thread; the status thread calls `_facts` and `_watch`."""

    def __init__(self, identity: WorkerIdentity, settings: Settings, registry: Registry, progress: Progress) -> None:
        assert identity.mailbox is not None
        speaks = identity.local_rank == 0
        self._identity = identity
        self._settings = settings
        self._registry = registry
        self._progress = progress
        self._leads = identity.rank == 0 or not identity.gang
        self._notices = Notices(identity.mailbox, standby=identity.standby, woken=speaks)
        self._saving: Saving | None = None
        self._agreement: Agreement = Alone()
        self._saved_step: int | None = None  # the step of the last cut, or of what was restored
        self._answered = self._answered_before()  # seq of the last order that is taken care of, or being saved for
        self._ack_when_saved: int | None = None
        self._asked_s: float | None = None  # since when there is an order that rank 0 might take care of
        self._signalled = False
        self._handler_before: Any = None
        self.joined = False
        self.commit_asked = False  # by the program, for the end of the present step
        self.stopped = False
        self._outbox = Outbox(
            Status(pid=os.getpid(), phase=Phase.ATTACHED, ack=self._answered, world_size=identity.world_size),
            mailbox=identity.mailbox if speaks else None,
            engine=identity.wake,
            worker=identity.worker,
            facts=self._facts,
            watch=self._watch,
        )
        self._outbox.tell()

    def join(self, *, load: bool, apply: Callable[[Loaded], None]) -> bool:
        """Come in with the others. Whether something was restored."""
        self.joined = True
        try:
            return self._join(load, apply)
        except TrainingError as error:
            self._outbox.tell(problem=str(error))
            raise

    def _join(self, load: bool, apply: Callable[[Loaded], None]) -> bool:
        store = store_of(self._identity, keep=self._settings.keep)
        if store is None:
            self._outbox.tell(problem="nothing can be saved: there is no checkpoint directory (STERNA_CHECKPOINT_DIR)")
        else:
            every_s = self._settings.save_every_s
            interval = SaveInterval(min_s=every_s[0], max_s=every_s[1]) if every_s is not None else None
            self._saving = Saving(store, interval, self._registry if self._leads else None, self._progress)
        joined = Joining(self._identity, store, self, patience_s=self._settings.patience_s).join(load=load)
        if joined is None:
            self._stop(self._notices.orders.seq)
            return False
        self._agreement = joined.agreement
        if joined.passed_over:
            self._outbox.tell(problem=f"newer checkpoints could not be loaded: {'; '.join(joined.passed_over)}")
        if self._saving is None or joined.generation is None or joined.loaded is None:
            return False
        self._progress.restore(joined.generation.step, joined.generation.about)
        apply(joined.loaded)
        self._saved_step = joined.generation.step
        self._saving.durable(joined.generation, stall_s=0.0)
        self._outbox.note(restored_step=joined.generation.step, load_s=joined.load_s)
        return True

    def look(self) -> Orders:
        return self._notices.look(time.monotonic())

    def wait(self, at_most_s: float) -> None:
        self._notices.wait(at_most_s)

    def say_ready(self) -> None:
        self._answered = max(self._answered, self._notices.orders.seq)
        self._outbox.tell(phase=Phase.READY, ack=self._answered)

    def say_restoring(self) -> None:
        if self._outbox.status.phase is not Phase.RESTORING:
            self._outbox.tell(phase=Phase.RESTORING)

    def training(self) -> None:
        """The first step of this process begins."""
        orders = self.look()
        if orders.order is Order.RUN:
            self._answered = max(self._answered, orders.seq)
        self._outbox.tell(phase=Phase.TRAINING, ack=self._answered)

    def boundary(self, captured: Captured) -> None:
        """Between two steps: notice, agree, save, acknowledge."""
        if self.stopped:
            return
        now_s = time.monotonic()
        if self._saving is not None:
            if self._saving.look():
                self._tell_saved()
            if self._saving.superseded is not None:
                raise Superseded(f"{self._saving.superseded}; this process has to end")
        cut = self._agreement.at_boundary(self._progress.step, self._wanted(now_s))
        if cut is not None:
            self._take(cut, captured, save=self._saved_step != self._progress.step)
        self._outbox.touch()

    def prepare(self, captured: Captured) -> None:
        if self._saving is not None:
            self._saving.prepare(captured)

    def commit(self, captured: Captured) -> None:
        """Now, and wait for it. All ranks do."""
        if not self.stopped:
            self.commit_asked = True
            self._take(self._agreement.here(self._progress.step), captured, save=True)

    def _wanted(self, now_s: float) -> Kind:
        """What this rank asks for at this boundary."""
        orders = self._notices.look(now_s)
        want = Kind.STOP if self._signalled else Kind.COMMIT if self.commit_asked else Kind.NOTHING
        if orders.seq > self._answered:
            if orders.order is Order.RUN:
                self._answered = orders.seq
                self._outbox.tell(ack=orders.seq)
            elif self._leads or self._asked_for_long(now_s):
                want = max(want, _KINDS[orders.order])
        if want is Kind.NOTHING and self._leads and self._saving is not None and self._saving.due(now_s):
            return Kind.PERIODIC
        return want

    def _asked_for_long(self, now_s: float) -> bool:
        if self._asked_s is None:
            self._asked_s = now_s
        return now_s - self._asked_s >= _LEAVE_IT_TO_RANK_0_S

    def _take(self, cut: Cut, captured: Captured, *, save: bool) -> None:
        """Everybody stands at this step: save, and do what the cut is for."""
        orders = self.look()
        covered = orders.seq > self._answered and _KINDS[orders.order] <= cut.kind
        if covered:
            self._answered = orders.seq
        asked, self.commit_asked = self.commit_asked, False
        self._asked_s, self._saved_step = None, self._progress.step
        if cut.kind <= Kind.COMMIT:
            if self._saving is not None and save:
                self._saving.begin(captured)
                if asked:  # by the program, which expects it to be durable
                    self._saving.finish(self._settings.patience_s)
            if covered:
                self._ack_when_saved = self._answered
            if self._saving is None or not self._saving.under_way:
                self._tell_saved()
        else:
            if self._saving is not None and save:
                self._saving.save(captured)
            elif self._saving is not None:
                self._saving.finish(self._settings.patience_s)
            self._tell_saved()
            if cut.kind is Kind.STOP:
                self._stop(self._answered)
            else:
                self._outbox.tell(phase=Phase.COMMITTED, ack=self._answered)
                self._stand_still()
        self._progress.paused()

    def _stand_still(self) -> None:
        """A hold while training: until the next order to rank 0, which lets the others go as well."""
        ended_in: Kind | None = None
        while ended_in is None:
            if self._leads:
                self.wait(_HOLD_LOOK_S)
                orders = self.look()
                if self._signalled:
                    ended_in = Kind.STOP
                elif orders.seq > self._answered:
                    self._answered = orders.seq
                    if orders.order is Order.HOLD:
                        self._outbox.tell(ack=orders.seq)
                    else:
                        ended_in = _KINDS[orders.order]
            else:
                time.sleep(_RELEASE_LOOK_S)
                ended_in = self._agreement.released()
        self._agreement.release(ended_in)
        if ended_in is Kind.STOP:
            self._stop(self._answered)
        else:
            self._outbox.tell(phase=Phase.TRAINING, ack=self._answered)

    def _stop(self, seq: int) -> None:
        self.stopped = True
        self._outbox.tell(phase=Phase.COMMITTED, ack=max(seq, self._outbox.status.ack))

    def _tell_saved(self) -> None:
        """What came of a save, good or bad. Orders that waited for it are acknowledged either way, as things are."""
        ack, self._ack_when_saved = self._ack_when_saved, None
        problem = self._saving.problem if self._saving is not None else self._outbox.status.problem
        self._outbox.tell(problem=problem, **({} if ack is None else {"ack": ack}))

    def report(self, metrics: dict[str, Any]) -> None:
        self._outbox.report(metrics)

    def listen_for_signals(self) -> None:
        if self._handler_before is None:
            self._handler_before = signal.signal(signal.SIGTERM, self._on_signal)

    def finish(self, problem: str | None) -> None:
        """Wait for what is being saved, and say goodbye: as finished, unless it was stopped or has failed."""
        if self._saving is not None:
            self._saving.close(self._settings.patience_s)
            self._tell_saved()
        self._agreement.close()
        if problem is not None:
            self._outbox.tell(problem=problem)
        elif not self.stopped:
            self._outbox.tell(phase=Phase.FINISHED)
        self._outbox.close()
        self._notices.close()
        if self._handler_before is not None:
            with contextlib.suppress(ValueError):  # not in the main thread any more
                signal.signal(signal.SIGTERM, self._handler_before)

    def _on_signal(self, *_: object) -> None:
        self._signalled = True

    def _answered_before(self) -> int:
        """What a process that torchrun has replaced by this one had acknowledged. To stop is ordered of each anew."""
        assert self._identity.mailbox is not None
        before, orders = read_status(self._identity.mailbox), self.look()
        ack = before.ack if before is not None else 0
        return min(ack, orders.seq - 1) if orders.order in (Order.STOP, Order.HOLD) else ack

    def _facts(self) -> dict[str, Any]:
        """What the status says beside what was told: gathered when it is written, not at every step."""
        progress, saving = self._progress, self._saving
        return {
            "step": progress.step,
            "epoch": progress.position.epoch,
            "units_done": float(progress.step),
            "units_total": None if progress.units_total is None else float(progress.units_total),
            "step_s": progress.step_s,
            "samples": progress.samples,
            "first_step_mono_s": progress.first_step_mono_s,
            "last_step_mono_s": progress.last_step_mono_s,
            "checkpoint": saving.last if saving is not None else None,
            "save_s": saving.save_s if saving is not None else None,
        }

    def _watch(self) -> None:
        """Once a second, from the status thread: a step may take minutes, and an acknowledgement should not."""
        if self._saving is not None and self._saving.look():
            self._tell_saved()
        if self.stopped and self.look().seq > self._outbox.status.ack:
            self._outbox.tell(ack=self._notices.orders.seq)  # an order that came when everything was done already
