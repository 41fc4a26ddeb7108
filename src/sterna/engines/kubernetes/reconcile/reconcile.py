"""What is to be done about one job, now: a pure function of one look at it.

    done = reconcile(view, now_s, options)

1. `done.status` is merged into the job's status, with the resource version of the look; if it was written since, the
   rest is dropped and the job looked at again (with the same `vanished` pods).
2. `done.events` are recorded, `done.happenings` wake the core. The status that was written has the events as well
   (`announcements.py`), so that they are recorded even if the operator is killed in between.
3. `done.effects` are carried out in order.
4. It is looked at again when something happens to the job, its pods, services or nodes, and at `done.wake_s`.

Nothing is remembered between two looks but what the status says, so a crash at any point costs nothing. An intention of
the core is the same with another standing: `reconcile(view.but(grown(view, action, now_s)), now_s, options)`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sterna.engines.kubernetes.apiserver.objects import Body
from sterna.engines.kubernetes.process.settings import Binding
from sterna.engines.kubernetes.reconcile.adoption import adopted, begun
from sterna.engines.kubernetes.reconcile.changes import followed
from sterna.engines.kubernetes.reconcile.denied_seats import heeded
from sterna.engines.kubernetes.reconcile.effects import DeleteJob, Effect
from sterna.engines.kubernetes.reconcile.effects_due import clean_up_due, effects_due, next_removal_s
from sterna.engines.kubernetes.reconcile.intentions import held_back, is_others
from sterna.engines.kubernetes.reconcile.job_view import JobView, Options
from sterna.engines.kubernetes.reconcile.last_words import heard
from sterna.engines.kubernetes.reconcile.lost_seats import seats_left
from sterna.engines.kubernetes.reconcile.pod_ends import Restart, left_alone, verdict
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.reconcile.transitions import (
    finished,
    restarted,
    told_of_growth,
    told_of_past,
    with_suspension,
)
from sterna.engines.kubernetes.status.announcements import is_untidy, with_events, without_told
from sterna.engines.kubernetes.status.job_conditions import (
    conditions_now,
    events_of,
    ignored_conditions,
    refused_conditions,
)
from sterna.engines.kubernetes.status.job_events import JobEvent, Reason
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.status.status_patch import refused_patch, shown_reason, status_patch
from sterna.engines.pacing import Happening
from sterna.lifecycle.admission_denials import forgiven, next_moment_s
from sterna.lifecycle.condition_rules import invalid_spec
from sterna.lifecycle.gang_roles import size_of
from sterna.lifecycle.lost_seats import loss_in_words
from sterna.lifecycle.node_refusals import in_force, next_expiry_s, without_expired
from sterna.lifecycle.outcome import Finish, deadline_s
from sterna.model.phases import Phase
from sterna.model.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    standing: Standing  # as it is from now on, once `status` is written
    status: Body | None  # merge patch of the job's status, None for keys that go. None: nothing changed
    effects: tuple[Effect, ...] = ()
    events: tuple[JobEvent, ...] = ()
    happenings: tuple[Happening, ...] = ()
    wake_s: float | None = None  # look again at this moment although nothing happens. None: no need


def reconcile(view: JobView, now_s: float, options: Options, *, standing_only: bool = False) -> Reconciled:
    """Level-triggered: carried out and looked at again, it comes to rest.

    `standing_only` is for callers that write an intention down: what is to be done about it is found by the next look.
    """
    if view.deleting or is_others(view) or view.standing.epoch > options.epoch:
        return Reconciled(standing=view.standing, status=None)
    if view.workload is None:
        return _without_sense(view, now_s, options)
    return _Turn(view, view.workload, now_s, options).result(standing_only=standing_only)


OVERWRITTEN = "another client wrote over its status, where the scheduler alone writes; what stood there stands again"


class _Turn:
    """One look on its way to what follows from it: the standing changes step by step, everything else is collected."""

    def __init__(self, view: JobView, workload: Workload, now_s: float, options: Options) -> None:
        self.view = view
        self.workload = workload
        self.now_s = now_s
        self.options = options
        self.look = Look(view, workload, view.standing)
        self.events: list[JobEvent] = []
        self.happenings: list[Happening] = []

    @property
    def standing(self) -> Standing:
        return self.look.standing

    @standing.setter
    def standing(self, standing: Standing) -> None:
        self.look = self.look.but(standing)

    def result(self, *, standing_only: bool) -> Reconciled:
        if self.view.status.overwritten:
            self.events.append(JobEvent(Reason.STATUS_OVERWRITTEN, OVERWRITTEN, warning=True))
        self._begin()
        if not self.standing.finished:
            self._follow_owner()
            self._judge()
        if not self.standing.finished:
            self._count_losses()
            self._heed_admission()
            if (missed := left_alone(self.look)) is not None:
                self.standing = restarted(self.look, missed, self.now_s)
            self.standing = followed(self.look, self.now_s)
            self._forgive()
            self.standing = held_back(self.view.but(self.standing), self.now_s)
        look = self.look
        conditions = conditions_now(look, self.now_s)
        self.events += told_of_past(self.view.status.recorded, look.standing)
        self.events += told_of_growth(self.view.status.recorded, look.standing)
        self.events += events_of(self.view, conditions)
        self._tell_why_it_waits()
        status = status_patch(look, conditions, epoch=self.options.epoch)
        if status is not None or is_untidy(look.standing, self.view.told, self.now_s):
            look = look.but(_announcing(self.view, look.standing, self.events, self.now_s))
            status = status_patch(look, conditions, epoch=self.options.epoch)
        standing = look.standing if status is None else replace(look.standing, epoch=self.options.epoch)
        return Reconciled(
            standing=standing,
            status=status,
            effects=() if standing_only else self._effects(look),
            events=tuple(self.events),
            happenings=tuple(dict.fromkeys(self.happenings)),
            wake_s=self._wake_s(look),
        )

    # -- how it stands ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self.standing.enqueued_s is None:
            self.standing, events = begun(self.view, self.workload, self.now_s)
            self.events += events
            self.happenings.append(Happening.JOB_ACCEPTED)
        if self.options.binding is Binding.NONE:
            self.standing = adopted(self.look)
        if self.standing.kept != self.view.kept and not self.standing.finished:
            self.standing = replace(self.standing, kept=self.view.kept)

    def _follow_owner(self) -> None:
        before = self.standing.phase
        self.standing = with_suspension(self.look, self.now_s)
        if self.standing.phase is not before:
            suspended = self.standing.phase is Phase.SUSPENDED
            self.happenings.append(Happening.JOB_SUSPENDED if suspended else Happening.JOB_RESUMED)

    def _judge(self) -> None:
        look = self.look
        self.standing, fresh, events = heard(look)
        self.events += events
        found = None if self.standing.phase is Phase.SUSPENDED else verdict(self.look, fresh, self.now_s)
        match found:
            case Finish():
                self.standing = finished(self.look, found, self.now_s)
                well = found.phase is Phase.SUCCEEDED
                self.happenings.append(Happening.JOB_COMPLETED if well else Happening.JOB_FAILED)
            case Restart():
                self.standing = restarted(self.look, found, self.now_s)

    def _count_losses(self) -> None:
        before = self.standing
        self.standing = seats_left(self.look, self.now_s)
        if self.standing is not before:
            message = loss_in_words(self.standing.message, kept=self.standing.assigned, held=before.assigned)
            self.events.append(JobEvent(Reason.WORKERS_LOST, message, warning=True))
            self.happenings.append(Happening.WORKERS_GONE)

    def _heed_admission(self) -> None:
        before = self.standing.denial
        self.standing, given_back = heeded(self.look, self.now_s, self.options.admission_patience_s)
        if given_back:
            self.events.append(JobEvent(Reason.ADMISSION_DENIED, given_back, warning=True))
            self.happenings.append(Happening.WORKERS_GONE)
        denial = self.standing.denial
        if before is not None and before.in_force and (denial is None or not denial.in_force):
            self.happenings.append(Happening.JOB_RESUMED)

    def _forgive(self) -> None:
        """Nodes whose time is over may be tried again. Once the whole gang is ready, what such nodes did, earlier
        rejections and the pause after them no longer count.
        """
        standing = self.standing
        if (refusals := without_expired(standing.refusals, self.now_s)) is not standing.refusals:
            self.standing = standing = replace(standing, refusals=refusals)
            self.happenings.append(Happening.NODE_CHANGED)
        if self.look.all_ready and (standing.rejections or standing.retry_s is not None or standing.refusals):
            self.standing = replace(standing, rejections=0, retry_s=None, refusals=in_force(standing.refusals))
        if self.look.all_ready:
            denial = forgiven(standing.denial, size_of(standing.assigned))
            self.standing = self.standing if denial is standing.denial else replace(self.standing, denial=denial)

    def _tell_why_it_waits(self) -> None:
        reason, message = shown_reason(self.view)
        before = self.view.status.recorded.reason
        if self.standing.phase is Phase.WAITING and self.standing.reason not in ("", before):
            self.events.append(JobEvent(Reason.QUEUED, f"{self.standing.reason}: {self.standing.message}"))
        invalid = invalid_spec(self.view.kind)
        if self.view.problem and not self.standing.finished and (reason != invalid or self.view.problem not in message):
            text = f"the latest edit is ignored, the job goes on as it was: {self.view.problem}"
            self.events.append(JobEvent(Reason.EDIT_IGNORED, text, warning=True))

    # -- what follows -------------------------------------------------------------------------------------------------

    def _effects(self, look: Look) -> tuple[Effect, ...]:
        if not look.standing.finished:
            return effects_due(look, self.now_s, self.options)
        effects = clean_up_due(look, self.now_s)
        expires_s = self._expires_s(look)
        if expires_s is not None and self.now_s >= expires_s:
            return (*effects, DeleteJob(self.view.name, self.view.uid))
        return effects

    def _expires_s(self, look: Look) -> float | None:
        ttl_s, finished_s = self.workload.run_policy.ttl_after_finished_s, look.standing.finished_s
        return None if ttl_s is None or finished_s is None else finished_s + ttl_s

    def _wake_s(self, look: Look) -> float | None:
        if look.standing.finished:
            moments = [self._expires_s(look), next_removal_s(look)]
        else:
            standing = look.standing
            moments = [deadline_s(look.workload, standing.active_s), standing.retry_s, next_expiry_s(standing.refusals)]
            moments += [next_removal_s(look), next_moment_s(standing.denial, self.options.admission_patience_s)]
            moments.append(None if self.view.hindrance is None else self.view.hindrance.again_s)
        return min((at_s for at_s in moments if at_s is not None and at_s > self.now_s), default=None)


def _without_sense(view: JobView, now_s: float, options: Options) -> Reconciled:
    """Its spec cannot be read. A new job has failed by that; one that was taken in before goes on as it is."""
    standing, (reason, message) = view.standing, shown_reason(view)
    if standing.finished:
        return _finished_without_sense(view, now_s, options)
    invalid = invalid_spec(view.kind)
    if standing.enqueued_s is not None or view.pods:
        told = reason == invalid and view.problem in message
        text = f"the latest edit is ignored, {_ALONE}: {view.problem}"
        events = () if told else (JobEvent(Reason.EDIT_IGNORED, text, warning=True),)
        if events or is_untidy(standing, view.told, now_s):
            standing = _announcing(view, standing, events, now_s)
        status = refused_patch(view, ignored_conditions(view, now_s), standing, epoch=options.epoch)
        return Reconciled(standing=standing, status=status, events=events)
    standing = replace(
        standing,
        phase=Phase.FAILED,
        reason=invalid,
        message=view.problem,
        enqueued_s=now_s,
        finished_s=now_s,
        epoch=options.epoch,
    )
    conditions = refused_conditions(view, now_s)
    events = (JobEvent(invalid, view.problem, warning=True),)
    standing = _announcing(view, standing, events, now_s)
    return Reconciled(
        standing=standing,
        status=refused_patch(view, conditions, standing, epoch=options.epoch),
        events=events,
    )


_ALONE = "and as no valid spec of the job is kept, its pods are left alone until its spec is valid"


def _finished_without_sense(view: JobView, now_s: float, options: Options) -> Reconciled:
    """Nothing is left to do for it but to drop announcements that are recorded, and to say again what was wiped."""
    standing = view.standing
    if not view.status.overwritten and not is_untidy(standing, view.told, now_s):
        return Reconciled(standing=standing, status=None)
    standing = _announcing(view, standing, (), now_s)
    status = refused_patch(view, view.status.conditions, standing, epoch=options.epoch)
    return Reconciled(standing=standing, status=status)


def _announcing(view: JobView, standing: Standing, events: Sequence[JobEvent], now_s: float) -> Standing:
    return with_events(without_told(standing, view.told), events, now_s)
