"""Small random worlds with rules between pods, and a naive account of whether such rules are kept.

The account knows nothing of `placement/tenants.py`: it walks over plain lists of pods, as the documentation of
Kubernetes words the rules.
"""

import random
from typing import NamedTuple

from tests.worlds import cluster, job, node

from sterna.model.ids import JobId
from sterna.model.jobs import Job, JobSpec, Role, Worker
from sterna.model.neighbours import EvenRule, HostPort, PodSelector, PodTerm, PodTraits
from sterna.model.node_affinity import LabelOperator, LabelRequirement
from sterna.model.nodes import Guest, Node, Taint
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot

HOST, ZONE, RACK = "kubernetes.io/hostname", "zone", "rack"
KEYS = (HOST, HOST, ZONE, ZONE, RACK)
APPS = ("a", "b", "c")


def selector(chance: random.Random, namespace: str = "ns") -> PodSelector:
    if chance.random() < 0.05:
        return PodSelector(None, (namespace,))
    operator = chance.choice([LabelOperator.IN] * 4 + [LabelOperator.NOT_IN, LabelOperator.EXISTS])
    values = () if operator is LabelOperator.EXISTS else tuple(chance.sample(APPS, chance.choice((1, 1, 2))))
    namespaces = ("ns",) if chance.random() < 0.8 else ("ns", "other")
    everywhere = () if chance.random() < 0.1 else None
    return PodSelector((LabelRequirement("app", operator, values),), namespaces, everywhere)


def traits(chance: random.Random, *, rules: float) -> PodTraits:
    """What a pod is to others: it has each kind of rule with this likelihood."""
    labels = (("app", chance.choice(APPS)),) if chance.random() < 0.9 else ()

    def some(make):
        return tuple(make() for _ in range(chance.choice((1, 1, 2)))) if chance.random() < rules else ()

    even = {
        rule.key: rule
        for rule in some(
            lambda: EvenRule(
                chance.choice(KEYS),
                PodSelector(selector(chance).requirements, ("ns",)),
                chance.choice((1, 1, 2)),
                chance.choice((1, 1, 3)),
                chance.random() < 0.8,
                chance.random() < 0.3,
            )
        )
    }
    return PodTraits(
        namespace="ns",
        labels=labels,
        ports=some(lambda: HostPort(chance.choice((80, 81)), address=chance.choice(("0.0.0.0", "10.0.0.1")))),
        apart=some(lambda: PodTerm(chance.choice(KEYS), selector(chance))),
        together=tuple(PodTerm(chance.choice(KEYS), selector(chance)) for _ in range(chance.random() < rules)),
        even=tuple(even.values()),
    )


def rule_world(seed: int) -> Snapshot:
    chance = random.Random(seed)
    pools = chance.choice((("gpu",), ("gpu",), ("gpu", "big")))
    nodes = [_node(chance, f"n{number}", pools) for number in range(chance.randint(2, 7))]
    jobs = [_job(chance, f"ns/j{number}", nodes) for number in range(chance.randint(1, 6))]
    return cluster(nodes=nodes, jobs=jobs, now_s=1000.0)


def _node(chance: random.Random, name: str, pools: tuple[str, ...]) -> Node:
    labels = {HOST: name, ZONE: chance.choice("xy"), RACK: chance.choice("123")}
    kept = {key: value for key, value in labels.items() if chance.random() < 0.9}
    guests = [
        Guest(f"{name}-g{number}", Resources(1000), pod=_guest(chance)) for number in range(chance.choice((0, 0, 1, 2)))
    ]
    return node(
        name,
        gpus=chance.choice((2, 4)),
        accelerator=chance.choice(pools),
        labels=tuple(sorted(kept.items())),
        taints=(Taint("team"),) if chance.random() < 0.1 else (),
        guests=tuple(guests),
    )


def _guest(chance: random.Random) -> PodTraits:
    found = traits(chance, rules=0.2)
    return PodTraits(chance.choice(("ns", "other")), found.labels, found.ports, found.apart)


def _job(chance: random.Random, name: str, nodes: list[Node]) -> Job:
    ps = chance.random() < 0.3
    rules = chance.choice((0.0, 0.3, 0.6))
    pods = [(Role.PS, traits(chance, rules=rules / 2))] if ps else []
    pods.append((Role.WORKER, traits(chance, rules=rules)))
    least = chance.choice((1, 1, 2, 3))
    runs = chance.random() < 0.4
    held = [Worker(Role.PS, 0, chance.choice(nodes).id)] if ps else []
    home = chance.choice(nodes).accelerator
    held += [
        Worker(Role.WORKER, number, chance.choice([node for node in nodes if node.accelerator == home]).id)
        for number in range(least)
    ]
    return job(
        name,
        at_least=least,
        at_most=least + chance.choice((0, 2, 4)),
        ps=int(ps),
        ps_cpus=1,
        cpus_each=1,
        submitted_s=chance.randrange(100),
        left=chance.randrange(10, 500),
        holds=held if runs else (),
        spec={
            "pods": tuple(pods),
            "accelerator": home if chance.random() < 0.3 else None,
            "moves_between_pools": chance.random() < 0.3,
            "restarts_on_resize": chance.random() < 0.3,
        },
    )


