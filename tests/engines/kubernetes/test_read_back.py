"""Whatever is written into the cluster is read back equal, over all names that are legal there."""

import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.engines.contracts.naming import worker_name
from sterna.engines.kubernetes.apiserver.configmap_document import PACKED_FROM_BYTES, data_of, document_of
from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject, MigrationObject, Pod, ServiceObject
from sterna.engines.kubernetes.apiserver.ownership import CONFIG_LABELS, JobKey, job_key_of
from sterna.engines.kubernetes.bodies.mpi_hosts import config_body
from sterna.engines.kubernetes.bodies.own_names import place_of
from sterna.engines.kubernetes.bodies.pod_body import members_of, pod_body
from sterna.engines.kubernetes.bodies.service_body import service_body
from sterna.engines.kubernetes.migrations.migration_status import key_of, moving, name_of, over, phase_of
from sterna.engines.kubernetes.progress.policy_memory import memory_data, memory_of
from sterna.engines.kubernetes.progress.speed_codec import knowledge_data, knowledge_of
from sterna.engines.kubernetes.reconcile.job_view import JobView, Options
from sterna.engines.kubernetes.reconcile.observed_pods import seen_of
from sterna.engines.kubernetes.status.standing import Change, Past, Seat, Standing
from sterna.engines.kubernetes.status.status_patch import refused_patch
from sterna.engines.kubernetes.status.status_reading import status_read
from sterna.engines.kubernetes.world.removed_owners import is_pod_left
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.learning import Knowledge, Seen, ThroughputModel
from sterna.model.migrations import MigrationPhase
from sterna.model.phases import Phase
from sterna.model.target import PolicyMemory
from sterna.model.workload import Contract, Workload
from tests.engines.kubernetes.reconcile.test_standing_text import STANDINGS
from tests.engines.kubernetes.reconcile.world import workload
from tests.legal_names import CARDS, DNS_LABELS, JOB_IDS, JOB_NAMES, LABEL_VALUES, SUBDOMAINS, UIDS

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NUMBERS = st.floats(0, 1e12, allow_nan=False)
KEYS = SUBDOMAINS | st.text(max_size=12)
DOCUMENTS = st.dictionaries(
    st.text(max_size=12),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)
SEATS = st.builds(
    Seat,
    st.builds(
        Worker,
        st.sampled_from([Role.PS, Role.WORKER]),
        st.integers(0, 9),
        SUBDOMAINS.map(NodeId),
        st.lists(CARDS.map(DeviceId), max_size=3, unique=True).map(tuple),
    ),
    st.from_regex(r"[a-z]{5}", fullmatch=True),
)


def stored(body: Any, shape: type[Any]) -> Any:
    """As an API server gives it back."""
    return msgspec.json.decode(json.dumps(body), type=shape)


def merged(base: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """RFC 7386."""
    found = {key: value for key, value in base.items() if key not in patch}
    for key, value in patch.items():
        if isinstance(value, dict):
            inner = base.get(key)
            found[key] = merged(inner if isinstance(inner, dict) else {}, value)
        elif value is not None:
            found[key] = value
    return found


def parameter_servers(name: str, namespace: str) -> Workload:
    return workload(Contract.PARAMETER_SERVER, (Role.PS, 10), workers=(1, 10), name=name, namespace=namespace)


def view_of(one: Workload, uid: str = "u", **more: Any) -> JobView:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "none"}]}}
    return JobView(
        api_version="kubeflow.org/v1",
        kind=one.kind,
        namespace=one.namespace,
        name=one.name,
        uid=uid,
        workload=one,
        templates={role.role: template for role in one.roles},
        **more,
    )


@UNHURRIED
@given(STANDINGS, STANDINGS, st.text(max_size=12), st.integers(1, 9))
def test_6_a_status_that_is_patched_says_what_was_meant_whatever_it_said_before(before, after, problem, epoch):
    one = workload(name="job1")
    empty = view_of(one, standing=before)
    there = merged({}, refused_patch(empty, (), before, epoch=epoch) or {})
    view = view_of(one, status=status_read(json.loads(json.dumps(there))), standing=after, problem=problem)
    patch = refused_patch(view, (), after, epoch=epoch)
    found = status_read(json.loads(json.dumps(merged(there, patch or {}))))
    assert not found.note
    kept = found.recorded
    assert (kept.seats, kept.change, kept.history) == (after.seats, after.change, after.history)
    assert kept.numbers == after.numbers or dict(kept.numbers) == dict(after.numbers)
    assert (kept.reason, kept.message, kept.judged) == (after.reason, after.message, after.judged)
    again = view_of(one, status=found, standing=kept, problem=problem)
    assert refused_patch(again, (), kept, epoch=kept.epoch) is None, "what is written is not written again"


@UNHURRIED
@given(
    st.dictionaries(JOB_IDS.map(JobId), st.dictionaries(KEYS, NUMBERS, max_size=3), max_size=5),
    st.dictionaries(KEYS, NUMBERS, max_size=3),
    st.none() | NUMBERS,
)
def test_6_what_a_policy_remembers(jobs, values, last_s):
    memory = PolicyMemory(jobs, values, last_s)
    data = memory_data(memory)
    assert memory_of(stored({"data": data}, ConfigMapObject).data) == memory
    assert memory_data(memory_of(data)) == data


