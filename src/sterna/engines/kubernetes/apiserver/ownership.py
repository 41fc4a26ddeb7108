"""Which job an object belongs to: the one of its namespace that controls it and whose name its labels carry. Pure.

A user who may create pods in one namespace may write any uid into their owner references, another namespace's job
among them. So a uid alone proves nothing: namespace, name, uid, the controller flag and the label must agree.
"""

from typing import NamedTuple

from sterna.engines.contracts.naming import JOB_LABELS
from sterna.engines.kubernetes.apiserver.objects import Meta

CONFIG_LABELS = ("app",)  # of config maps, which are found by another label besides


class JobKey(NamedTuple):
    """One job and no other: not one of another namespace, nor one that had its name before."""

    namespace: str
    name: str
    uid: str


def job_key_of(meta: Meta, labels: tuple[str, ...] = JOB_LABELS) -> JobKey | None:
    """The job that an object belongs to, if there is such a job. None: it belongs to none."""
    for owner in meta.owner_references or ():
        if owner.controller:
            is_labelled = any(meta.label(key) == owner.name for key in labels)
            return JobKey(meta.namespace, owner.name, owner.uid) if is_labelled and owner.name else None
    return None