class Tenant(NamedTuple):
    pod: PodTraits
    node: Node


def broken_rules(view: Snapshot, workers: dict[JobId, tuple[Worker, ...]]) -> list[str]:
    """New workers that cannot be put down beside all that stay, in no order."""
    by_id = view.cluster.by_id
    there = [Tenant(guest.pod, each) for each in view.nodes for guest in each.guests if guest.pod is not None]
    new: list[tuple[JobSpec, Worker]] = []
    for job_id, held in workers.items():
        known = view.by_id[job_id]
        for worker in held:
            if worker in known.workers:
                if worker.node in by_id:
                    there.append(Tenant(known.spec.traits_of(worker.role), by_id[worker.node]))
            else:
                new.append((known.spec, worker))
    tried: set[frozenset[int]] = set()

    def can_come(waiting: frozenset[int], there: list[Tenant]) -> bool:
        if not waiting or waiting in tried:
            return not waiting
        tried.add(waiting)
        for number in sorted(waiting):
            spec, worker = new[number]
            pod, to = spec.traits_of(worker.role), by_id[worker.node]
            if may_come(view, spec, pod, to, there) and can_come(waiting - {number}, [*there, Tenant(pod, to)]):
                return True
        return False

    if can_come(frozenset(range(len(new))), there):
        return []
    return [f"{spec.id} {worker}" for spec, worker in new]


def may_come(view: Snapshot, spec: JobSpec, pod: PodTraits, to: Node, there: list[Tenant]) -> bool:
    here = dict(to.labels)

    def near(tenant: Tenant, key: str) -> bool:
        labels = dict(tenant.node.labels)
        return key in here and key in labels and labels[key] == here[key]

    for tenant in there:
        if tenant.node.id == to.id:
            for mine in pod.ports:
                for theirs in tenant.pod.ports:
                    any_address = "0.0.0.0" in (mine.address, theirs.address)
                    if mine[:2] == theirs[:2] and (any_address or mine.address == theirs.address):
                        return False
        if any(near(tenant, term.key) and is_meant(term.pods, tenant.pod) for term in pod.apart):
            return False
        if any(near(tenant, term.key) and is_meant(term.pods, pod) for term in tenant.pod.apart):
            return False
    if pod.together:
        if any(term.key not in here for term in pod.together):
            return False
        like = [tenant for tenant in there if all(is_meant(term.pods, tenant.pod) for term in pod.together)]
        like = [tenant for tenant in like if any(term.key in dict(tenant.node.labels) for term in pod.together)]
        if like:
            if not all(any(near(tenant, term.key) for tenant in like) for term in pod.together):
                return False
        elif not all(is_meant(term.pods, pod) for term in pod.together):
            return False
    return all(_is_even(view, spec, pod, rule, here, there) for rule in pod.even)


def _is_even(
    view: Snapshot, spec: JobSpec, pod: PodTraits, rule: EvenRule, here: dict[str, str], there: list[Tenant]
) -> bool:
    if any(each.key not in here for each in pod.even):
        return False
    counted: dict[str, list[str]] = {}
    for each in view.nodes:
        labels = dict(each.labels)
        if any(other.key not in labels for other in pod.even):
            continue
        if rule.by_affinity and spec.accelerator not in (None, each.accelerator):
            continue
        if rule.by_taints and each.taints:
            continue
        counted.setdefault(labels[rule.key], []).append(each.id)
    sums = {
        domain: sum(tenant.node.id in nodes and is_meant(rule.pods, tenant.pod) for tenant in there)
        for domain, nodes in counted.items()
    }
    fewest = min(sums.values(), default=0) if len(sums) >= rule.domains_min else 0
    return sums.get(here[rule.key], 0) + is_meant(rule.pods, pod) - fewest <= rule.skew_max


def is_meant(chosen: PodSelector, pod: PodTraits) -> bool:
    if chosen.requirements is None:
        return False
    if pod.namespace not in chosen.namespaces and chosen.namespace_terms != ():
        return False
    labels = dict(pod.labels)
    for key, operator, values in chosen.requirements:
        match operator:
            case LabelOperator.IN if labels.get(key) not in values:
                return False
            case LabelOperator.NOT_IN if labels.get(key) in values:
                return False
            case LabelOperator.EXISTS if key not in labels:
                return False
    return True
