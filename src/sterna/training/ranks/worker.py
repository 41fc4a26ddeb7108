"""One process of a job inside Sterna: joins the others, does what it is ordered to at step boundaries, says so.

`Run` is what a program sees; this is what happens behind it when there is an engine.
"""

import atexit
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sterna.protocol import Order, Orders, WorkerIdentity, WorkerPhase
from sterna.training.checkpoint import Loaded
from sterna.training.errors import MembersLeft, Superseded, TrainingError
from sterna.training.orders.demands import Demands
from sterna.training.orders.outbox import Outbox
from sterna.training.progress import Progress
from sterna.training.ranks.agreement import Agreement, Alone
from sterna.training.ranks.cut import Cut, Kind
from sterna.training.ranks.joining import Joining
from sterna.training.state.interval import SaveInterval
from sterna.training.state.registry import Registry
from sterna.training.state.saving import Captured, Saving, store_of

_HOLD_LOOK_S, _RELEASE_LOOK_S = 0.2, 0.02
_TOLD_AS_WELL_S = 1.0  # where all members of an elastic launch are told to stop, they are told one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a program may choose. See `attach`."""

    save_every_s: tuple[float, float] | None
    keep: int
    patience_s: float
    metric: str
    every_rank_reports: bool


class Worker:
    """Everything that needs an engine. Used by the training thread; the status thread calls `_facts` and `_watch`."""

    def __init__(self, identity: WorkerIdentity, settings: Settings, registry: Registry, progress: Progress) -> None:
        self._identity = identity
        self._settings = settings
        self._registry = registry
        self._progress = progress
        self._leads = identity.rank == 0 or not identity.gang
        self._demands = Demands(identity, leads=self._leads)
        self._stopping = self._demands.stopping
        self._saving: Saving | None = None
        self._agreement: Agreement = Alone()
        self._saved_step: int | None = None  # the step of the last cut, or of what was restored
        self._ack_when_saved: int | None = None
        self.joined = False
        self.commit_asked = False  # by the program, for the end of the present step
        self.stopped = False
        self._finished = False
        self._outbox = Outbox(identity, ack=self._demands.answered, facts=self._facts, watch=self._watch)
        self._outbox.tell(lasting=True)  # what a process before this one in the same container left is no longer true
        atexit.register(self._at_exit, os.getpid())

    def join(self, *, load: bool, apply: Callable[[Loaded], None]) -> bool:
        """Come in with the others. Whether something was restored."""
        self.joined = True
        try:
            return self._join(load, apply)
        except TrainingError as error:
            self._outbox.tell(lasting=True, problem=str(error))
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
            self._stop(self._demands.answer_all())
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
        return self._demands.look()

    def wait(self, at_most_s: float) -> None:
        self._demands.wait(at_most_s)

    def should_leave(self) -> bool:
        return self._demands.should_leave_meeting()

    def say_ready(self) -> None:
        self._outbox.tell(phase=WorkerPhase.READY, ack=self._demands.answer_all())

    def say_restoring(self) -> None:
        if self._outbox.status.phase is not WorkerPhase.RESTORING:
            self._outbox.tell(phase=WorkerPhase.RESTORING)

    def training(self) -> None:
        """The first step of this process begins."""
        if self.look().order is Order.RUN:
            self._demands.answer_all()
        self._outbox.tell(phase=WorkerPhase.TRAINING, ack=self._demands.answered)

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
        want = self._wanted(now_s)
        cut = self._agreement.at_boundary(self._progress.step, want, self._stopping.give_up_s)
        if cut is not None:
            self._take(cut, captured, save=self._saved_step != self._progress.step)
        elif want >= Kind.LEAVE and self._stopping.too_late(time.monotonic()):
            self._give_up()
        self._outbox.touch()

    def prepare(self, captured: Captured) -> None:
        """Have memory ready for the first save."""
        if self._saving is not None:
            self._saving.prepare(captured)

    def commit(self, captured: Captured) -> None:
        """Now, and wait for it. All ranks do."""
        if not self.stopped:
            self.commit_asked = True
            self._take(self._agreement.here(self._progress.step), captured, save=True)

    def _wanted(self, now_s: float) -> Kind:
        """What this rank asks for at this boundary."""
        before = self._demands.answered
        want = self._demands.wanted(now_s)
        if self._demands.answered != before:
            self._outbox.tell(ack=self._demands.answered)
        if self.commit_asked:
            want = max(want, Kind.COMMIT)
        if want is Kind.NOTHING and self._leads and self._saving is not None and self._saving.due(now_s):
            return Kind.PERIODIC
        return want

    def _take(self, cut: Cut, captured: Captured, *, save: bool) -> None:
        """All ranks stand at this step: save, and do what the cut is for."""
        covered, told = self._demands.answer(cut)
        asked, self.commit_asked = self.commit_asked, False
        self._saved_step = self._progress.step
        if cut.kind <= Kind.COMMIT:
            if self._saving is not None and save:
                self._saving.begin(captured)
                if asked:  # by the program, which expects it to be durable
                    self._saving.finish(self._settings.patience_s)
            if covered:
                self._ack_when_saved = self._demands.answered
            if self._saving is None or not self._saving.under_way:
                self._tell_saved()
        else:
            self._save_for_good(captured, save)
            self._tell_saved()
            if cut.kind is Kind.STOP or (cut.kind is Kind.LEAVE and told):
                self._stop(self._demands.answered)
            elif cut.kind is Kind.LEAVE:
                self._make_room()
            else:
                self._outbox.tell(phase=WorkerPhase.COMMITTED, ack=self._demands.answered)
                self._stand_still()
        self._progress.paused()

    def _save_for_good(self, captured: Captured, save: bool) -> None:
        """Before standing still or ending: there may be little time, and there is no later."""
        if self._saving is None:
            return
        at_most_s = self._stopping.patience_s(self._settings.patience_s)
        absent = self._agreement.absent
        if not save:
            self._saving.finish(at_most_s)
        elif absent:
            who = ", ".join(str(rank) for rank in absent)
            self._saving.refuse(f"rank {who} had ended and brings no part of the checkpoint", at_most_s=at_most_s)
        else:
            self._saving.save(captured, at_most_s=at_most_s)

    def _give_up(self) -> None:
        """It is time to go, and the others did not come: the newest checkpoint there is has to do."""
        told_for_s = self._stopping.told_for_s(time.monotonic())
        if self._saving is not None:
            self._saving.give_up(f"told to stop {told_for_s:.0f} s ago, and the ranks came to no common step in time")
            self._tell_saved()
        self._agreement.close()
        self._stop(self._demands.answer_all())

    def _make_room(self) -> None:
        """Others leave an elastic launch and this rank stays, unless it is about to be told as well."""
        until_s = time.monotonic() + _TOLD_AS_WELL_S
        while time.monotonic() < until_s:
            if self._demands.told_to_stop():
                self._stop(self._demands.answer_all())
                return
            time.sleep(_RELEASE_LOOK_S)
        raise MembersLeft(
            f"others were told to leave at step {self._progress.step}: this process ends, so that its launcher starts"
            " the remaining ones anew, from the newest checkpoint"
        )

    def _stand_still(self) -> None:
        """A hold while training: until the next order to rank 0, which lets the others go as well."""
        ended_in: Kind | None = None
        while ended_in is None:
            if self._leads:
                self.wait(_HOLD_LOOK_S)
                before = self._demands.answered
                ended_in = self._demands.kind_ending_hold()
                if ended_in is None and self._demands.answered != before:
                    self._outbox.tell(ack=self._demands.answered)
            else:
                time.sleep(_RELEASE_LOOK_S)
                if self._demands.late_hold():  # rank 0 was faster than the engine with its orders to the others
                    self._outbox.tell(ack=self._demands.answered)
                ended_in = self._agreement.released()
        self._agreement.release(ended_in)
        if ended_in is Kind.STOP:
            self._stop(self._demands.answered)
        else:
            self._outbox.tell(phase=WorkerPhase.TRAINING, ack=self._demands.answered)

    def _stop(self, seq: int) -> None:
        self.stopped = True
        self._outbox.tell(lasting=True, phase=WorkerPhase.COMMITTED, ack=max(seq, self._outbox.status.ack))

    def _tell_saved(self) -> None:
        """What came of a save, good or bad. Orders that waited for it are acknowledged either way, as things are."""
        ack, self._ack_when_saved = self._ack_when_saved, None
        problem = self._saving.problem if self._saving is not None else self._outbox.status.problem
        self._outbox.tell(lasting=True, problem=problem, **({} if ack is None else {"ack": ack}))

    def report(self, metrics: dict[str, Any]) -> None:
        self._outbox.report(metrics)

    def listen_for_signals(self) -> None:
        self._stopping.listen()

    def try_to_listen_for_signals(self) -> None:
        """Because the engine wants it: a program that cannot should know."""
        try:
            self._stopping.listen()
        except ValueError:
            self._outbox.tell(problem="SIGTERM will not be heard: attach() was called outside the main thread")

    def finish(self, problem: str | None) -> None:
        """Wait for what is being saved, and say goodbye: as finished, unless it was stopped or has failed."""
        self._finished = True
        if self._saving is not None:
            self._saving.close(self._stopping.patience_s(self._settings.patience_s))
            self._tell_saved()
        self._agreement.close()
        if problem is not None:
            self._outbox.tell(lasting=True, problem=problem)
        elif not self.stopped:
            self._outbox.tell(lasting=True, phase=WorkerPhase.FINISHED)
        self._outbox.close()
        self._demands.close(listening=self.stopped)

    def _at_exit(self, pid: int) -> None:
        """The program may end without saying so: by an exception as a rule, or because it was told to stop."""
        if self.stopped:
            self._stopping.stop_listening()
        if os.getpid() == pid and not self._finished:  # not a child of it
            error = getattr(sys, "last_value", None)  # what the interpreter has just shown as uncaught
            self._outbox.tell(
                lasting=True, **({} if error is None else {"problem": f"{type(error).__name__}: {error}"})
            )

    def _facts(self) -> dict[str, Any]:
        """What the status says beside what was told: gathered when it is written, not at every step."""
        progress, saving = self._progress, self._saving
        return {
            **progress.counts(),
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
            self._outbox.tell(ack=self.look().seq)  # an order that came when everything was done already
