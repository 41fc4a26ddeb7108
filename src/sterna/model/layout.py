"""What placement answers: where each worker of each job should be."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sterna.model.ids import JobId
from sterna.model.jobs import Worker
from sterna.model.why import KEPT, Because


@dataclass(frozen=True, slots=True)
class Layout:
    workers: Mapping[JobId, tuple[Worker, ...]]  # absent: the job holds nothing
    becauses: Mapping[JobId, Because] = field(default_factory=dict)  # why here; absent: the grant says it all

    def workers_of(self, job_id: JobId) -> tuple[Worker, ...]:
        return self.workers.get(job_id, ())

    def because_of(self, job_id: JobId) -> Because:
        return self.becauses.get(job_id, KEPT)
