"""What keeps a job from being started whatever room there is, and where its volumes let it run. Pure.

Gates in a pod template belong to another controller, which removes them when the job may start. A claim must be bound
before a pod that mounts it can run, and its volume may be on some nodes only. Either holds back a start: a job that
runs goes on, and gets no new places while it is held back.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sterna.model.jobs import JobSpec
from sterna.model.node_affinity import NodeTerm, all_terms
from sterna.model.why import Because, Why
from sterna.model.workload import Workload

NOWHERE: tuple[NodeTerm, ...] = ((),)  # no node matches an empty term


class ClaimState(NamedTuple):
    """What is known of one persistent volume claim."""

    name: str
    problem: str = ""  # why no pod that mounts it can run: "is not there". Empty: one can
    terms: tuple[NodeTerm, ...] = ()  # where its volume can be mounted. Empty: anywhere
    one_pod: bool = False  # ReadWriteOncePod: of all pods of the cluster one may mount it


class Hold(NamedTuple):
    because: Because | None = None  # None: nothing holds it back that is known
    terms: tuple[NodeTerm, ...] = ()  # where its volumes let it run. Empty: anywhere
    known: bool = True  # was everything looked at that may hold it back?

    @property
    def holds(self) -> bool:
        return self.because is not None or not self.known


FREE = Hold()


def hold_of(workload: Workload, claims: Sequence[ClaimState | None]) -> Hold:
    """`claims` are those of the workload; None: it was not looked at yet."""
    if workload.gates:
        return Hold(Because(Why.SCHEDULING_GATED, (("gates", ", ".join(workload.gates)),)))
    if None in claims:
        return Hold(known=False)
    found = [claim for claim in claims if claim is not None]
    for claim in found:
        if problem := claim.problem or _too_many(workload, claim):
            return Hold(Because(Why.VOLUMES_NOT_READY, (("claim", f"{claim.name} {problem}"),)))
    terms: tuple[NodeTerm, ...] = ()
    for own in dict.fromkeys(claim.terms for claim in found):  # volumes of one place demand the same
        terms = all_terms(terms, own)
    return Hold(terms=terms)


def placed_under(spec: JobSpec, hold: Hold) -> JobSpec:
    """What is asked of nodes while this holds: a job that runs and is held back gets no new place anywhere."""
    if hold is FREE:
        return spec
    terms = NOWHERE if hold.holds else all_terms(spec.node_terms, hold.terms)
    return replace(spec, node_terms=terms)


def _too_many(workload: Workload, claim: ClaimState) -> str:
    pods = sum(
        workload.workers_min if template is workload.roles[-1] else template.replicas
        for template in workload.roles
        if claim.name in template.claims
    )
    return f"is ReadWriteOncePod, and {pods} pods of the job mount it" if claim.one_pod and pods > 1 else ""