@UNHURRIED
@given(
    st.dictionaries(
        st.tuples(KEYS | JOB_IDS, KEYS),
        st.builds(
            ThroughputModel,
            st.lists(
                st.builds(Seen, st.integers(1, 999), st.integers(1, 10**6), st.floats(1e-9, 1e12)),
                max_size=3,
                unique_by=lambda seen: seen.workers,
            ).map(lambda seen: tuple(sorted(seen))),
            st.integers(0, 10**6),
            NUMBERS,
        ),
        max_size=4,
    )
)
def test_6_what_was_learned(models):
    knowledge = Knowledge(models)
    data = knowledge_data(knowledge)
    assert knowledge_of(stored({"data": data}, ConfigMapObject).data) == knowledge
    assert knowledge_data(knowledge_of(data)) == data


@UNHURRIED
@given(DOCUMENTS, st.booleans())
def test_6_a_document_packed_or_not(document, large):
    document = {**document, "padding": "x" * PACKED_FROM_BYTES} if large else document
    data = data_of("key.json", document)
    assert document_of("key.json", stored({"data": data}, ConfigMapObject).data) == document


@UNHURRIED
@given(JOB_NAMES, DNS_LABELS, UIDS, SEATS, st.integers(0, 10**6), st.dictionaries(KEYS, LABEL_VALUES, max_size=2))
def test_6_a_pod_says_whose_it_is_and_which_seat_it_has(name, namespace, uid, seat, incarnation, labels):
    one = parameter_servers(name, namespace)
    standing = Standing(phase=Phase.RUNNING, seats=(seat,), incarnation=incarnation)
    view = view_of(one, uid, standing=standing)
    view.templates[seat.worker.role]["metadata"] = {"labels": labels}
    members, called = members_of(view, one, standing, Options()), worker_name(one, *seat.worker[:2])
    body = pod_body(view, one, standing, seat, Options(), hosts={}, members=members, name=called)
    pod = stored(body, Pod)
    seen = seen_of(view, one, pod)
    assert seen.worker == seat.worker
    assert (seen.slot, seen.incarnation) == (seat.slot, incarnation)
    assert job_key_of(pod.metadata) == JobKey(namespace, name, uid)
    del body["metadata"]["ownerReferences"]
    assert is_pod_left(stored(body, Pod), one, standing)


@UNHURRIED
@given(JOB_NAMES, DNS_LABELS, UIDS, SEATS)
def test_6_a_service_says_whose_it_is_and_its_name_says_its_place(name, namespace, uid, seat):
    one, place = parameter_servers(name, namespace), seat.worker[:2]
    service = stored(service_body(view_of(one, uid), one, place, name=worker_name(one, *place)), ServiceObject)
    assert job_key_of(service.metadata) == JobKey(namespace, name, uid)
    assert service.metadata.name == worker_name(one, *place)
    assert place_of(one, service.metadata.name) == place


@UNHURRIED
@given(JOB_NAMES, DNS_LABELS, UIDS, st.dictionaries(KEYS, st.text(max_size=30), max_size=2))
def test_6_a_host_list_is_what_was_written(name, namespace, uid, data):
    one = workload(name=name, namespace=namespace)
    found = stored(config_body(view_of(one, uid), one, data), ConfigMapObject)
    assert (found.data or {}) == data
    assert job_key_of(found.metadata, CONFIG_LABELS) == JobKey(namespace, name, uid)


def move(name: str, namespace: str, uid: str, status: Any) -> MigrationObject:
    meta = {"name": name, "namespace": namespace, "uid": uid}
    found: MigrationObject = stored({"metadata": meta, "spec": {}, "status": status}, MigrationObject)
    return found


@UNHURRIED
@given(SUBDOMAINS, DNS_LABELS, UIDS, SUBDOMAINS, SUBDOMAINS, st.booleans())
def test_6_a_migration_says_where_it_is_and_its_key_names_it(name, namespace, uid, left, reached, well):
    before, after = (
        (Worker(Role.WORKER, 0, NodeId(left)),),
        (Worker(Role.WORKER, 0, NodeId(reached)),),
    )
    found = move(name, namespace, uid, None)
    key = key_of(found)
    assert (name_of(key), key.rpartition("/")[2]) == (f"{namespace}/{name}", uid)
    change = Change("migration", "Asked", "", before, after, 1.0, migration=key)
    status = moving(found, [change], "2026-01-01T00:00:00Z")
    found = move(name, namespace, uid, status)
    assert phase_of(found) is MigrationPhase.MOVING
    if left != reached:
        assert (status["from"], status["to"]) == (left, reached)
    result = "Succeeded" if well else "Failed"
    past = Past("migration", "Asked", "", before, after, 1.0, 2.0, None, None, result, key)
    ended = move(name, namespace, uid, over(found, [past], "2026-01-01T00:00:01Z"))
    assert phase_of(ended) is (MigrationPhase.SUCCEEDED if well else MigrationPhase.FAILED)
