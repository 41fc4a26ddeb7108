"""What is granted, turned into what can be seated: sizes and places that agree, however many resources bind.

A policy counts in one currency and knows nothing of nodes, so what it grants may not fit. Three things are done about
that, pass after pass, until nothing new comes of it:

- Minimums before growth. A job that was granted workers and found no nodes is seated at its least size, at the price
  of workers that others hold above theirs (`placement/least_seats.py`). Then growth comes back.
- A job that cannot be seated even so is left out, and with it every waiting job that asks for no less and every one
  that no shrinking would make room for; the policy shares out again without them.
- A job that was seated with less than its grant takes part in the next pass with that as its maximum, so that what it
  cannot use goes to others; what they leave is its own again in the end.

A job that was left out beside one that was left out later may have a seat after all. In the end a seat is sought for
all of them beside what the others hold at least, and the policy shares out again with those that get one, in passes
as before.

Passes are bounded by work: `PASSES_MIN`, and more while passes times jobs stay below `JOBS_LOOKED_AT_MAX`. A policy
whose grants are wishes (DRAGON) settles all of this itself, and nothing is repaired after it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from sterna.model.feasibility import cannot_start
from sterna.model.ids import JobId
from sterna.model.jobs import JobSpec, Worker
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, PolicyMemory, Target
from sterna.model.why import Because, Why
from sterna.placement.count import count_only
from sterna.placement.least_seats import LeastSeats, least_seats, least_size
from sterna.placement.regrowth import recognised, regrown
from sterna.planner.shortfalls import at_most, narrowed, short_of_grant, stranded

Sizing = Callable[[Snapshot], Target]
Placing = Callable[[Snapshot, Target], Layout]

PASSES_MIN = 8
JOBS_LOOKED_AT_MAX = 200_000
PROBLEMS_MAX = 16  # exact searches in one decision

_FORCED = frozenset({Why.NODE_LOST, Why.NODE_DRAINED, Why.CROWDED_OUT})  # explain a move better than any order does
_NO_NODES = Because(Why.NO_NODE_FITS)


def placed_target(
    view: Snapshot, size: Sizing, place: Placing, verdicts: dict[JobId, Because]
) -> tuple[Target, Layout]:
    """Size and place, and repair where the two disagree. Verdicts on jobs that can never start are added."""
    target = size(view)
    layout = place(view, target)
    if place is count_only or target.wishes or not (stranded(target, layout) or short_of_grant(view, target, layout)):
        return target, layout
    return _Repair(view, size, place, target, layout).done(verdicts)


class _Repair:
    """One decision's passes. Lives for one call."""

    def __init__(self, view: Snapshot, size: Sizing, place: Placing, target: Target, layout: Layout) -> None:
        self._view, self._size, self._place = view, size, place
        self._playing = view  # the jobs that still take part, with the sizes that are known to fit
        self._target, self._layout = target, layout
        self._seats: Mapping[JobId, tuple[Worker, ...]] | None = None  # None: no job had to be helped to one yet
        self._passes = max(PASSES_MIN, JOBS_LOOKED_AT_MAX // len(view.jobs))
        self._problems_left = PROBLEMS_MAX
        self._granted: dict[JobId, Grant] = {}  # to jobs that took part with a smaller maximum afterwards
        self._beside: set[JobId] = set()  # jobs that had a seat when a job's maximum became smaller
        self._left_out: dict[JobId, Because] = {}
        self._refused: dict[_Kind, tuple[int, Because]] = {}  # least size and reason of jobs that found no seat
        self._first_memory = target.memory
        self._forced = {job_id: why for job_id, why in layout.becauses.items() if why.why in _FORCED}

    def done(self, verdicts: dict[JobId, Because]) -> tuple[Target, Layout]:
        for number in range(self._passes):
            least = self._help() if stranded(self._target, self._layout) else None
            standing = self._leave_out()
            gone = standing | self._leave_out_hopeless(least) if number and standing and least else standing
            short = short_of_grant(self._playing, self._target, self._layout)
            if not gone and not short:
                break
            if not self._beside.isdisjoint(standing):  # others were cut short beside a job that is gone now
                self._playing, self._granted = narrowed(self._view, self._left_out.keys(), {}), {}
                self._beside.clear()
            for job_id in short:
                self._granted.setdefault(job_id, self._target.grants[job_id])
            if short:
                self._beside.update(job_id for job_id, workers in self._layout.workers.items() if workers)
            self._playing = narrowed(self._playing, gone, short)
            self._target = self._size(self._playing)
            self._layout = self._placed()
        self._grow_once_more()
        if self._left_out:
            self._bring_back()
        self._judge(verdicts)
        return self._answer()

    def _bring_back(self) -> None:
        """A job that was left out beside one that was left out later may have a seat now. All that have one come back
        at once; where that cannot be, one after another, at its least size if a larger one cost another job its seat.
        """
        back, seats = self._seats_for(self._coming_back())
        if not back or self._come_back(self._with(back), back, seats):
            return
        for job_id in back[:PROBLEMS_MAX]:
            alone, seats = self._seats_for([job_id])
            if alone and not self._come_back(self._with(alone), alone, seats):
                least = self._with(alone, at_least=True)
                if not self._come_back(least, alone, seats) and not (target := self._size(least)).workers_of(job_id):
                    self._left_out[job_id] = target.because_of(job_id)  # there is a seat, and the policy says no

    def _coming_back(self) -> list[JobId]:
        """Jobs that were left out; those that run come first, so that a job that came back in the last cycle stays."""
        jobs = self._view.by_id
        return sorted(self._left_out, key=lambda job_id: not jobs[job_id].workers)

    def _seats_for(self, asking: list[JobId]) -> tuple[list[JobId], Mapping[JobId, tuple[Worker, ...]]]:
        """Which of them find a seat beside the others' least seats, and the seats of all."""
        jobs, layout = self._view.by_id, self._layout
        grants = {job_id: grant for job_id, grant in self._target.grants.items() if layout.workers.get(job_id)}
        for job_id in asking:
            size = self._least_of(jobs[job_id].spec)
            grants[job_id] = Grant(size, size, self._left_out[job_id])
        target = replace(self._target, grants=grants)
        least = least_seats(self._view, target, layout, problems_max=self._problems_left)
        self._problems_left -= least.problems
        return [job_id for job_id in asking if job_id in least.seats], least.seats

    def _least_of(self, spec: JobSpec) -> int:
        return {"initial": spec.size_asked, "max": spec.size_largest}.get(self._target.whole, spec.workers_min)

    def _come_back(self, playing: Snapshot, back: list[JobId], seats: Mapping[JobId, tuple[Worker, ...]]) -> bool:
        """Share out with these jobs as well, pass after pass: those that find no seat are left out again, and those
        that are seated with less than their grant have that as their maximum. The outcome is taken if every job that
        had a seat keeps one and at least one job more has one; that may be another one that the policy prefers."""
        before = {job_id for job_id, workers in self._layout.workers.items() if workers}
        granted, others = dict(self._granted), {**self._left_out}
        for _ in range(self._passes):
            target = self._size(playing)
            layout = self._place(regrown(playing, target, seats), target)
            standing, short = set(stranded(target, layout)), short_of_grant(playing, target, layout)
            if not before.isdisjoint(standing):
                return False
            if not standing and not short:
                break
            others.update({job_id: layout.becauses.get(job_id) or target.because_of(job_id) for job_id in standing})
            for job_id in short:
                granted.setdefault(job_id, target.grants[job_id])
            playing = narrowed(playing, standing, short)
        seated = {job_id for job_id, workers in layout.workers.items() if workers}
        if not before < seated:
            return False
        self._playing, self._target, self._layout, self._granted = playing, target, layout, granted
        taking_part = playing.by_id
        self._left_out = {job_id: because for job_id, because in others.items() if job_id not in taking_part}
        self._grow_once_more()
        return True

    def _with(self, back: list[JobId], *, at_least: bool = False) -> Snapshot:
        """The jobs that take part, and these."""
        jobs = self._view.by_id
        known = {**self._playing.by_id, **{job_id: jobs[job_id] for job_id in back}}
        if at_least:
            known.update({job_id: at_most(jobs[job_id], self._least_of(jobs[job_id].spec)) for job_id in back})
        return replace(self._playing, jobs=tuple(known[job.id] for job in self._view.jobs if job.id in known))

    def _help(self) -> LeastSeats:
        """Seat the jobs that found no nodes, if that can be."""
        standing = stranded(self._target, self._layout)
        least = least_seats(self._playing, self._target, self._layout, problems_max=self._problems_left)
        self._problems_left -= least.problems
        if any(job_id in least.seats for job_id in standing):
            self._seats = least.seats
            self._layout = self._placed()
        return least

    def _placed(self) -> Layout:
        if self._seats is None:
            return self._place(self._playing, self._target)
        return self._place(regrown(self._playing, self._target, self._seats), self._target)

    def _grow_once_more(self) -> None:
        """What is left in the end goes to those whose grants were cut, up to what they were granted at first."""
        target, layout = self._target, self._layout
        cut = {job_id: grant for job_id, grant in self._granted.items() if layout.workers.get(job_id)}
        if not cut:
            return
        grants = {
            job_id: cut[job_id]._replace(floor=grant.floor) if job_id in cut else grant
            for job_id, grant in target.grants.items()
            if layout.workers.get(job_id)
        }
        self._target = replace(target, grants=grants)
        self._layout = self._place(regrown(self._view, self._target, layout.workers), self._target)

    def _leave_out(self) -> set[JobId]:
        """Jobs that were granted workers and have no seat: they are left out from now on."""
        target, layout, jobs = self._target, self._layout, self._playing.by_id
        standing = stranded(target, layout)
        for job_id in standing:
            spec = jobs[job_id].spec
            because = layout.becauses.get(job_id) or target.because_of(job_id)
            self._left_out[job_id] = because
            if because.why is not Why.RULED_OUT:  # a rule of this very job says nothing about others
                self._refused.setdefault(_kind(spec), (least_size(spec, target.grants[job_id]), because))
        return set(standing)

    def _leave_out_hopeless(self, least: LeastSeats) -> set[JobId]:
        """And with them the jobs that wait for a grant that would be of no use to them.

        No cut of another job is taken back for that: they hold nothing, and a job that runs is not left out in this
        way, so jobs that run and jobs that wait would change places in every cycle.
        """
        hopeless = dict(self._hopeless(least))
        self._left_out.update(hopeless)
        return set(hopeless)

    def _hopeless(self, least: LeastSeats) -> Iterator[tuple[JobId, Because]]:
        """Waiting jobs that ask for no less than one that found no seat, or for more than there could ever be."""
        known: dict[_Kind, Because | None] = {}
        for job in self._playing.wanting:
            if job.workers or job.spec.id in self._target.grants:
                continue
            kind = _kind(job.spec)
            if kind not in known:
                known[kind] = self._why_hopeless(job.spec, kind, least)
            because = known[kind]
            if because is not None:
                yield job.spec.id, because

    def _why_hopeless(self, spec: JobSpec, kind: "_Kind", least: LeastSeats) -> Because | None:
        for refused, (size, because) in self._refused.items():
            if _asks_no_less(spec, refused, size):
                return because if refused == kind else _NO_NODES
        return None if least.could_ever_hold(spec, spec.workers_min) else _NO_NODES

    def _judge(self, verdicts: dict[JobId, Because]) -> None:
        """Can the jobs that found no seat ever start? Asked once for all that ask for the same."""
        known: dict[_Kind, Because | None] = {}
        for job_id in self._left_out:
            job = self._view.by_id[job_id]
            kind = _kind(job.spec)
            if kind in self._refused and kind not in known:
                known[kind] = cannot_start(self._view, job)
            verdict = known.get(kind)
            if verdict is not None:
                verdicts[job_id] = verdict

    def _answer(self) -> tuple[Target, Layout]:
        target, layout, jobs = self._target, self._layout, self._view.by_id
        workers = {
            job_id: recognised(jobs[job_id], there) if jobs[job_id].workers else there
            for job_id, there in layout.workers.items()
        }
        reasons = {
            job_id: because
            for job_id, because in self._forced.items()
            if workers.get(job_id) and workers[job_id] != jobs[job_id].workers
        }
        layout = Layout(workers, {**layout.becauses, **reasons, **self._left_out})
        if not self._left_out:
            return target, layout
        first, memory = self._first_memory.jobs, target.memory
        forgotten = {job_id: first[job_id] for job_id in self._left_out if job_id in first}
        memory = PolicyMemory({**forgotten, **memory.jobs}, memory.values, memory.last_action_s)
        return replace(target, memory=memory), layout


_Kind = tuple[object, ...]  # jobs of one kind find room in the same places, or in none


def _kind(spec: JobSpec) -> _Kind:
    return (spec.demands, spec.accelerator, spec.request, spec.fixed, spec.workers_min)


def _asks_no_less(spec: JobSpec, other: _Kind, size: int) -> bool:
    """Where so many workers of the other kind found no room, can this job not either?"""
    demands, accelerator, request, fixed, _ = other
    return (
        spec.workers_min >= size
        and (spec.demands, spec.accelerator) == (demands, accelerator)
        and (not fixed or spec.fixed == fixed)
        and all(more >= less for more, less in zip(spec.request, request, strict=True))  # type: ignore[call-overload]
    )
