"""What a policy remembers, as the data of a ConfigMap."""

from collections.abc import Mapping

from sterna.engines.kubernetes.apiserver.configmap_document import data_of, document_of, unreadable
from sterna.engines.kubernetes.process.settings import MEMORY
from sterna.model.ids import JobId
from sterna.model.target import PolicyMemory

_KEY = "memory.json"


def memory_data(memory: PolicyMemory) -> dict[str, str]:
    """Equal memories give equal data, so that what has not changed is not written."""
    document = {
        "jobs": {job_id: dict(sorted(kept.items())) for job_id, kept in sorted(memory.jobs.items())},
        "values": dict(sorted(memory.values.items())),
        "lastActionSeconds": memory.last_action_s,
    }
    return data_of(_KEY, document)


def memory_of(data: Mapping[str, str] | None) -> PolicyMemory:
    """`InvalidRequest`: no operator wrote this."""
    if not data:
        return PolicyMemory()
    try:
        document = document_of(_KEY, data)
        last_s = document["lastActionSeconds"]
        return PolicyMemory(
            {JobId(job_id): _numbers(kept) for job_id, kept in document["jobs"].items()},
            _numbers(document["values"]),
            None if last_s is None else float(last_s),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unreadable(MEMORY, data, error, without="without it, policies begin anew") from None


def _numbers(kept: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in kept.items()}
