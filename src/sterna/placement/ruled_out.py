"""Why a job that rules relate to others has no seat: too little room, or the rule without which it had one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from sterna.model.jobs import JobSpec
from sterna.model.neighbours import PodTraits
from sterna.model.target import Grant
from sterna.model.why import Because, Why
from sterna.placement.packing import nowhere, seated
from sterna.placement.room import Room
from sterna.placement.rule_seats import seated_by_rules
from sterna.placement.tenants import Tenants

_FIELDS = (("apart", "podAntiAffinity"), ("together", "podAffinity"), ("even", "topologySpreadConstraints"))


def why_no_seat(room: Room, tenants: Tenants, spec: JobSpec, grant: Grant) -> Because:
    """`room` and `tenants` hold all but this job, which would begin with its least size."""
    least = max(1, grant.floor, spec.workers_min)
    asked = Grant(least, least, grant.because)
    if seated(room.copy(), spec, (), asked) is None:
        return nowhere(room, spec, max(1, grant.floor))
    for rule, without in _loosened(spec):
        if seated_by_rules(room.copy(), tenants.copy(), without, (), asked, searching=False) is not None:
            return Because(Why.RULED_OUT, (("rule", rule),))
    if spec.has_rules and seated_by_rules(room.copy(), tenants.copy(), _freed(spec), (), asked) is not None:
        return Because(Why.RULED_OUT, (("rules", ", ".join(sorted({rule for rule, _ in _loosened(spec)}))),))
    return Because(Why.RULED_OUT, (("rule", "podAntiAffinity of other pods"),))


class _Loosened(NamedTuple):
    rule: str
    spec: JobSpec  # without that rule


def _loosened(spec: JobSpec) -> Iterator[_Loosened]:
    """The job without one of its rules at a time."""
    for field, name in _FIELDS:
        for key in sorted({rule.key for _, traits in spec.pods for rule in getattr(traits, field)}):
            pods = tuple((role, _without(traits, field, key)) for role, traits in spec.pods)
            yield _Loosened(f"{name} on {key}", replace(spec, pods=pods))
    ports = sorted({port.port for _, traits in spec.pods for port in traits.ports})
    if ports:
        pods = tuple((role, traits._replace(ports=())) for role, traits in spec.pods)
        yield _Loosened(f"host port {', '.join(map(str, ports))}", replace(spec, pods=pods))


def _without(traits: PodTraits, field: str, key: str) -> PodTraits:
    left: Any = tuple(rule for rule in getattr(traits, field) if rule.key != key)
    return traits._replace(**{field: left})


def _freed(spec: JobSpec) -> JobSpec:
    """The same job without any rule of its own."""
    return replace(spec, pods=tuple((role, PodTraits(each.namespace, each.labels)) for role, each in spec.pods))
