"""What is known of how jobs train: told by monitors, by termination messages, and learned from jobs like them.

Kept in memory and shown to the next decision. What must survive is little: the category and a summary of each job in
its own status, written when the category changes and at coarse steps (a tenth of the work, or twice as much as before),
and speeds by category in a ConfigMap (`speed_store.py`). Values in between come again from the monitors.
"""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from weakref import WeakValueDictionary

from sterna.engines.kubernetes.progress.job_reports import SILENT_S, Told
from sterna.engines.kubernetes.progress.speed_codec import is_worth_keeping
from sterna.engines.kubernetes.progress.status_memory import Counts, counts_in, last_word, own_model
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.engines.kubernetes.status.standing import Progress, Reported, Standing
from sterna.lifecycle.growth_news import judge_of, judged_growth
from sterna.lifecycle.job_value import TrainingFacts
from sterna.model.curves import SpeedupCurve
from sterna.model.errors import InvalidRequest
from sterna.model.growth import Growth
from sterna.model.ids import NodeId
from sterna.model.jobs import JobSpec, ProgressPoint
from sterna.model.judging import Judge, Judged
from sterna.model.learning import MODELS_MAX, Knowledge, learns_within
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from sterna.model.workload import Workload
from sterna.protocol.reports import Usage

log = logging.getLogger(__name__)

_MODELS_HELD = 2 * MODELS_MAX  # then half of them go, which is seldom
_TENTHS = 10

AcceleratorOf = Callable[[NodeId], str]


