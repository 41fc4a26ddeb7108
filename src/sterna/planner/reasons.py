"""Why each job has what it has, in the same words whatever the policy: what `decide` prints and events carry.

Worked out only when somebody asks: a cycle needs none of it.
"""

from sterna.model.feasibility import never_fits
from sterna.model.jobs import Job
from sterna.model.lifecycle import Phase
from sterna.model.plan import Decision
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because, Why


class Reasons:
    """The reasons behind one decision. Of jobs that ask for the same, only one is looked at on every node."""

    def __init__(self, view: Snapshot, decision: Decision) -> None:
        self._view = view
        self._decision = decision
        self._verdicts: dict[tuple[object, ...], Because | None] = {}

    def of(self, job: Job) -> Because:
        if job.phase is Phase.SUSPENDED:
            return Because(Why.SUSPENDED)
        because = self._decision.because_of(job.id)
        if job.size or self._decision.layout.workers_of(job.id) or because.why is Why.NEVER_FITS:
            return because
        return self._verdict(job) or because

    def _verdict(self, job: Job) -> Because | None:
        spec = job.spec
        alike = (spec.request, spec.workers_min, spec.fixed, spec.accelerator, spec.selector, spec.tolerations)
        if alike not in self._verdicts:
            self._verdicts[alike] = never_fits(self._view, job)
        return self._verdicts[alike]
