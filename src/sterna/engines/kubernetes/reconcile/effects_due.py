"""What the world lacks of what is intended: pods, services and the host list of one job compared with its seats. Pure.

Names are deterministic, so a pod's successor waits until the pod is gone, unless a finalizer keeps it; a gang that
starts as a whole waits until every pod of the gang before it has ended.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import count

from sterna.engines.contracts.members import Member, leader
from sterna.engines.contracts.naming import worker_name
from sterna.engines.kubernetes.apiserver.timestamps import moment_s
from sterna.engines.kubernetes.bodies.mpi_hosts import (
    NUDGE,
    config_body,
    config_data,
    digest_of,
    has_config,
)
from sterna.engines.kubernetes.bodies.own_names import (
    config_name,
    free_name,
    place_of,
    service_names,
    usual_config_name,
)
from sterna.engines.kubernetes.bodies.pod_body import members_of, pod_body
from sterna.engines.kubernetes.bodies.service_body import owner_reference, service_body
from sterna.engines.kubernetes.process.settings import Binding
from sterna.engines.kubernetes.reconcile.effects import (
    CREATIONS,
    AdoptPod,
    AdoptService,
    AskAdmission,
    BindPod,
    CreatePod,
    CreateService,
    DeletePod,
    DeleteService,
    Effect,
    NudgePod,
    WriteConfigMap,
)
from sterna.engines.kubernetes.reconcile.job_view import Options
from sterna.engines.kubernetes.reconcile.observed_pods import Seen
from sterna.engines.kubernetes.reconcile.pod_ends import is_spent
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.standing import Seat
from sterna.lifecycle.admission_denials import may_ask
from sterna.lifecycle.gang_roles import Place, is_whole, start_order
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.model.workload import CleanUp, Contract, Workload


def effects_due(look: Look, now_s: float, options: Options) -> tuple[Effect, ...]:
    """Of a job that has not ended."""
    hosts = config_data(look, options) if has_config(look.workload) else {}
    effects = (
        *_departures(look, now_s),
        *_services(look),
        *_host_list(look, hosts, options),
        *_bindings(look, options),
        *_arrivals(look, now_s, options, hosts),
        *_adoptions(look),
        *_questions(look, now_s, options, hosts),
    )
    hindrance = look.view.hindrance
    if hindrance is None or now_s >= hindrance.again_s:
        return effects
    return tuple(effect for effect in effects if not isinstance(effect, CREATIONS))


def clean_up_due(look: Look, now_s: float) -> tuple[Effect, ...]:
    """Of a job that has ended: what its owner wants to be taken away."""
    policy = look.workload.run_policy.clean_up
    if policy is CleanUp.NONE:
        return ()
    going = [seen for seen in look.pods if policy is CleanUp.ALL or not seen.over]
    pods = [effect for seen in going if (effect := removal(look, seen, "the job has ended", now_s)) is not None]
    stays = {seen.place for seen in look.pods} - {seen.place for seen in going}
    services = [
        DeleteService(found.metadata.name, found.metadata.uid)
        for found in look.view.services
        if place_of(look.workload, found.metadata.name) not in stays and not found.terminating
    ]
    return (*pods, *services)


def removal(look: Look, seen: Seen, why: str, now_s: float) -> DeletePod | None:
    """By the pod's own grace period; at once where its node can no longer end it. None: it is on its way."""
    node_is_gone = bool(seen.node) and seen.node not in look.view.nodes
    if not seen.terminating:
        return DeletePod(seen.name, seen.uid, 0 if node_is_gone else None, why)
    if not look.is_out_of_reach(seen) or seen.over:
        return None
    until_s = moment_s(seen.pod.metadata.deletion_timestamp)
    if node_is_gone or until_s is None or now_s >= until_s:
        return DeletePod(seen.name, seen.uid, 0, f"{why}; node {seen.node} does not answer")
    return None


def next_removal_s(look: Look) -> float | None:
    """When the first pod may be taken away whose node does not answer."""
    moments = [
        moment_s(seen.pod.metadata.deletion_timestamp)
        for seen in look.strays
        if seen.terminating and not seen.over and look.is_out_of_reach(seen)
    ]
    return min((at_s for at_s in moments if at_s is not None), default=None)


def _departures(look: Look, now_s: float) -> Iterator[Effect]:
    standing = look.standing
    why = standing.message or "it has no place in the job any more"
    for seen in look.strays:
        if (effect := removal(look, seen, why, now_s)) is not None:
            yield effect
    for place, seen in sorted(look.current.items()):
        if is_spent(seen.end) and place not in look.done and not seen.terminating:
            yield DeletePod(seen.name, seen.uid, None, "it ended, and is started again")


def _services(look: Look) -> Iterator[Effect]:
    standing, workload = look.standing, look.workload
    existing = {found.metadata.name: found for found in look.view.services}
    name_of = service_names(look.view, workload)
    for place in sorted(found_by_name(workload, look.seats)):
        usual, name = worker_name(workload, *place), name_of(place)
        if name not in existing:
            body = service_body(look.view, workload, place, name=name)
            yield CreateService(name, body, "" if name == usual else usual)
    wanted = found_by_name(workload, look.seats)
    if standing.change is not None and standing.phase is Phase.RESIZING:
        after = {worker[:2] for worker in standing.change.after}  # it comes back, and would need their services again
        wanted |= found_by_name(workload, after)
    for name, found in sorted(existing.items()):
        whose = place_of(workload, name)
        if whose is not None and whose not in wanted and not found.terminating:  # those of other names are left alone
            yield DeleteService(name, found.metadata.uid)