class Lessons:
    """`shared`: jobs of one category learn from each other whatever namespaces they are in."""

    def __init__(self, accelerator_of: AcceleratorOf, *, shared: bool = False) -> None:
        self._shared = shared
        self.told: dict[str, Told] = {}  # by uid of the job
        self.knowledge = Knowledge()
        self.kept = Knowledge()  # as it is written down
        self.on_learned: Callable[[str], None] = lambda _: None  # a category about which much more is known than before
        self._judging: Mapping[str, str] = {}  # options of the judge, where a job says nothing else
        self._accelerator_of = accelerator_of
        self._unread: set[str] = set()  # jobs that are still judged by the options of before
        self._loads: dict[NodeId, tuple[float, Resources]] = {}
        # For as long as some job has it: a category is a job's name, unless its owner gave it another one
        self._curves: WeakValueDictionary[tuple[str, str | None, int], SpeedupCurve] = WeakValueDictionary()

    def begin(self, kept: Knowledge) -> None:
        """What was written down before is where learning begins."""
        self.knowledge = self.kept = kept
        self._curves.clear()

    def judge_by(self, options: Mapping[str, str]) -> None:
        """Judge by these from now on. What is known of a job that is told of stays, its category too."""
        if options != self._judging:
            self._judging = dict(options)
            self._unread = set(self.told)

    def learned_as(self, spec: JobSpec) -> JobSpec:
        """The job, of the category that it learns from and teaches."""
        return spec if self._shared else learns_within(spec)

    def forget(self, uid: str) -> None:
        self.told.pop(uid, None)
        self._unread.discard(uid)

    # -- what monitors tell -------------------------------------------------------------------------------------------

    def told_of(self, view: JobView) -> Told:
        """From where its status left off, where nothing was told yet."""
        known = self.told.get(view.uid)
        if known is None:
            judge = usable_judge(view.workload, self._judging)
            return Told(judged=Judged.from_record(judge, view.standing.judged))
        if view.uid in self._unread:
            self._unread.discard(view.uid)
            judge = usable_judge(view.workload, self._judging)
            return replace(known, judged=Judged.from_record(judge, known.judged.to_record()))
        return known

    def take(self, view: JobView, told: Told) -> None:
        """How a job is told of from now on; what is new in it is learned."""
        before = self.told.get(view.uid)
        self.told[view.uid] = told
        known = before.points[-1] if before is not None and before.points else None
        recorded_s = view.standing.reported.at_s if view.standing.reported is not None else -math.inf
        since_s = known.at_s if known is not None else recorded_s  # windows that come again were learned from before
        fresh = [point for point in told.points if point.at_s > since_s]
        if fresh and view.spec is not None and view.standing.assigned:
            self._learn(view.spec, view.standing.assigned[-1].node, fresh)

    def put_load(self, node: NodeId, load: Usage, now_s: float) -> None:
        used = Resources(
            cpu_milli=round((load.cpu or 0.0) * 1000),
            memory_bytes=load.memory_bytes or 0,
            gpu_milli=round((load.gpu or 0.0) * 1000),
        )
        self._loads[node] = (now_s, used)

    def loads(self, now_s: float) -> Mapping[NodeId, Resources]:
        """Of nodes whose monitor speaks."""
        silent = [node for node, (at_s, _) in self._loads.items() if now_s - at_s > SILENT_S]
        for node in silent:
            del self._loads[node]
        return {node: used for node, (_, used) in sorted(self._loads.items())}

    # -- what a decision is told --------------------------------------------------------------------------------------

    def facts_of(self, view: JobView, spec: JobSpec) -> TrainingFacts:
        """Everything that is known of how the job trains."""
        told = self.told.get(view.uid)
        done, total, epoch = counts_of(view.standing, told)
        return TrainingFacts(
            curve=self._curve(view, spec, told),
            units_done=done,
            units_total=total,
            epoch=epoch,
            epochs_declared=None if view.workload is None else view.workload.units_total,
            units_usual=self.knowledge.units_for(self.learned_as(spec)),
            told_s=0.0 if told is None or told.units_done is None else told.as_of_s,
            remaining_s=None if told is None else told.remaining_s,
            points=() if told is None else told.points,
            growth=growth_of(told) or view.standing.growth,
        )

    def _curve(self, view: JobView, spec: JobSpec, told: Told | None) -> SpeedupCurve:
        if not spec.category:  # it shares with no other job, and knows what it saw itself
            model = told.model if told is not None and told.model.seen else own_model(view.standing)
            return model.curve(spec.workers_max)
        spec = self.learned_as(spec)
        key = (spec.category, spec.accelerator, spec.workers_max)
        curve = self._curves.get(key)
        if curve is None:
            curve = self._curves[key] = self.knowledge.curve_for(spec)
        return curve

    # -- what is written down -----------------------------------------------------------------------------------------

    def noted(self, view: JobView) -> Standing:
        """The standing with what is worth a write. The same object: nothing is."""
        standing, told = view.standing, self.told.get(view.uid)
        if told is None or not self.is_worth_writing(standing, told):
            return standing
        units = told.units_done or 0.0
        reported = Reported(round(told.heard_s, 3), units, told.units_total, told.workers, told.unit_s)
        growth = growth_of(told)
        if growth is None:
            return replace(standing, reported=reported)
        return replace(standing, reported=reported, growth=growth, metric=told.metric, judged=told.judged.to_record())

    def is_worth_writing(self, standing: Standing, told: Told) -> bool:
        growth, known = growth_of(told), standing.growth
        if growth is not None and (known is None or known.category is not growth.category):
            return True
        return told.unit_s is not None and _is_step(standing.reported, told)

    def written(self, spec: JobSpec | None, before: Standing, after: Standing) -> None:
        """A job's status was written: its leader's termination message, or its end, may teach something."""
        progress = after.progress
        if spec is None or progress is None:
            return
        workers = after.assigned or before.assigned or (after.history[-1].before if after.history else ())
        if not workers:
            return
        node = workers[-1].node
        if progress != before.progress and after.reported is None:  # monitors would have told it already
            point = last_word(progress)
            if point is not None:
                self._learn(spec, node, [point])
        ended_well = after.phase is Phase.SUCCEEDED and not before.finished
        spec = self.learned_as(spec)
        if ended_well and spec.category and progress.units_done > 0:
            learned = self.knowledge.completed(spec, self._accelerator_of(node), progress.units_done)
            self._know(spec.category, self._accelerator_of(node), learned)

    def _learn(self, spec: JobSpec, node: NodeId, points: list[ProgressPoint]) -> None:
        spec = self.learned_as(spec)
        if spec.category:
            accelerator = self._accelerator_of(node)
            self._know(spec.category, accelerator, self.knowledge.learn(spec, accelerator, points))

    def _know(self, category: str, accelerator: str, knowledge: Knowledge) -> None:
        self.knowledge = knowledge if len(knowledge.models) <= _MODELS_HELD else knowledge.within(MODELS_MAX)
        key = (category, accelerator)
        if is_worth_keeping(knowledge.models[key], self.kept.models.get(key)):
            for known in [known for known in self._curves if known[0] == category]:
                self._curves.pop(known, None)
            self.on_learned(category)


def usable_judge(workload: Workload | None, usual: Mapping[str, str]) -> Judge:
    """As the job's owner wants it judged. Options that make no sense are logged, and change nothing: an object in a
    cluster cannot be refused any more.
    """
    try:
        return Judge.of(usual) if workload is None else judge_of(workload, usual)
    except InvalidRequest as error:
        log.warning("a judge is not used", extra={"job": workload.name if workload else "", "why": str(error)})
        return Judge.of(usual)


def growth_of(told: Told | None) -> Growth | None:
    """None: it was not judged since this operator started."""
    return None if told is None else judged_growth(told.judged.growth)


def counts_of(standing: Standing, told: Told | None) -> Counts:
    """As was said last: by a monitor since this operator started, or as the status remembers."""
    if told is None or told.units_done is None:
        return counts_in(standing)
    progress = standing.progress or Progress()
    total = told.units_total if told.units_total is not None else progress.units_total
    return Counts(told.units_done, total, told.epoch or progress.epoch)


def _is_step(known: Reported | None, told: Told) -> bool:
    if known is None or known.unit_s is None:
        return True
    done, total = told.units_done or 0.0, told.units_total
    if total:
        return int(_TENTHS * done / total) > int(_TENTHS * known.units_done / total)
    return done >= 2 * max(1.0, known.units_done)
