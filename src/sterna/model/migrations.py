"""A request to move work, as its author wrote it. The engine tells what came of it in the same object.

Values only. Reading one is `wire/manifests/migration.py`.
"""

from dataclasses import dataclass
from enum import StrEnum

from sterna.model.ids import NodeId


class MigrationPhase(StrEnum):
    PENDING = "Pending"  # accepted; nothing has been touched
    MOVING = "Moving"  # from the notice until training goes on
    SUCCEEDED = "Succeeded"
    REFUSED = "Refused"  # nothing was touched: there is no such job, worker or node, or no room
    FAILED = "Failed"  # begun and not brought to its end; the job goes on wherever it is


MIGRATION_ENDED = frozenset({MigrationPhase.SUCCEEDED, MigrationPhase.REFUSED, MigrationPhase.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRequest:
    """Move a job or one of its workers, or empty a node: exactly one of `job` and `node` is set."""

    namespace: str
    name: str
    uid: str = ""  # of the object. Empty: it is not stored yet
    generation: int = 0  # of the object: a request that is edited counts as another one
    job: str | None = None  # its name, in the same namespace. None: `node` is to be emptied
    kind: str | None = None  # TFJob, ...; None: whichever kind has a job of this name
    worker: int | None = None  # its number. None: the whole job
    to: NodeId | None = None  # None: the scheduler finds one
    node: NodeId | None = None  # the node to empty. None: `job` is to be moved
    reason: str = ""  # in the asker's words