def found_by_name(workload: Workload, places: Collection[Place]) -> set[Place]:
    """Places that have a service. A gang of our own kind meets at its leader and does not look up its other pods by
    name; services for them would be as many writes as the pods themselves. Programs of the other kinds may look up any.
    """
    if workload.kind == "ElasticJob" and workload.contract is Contract.RESTART and places:
        return {leader([Member(*place, "", 0) for place in places])[:2]}
    return set(places)


def _host_list(look: Look, hosts: dict[str, str], options: Options) -> Iterator[Effect]:
    view, workload = look.view, look.workload
    if not has_config(workload) or not (look.seats or view.config_map is not None):
        return
    written = view.config_map
    if written is None or (written.data or {}) != hosts or written.metadata.uid in view.unowned:
        body = config_body(view, workload, hosts)
        usual, name = usual_config_name(view.name), config_name(view)
        yield WriteConfigMap(name, body, view.config_map is not None, "" if name == usual else usual)
    digest = digest_of(hosts)
    for place, seen in sorted(look.current.items()):
        stale = seen.pod.metadata.annotation(NUDGE) != digest
        if options.nudge and place[0] is Role.LAUNCHER and stale and not seen.over and not seen.terminating:
            yield NudgePod(seen.name, seen.uid, {NUDGE: digest})


def _adoptions(look: Look) -> Iterator[Effect]:
    """What is ours and does not say so any more says it again: else it would outlive its job."""
    view, owner = look.view, owner_reference(look.view)
    for pod in view.pods:
        if (meta := pod.metadata).uid in view.unowned and not pod.terminating:
            yield AdoptPod(meta.name, meta.uid, meta.resource_version, owner)
    for service in view.services:
        if (meta := service.metadata).uid in view.unowned and not service.terminating:
            yield AdoptService(meta.name, meta.uid, meta.resource_version, owner)


def _bindings(look: Look, options: Options) -> Iterator[Effect]:
    for place, seen in sorted(look.current.items()):
        if options.binding is Binding.BINDING and not seen.node and not seen.terminating and not seen.over:
            yield BindPod(seen.name, seen.uid, look.seats[place].worker.node)


def _arrivals(look: Look, now_s: float, options: Options, hosts: dict[str, str]) -> Iterator[Effect]:
    standing, workload = look.standing, look.workload
    backs_off = standing.retry_s is not None and now_s < standing.retry_s
    if backs_off or not is_whole(workload, standing.assigned) or _somebody_is_in_the_way(look):
        return
    there = {seen.name for seen in look.pods}
    full = {seen.place for seen in look.pods if not seen.lingers}
    members = members_of(look.view, workload, standing, options)
    for seat in sorted(standing.seats, key=lambda seat: start_order(seat.worker)):
        place = seat.worker[:2]
        if place in full or place in look.done or not _may_begin(look, place):
            continue
        usual = worker_name(workload, *place)
        name = free_name(usual, look.view.uid, lambda name: name in there or ("Pod", name) in look.view.taken)
        body = pod_body(look.view, workload, standing, seat, options, hosts=hosts, members=members, name=name)
        yield CreatePod(name, body, "" if name == usual else usual)


def _questions(look: Look, now_s: float, options: Options, hosts: dict[str, str]) -> Iterator[Effect]:
    """Whether admission would let in another worker than those that it did."""
    standing, workload, view = look.standing, look.workload, look.view
    if standing.phase is Phase.SUSPENDED or not may_ask(standing.denial, now_s, generation=view.generation):
        return
    taken = {seen.place for seen in look.pods} | set(look.seats)
    ordinal = next(number for number in count() if (Role.WORKER, number) not in taken)
    seat = Seat(Worker(Role.WORKER, ordinal, NodeId("")), "")
    asking = replace(standing, seats=(*standing.seats, seat))
    members = members_of(view, workload, asking, options)
    name = worker_name(workload, Role.WORKER, ordinal)
    yield AskAdmission(name, pod_body(view, workload, asking, seat, options, hosts=hosts, members=members, name=name))


def _somebody_is_in_the_way(look: Look) -> bool:
    """Is there a pod of a gang before this one that has not ended?"""
    return any(not seen.over and seen.incarnation != look.standing.incarnation for seen in look.strays)


def _may_begin(look: Look, place: Place) -> bool:
    """A launcher that is told its hosts only once begins when all of them are there."""
    if place[0] is not Role.LAUNCHER:
        return True
    waits = dict(look.workload.details).get("launcherCreationPolicy") == "WaitForWorkersReady"
    if not waits and not (has_config(look.workload) and look.workload.contract is Contract.RESTART):
        return True
    workers = [other for other in look.seats if other[0] is Role.WORKER and other not in look.done]
    return all(other in look.current and look.current[other].ready for other in workers)
