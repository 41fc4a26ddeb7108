"""Whatever happens to a job's pods and nodes, in whatever order: no look does what it must not, and all ends in rest.

The core is played by a decider that places at random; operators die between any two effects.
"""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.engines.kubernetes.process.settings import Binding
from sterna.engines.kubernetes.reconcile.effects import CreatePod, CreateService, DeletePod, Effect
from sterna.engines.kubernetes.reconcile.intentions import takes_part
from sterna.engines.kubernetes.reconcile.job_view import NodeFacts, Options
from sterna.engines.kubernetes.reconcile.reconcile import Reconciled, reconcile
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.standing import Standing
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.model.workload import Contract, RestartPolicy, RunPolicy, Success, Workload
from sterna.protocol import Status
from sterna.protocol import WorkerPhase as Said
from tests.engines.kubernetes.reconcile.world import World, workload

CODES = (0, 1, 137, 143)
WORDS = (
    "",
    *(Status(pid=1, phase=phase, step=7).to_json() for phase in (Said.TRAINING, Said.COMMITTED, Said.FINISHED)),
)


class Watched(World):
    """Checks every effect before it is carried out, and can die between two of them."""

    dies_after: int | None = None  # effects of the next look

    def turn(self, standing: Standing | None = None) -> Reconciled:
        self._check_repeatable(standing)
        done = super().turn(standing)
        self.dies_after = None
        return done

    def carry_out(self, effect: Effect) -> None:
        if self.dies_after is not None:
            if self.dies_after == 0:
                return
            self.dies_after -= 1
        standing = self.standing  # written before anything follows from it
        if isinstance(effect, CreatePod):
            assert not standing.finished
            assert standing.phase is not Phase.SUSPENDED
            seat = next(s for s in standing.seats if effect.name.endswith(f"-{s.worker.role}-{s.worker.ordinal}"))
            labels, annotations = effect.body["metadata"]["labels"], effect.body["metadata"]["annotations"]
            assert seat.slot in labels.values()
            assert annotations["sterna.dev/incarnation"] == str(standing.incarnation)
            assert effect.body["spec"].get("nodeName") in (None, seat.worker.node)
            assert seat.worker[:2] not in standing.done
            for pod in self.pods.values():  # nobody of another gang is still at work
                over = pod["status"]["phase"] in ("Succeeded", "Failed")
                assert over or pod["metadata"]["annotations"]["sterna.dev/incarnation"] == str(standing.incarnation)
        elif isinstance(effect, CreateService):
            assert not standing.finished
        elif isinstance(effect, DeletePod) and effect.grace_s == 0:
            node = self.pods[effect.name]["spec"].get("nodeName")
            assert node not in self.nodes or not self.nodes[node].ready  # nobody is killed who could be told
        super().carry_out(effect)

    def _check_repeatable(self, standing: Standing | None) -> None:
        """The same look gives the same answer."""
        view = self.look() if standing is None else self.look().but(standing)
        assert reconcile(view, self.now_s, self.options) == reconcile(view, self.now_s, self.options)


def invariants(world: World) -> None:
    view = world.look()
    standing, job = world.standing, world.value
    assert len({seat.slot for seat in standing.seats}) == len(standing.seats)
    if standing.finished:
        assert standing.seats == ()
        assert world.conditions[-1] in ("Succeeded=True", "Failed=True")
        assert not takes_part(view)
    if job is not None and job.workers:
        places = {worker[:2] for worker in job.workers}
        assert len(places) == len(job.workers)
        assert not {worker[:3] for worker in job.workers} & {worker[:3] for worker in job.leaving}
    true = {c["type"] for c in world.status.get("conditions", []) if c["status"] == "True"}
    assert len(true & {"Running", "Restarting", "Suspended"}) <= 1
    assert len(true & {"Succeeded", "Failed"}) <= 1


# -- what may happen --------------------------------------------------------------------------------------------------


def _nodes_up(world: World) -> list[str]:
    return sorted(name for name, facts in world.nodes.items() if facts.ready and not facts.unschedulable)


def _pick(world: World, number: int) -> str | None:
    names = sorted(world.pods)
    return names[number % len(names)] if names else None


def _places(world: World, size: int, seed: int) -> tuple[Worker, ...]:
    nodes, of = _nodes_up(world), world.workload
    fixed = [(t.role, i) for t in of.roles if t.role is not Role.WORKER for i in range(t.replicas)]
    places = [*fixed, *((Role.WORKER, ordinal) for ordinal in range(size))]
    return tuple(Worker(*place, NodeId(nodes[(seed + at) % len(nodes)])) for at, place in enumerate(places))


def grow(world: World, a: int, b: int) -> None:
    """Somewhere to begin with, or more of what there is."""
    of, held = world.workload, world.standing.assigned
    if not takes_part(world.look()) or not _nodes_up(world):
        return
    size = of.workers_min + a % (of.workers_max - of.workers_min + 1)
    if not held:
        world.grow(*_places(world, size, b))
    elif of.contract is not Contract.RESTART and len(held) < size:
        taken = {worker[:2] for worker in held}
        more = [worker for worker in _places(world, of.workers_max, b) if worker[:2] not in taken]
        world.grow(*sorted((*held, *more[:1]), key=lambda worker: (worker.role is Role.WORKER, worker)))


def shrink(world: World, a: int, b: int) -> None:
    """Fewer, somewhere else, or nothing."""
    held, of = world.standing.assigned, world.workload
    if not takes_part(world.look()) or not held:
        return
    then = _places(world, of.workers_min, b) if a % 3 and _nodes_up(world) else ()
    if of.contract is Contract.RESTART or not then:
        world.shrink(then=then or None)
        return
    kept = tuple(worker for worker in held if worker in then)
    if kept != held:
        world.shrink(*kept, then=then)


def give_up(world: World, a: int, b: int) -> None:
    world.give_up()


def look(world: World, a: int, b: int) -> None:
    world.turn()


def look_and_die(world: World, a: int, b: int) -> None:
    world.dies_after = a % 3  # type: ignore[attr-defined]
    world.turn()


def kubelets(world: World, a: int, b: int) -> None:
    world.kubelets()


def program_ends(world: World, a: int, b: int) -> None:
    name = _pick(world, a)
    if name is not None and world.pods[name]["status"]["phase"] == "Running":
        world.exit(name, CODES[b % 4], message=WORDS[b // 4 % 4])


def restarts_in_place(world: World, a: int, b: int) -> None:
    name = _pick(world, a)
    if name is not None and world.pods[name]["status"]["phase"] == "Running":
        world.restart_in_place(name, restarts=1 + b % 3, message=WORDS[b % 4])


def kubelet_refuses(world: World, a: int, b: int) -> None:
    name = _pick(world, a)
    if name is not None and world.pods[name]["status"]["phase"] in ("Pending", "Running"):
        world.fail(name, ("Evicted", "OutOfcpu")[b % 2])


def somebody_deletes(world: World, a: int, b: int) -> None:
    name = _pick(world, a)
    if name is not None:
        world.delete_pod(name, grace_s=None if b % 2 else 0)


def node_changes(world: World, a: int, b: int) -> None:
    name = f"n{1 + a % 3}"
    match b % 5:
        case 0:
            world.nodes.pop(name, None)
        case 1:
            world.nodes[name] = NodeFacts(ready=False)
        case 2:
            world.nodes[name] = NodeFacts(unschedulable=True)
        case _:
            world.nodes[name] = NodeFacts()


def owner_changes_mind(world: World, a: int, b: int) -> None:
    world.edit_policy(suspend=bool(a % 2))


def somebody_edits_the_status(world: World, a: int, b: int) -> None:
    scheduling = world.status.get("scheduling", {})
    if b % 3 == 0:
        world.status.pop("scheduling", None)
    elif b % 3 == 1 and scheduling:
        scheduling["seats"] = scheduling.get("seats", [])[1:]
    elif scheduling:
        scheduling["incarnation"] = "many"


def time_passes(world: World, a: int, b: int) -> None:
    world.now_s += 0.5 + a % 40


HAPPENINGS: tuple[Callable[[World, int, int], None], ...] = (
    *(grow, grow, shrink, give_up, look, look, look, look_and_die, kubelets, kubelets, kubelets),
    *(program_ends, restarts_in_place, kubelet_refuses, somebody_deletes, node_changes, time_passes),
)
RARE = (owner_changes_mind, somebody_edits_the_status)
STORIES = st.lists(
    st.tuples(st.sampled_from((*HAPPENINGS, *RARE)), st.integers(0, 15), st.integers(0, 15)), max_size=40
)
PS = (Role.PS, 1)
JOBS = [
    pytest.param(workload(Contract.PARAMETER_SERVER, PS, restarts=RestartPolicy.EXIT_CODE), id="parameter server"),
    pytest.param(
        workload(Contract.PARAMETER_SERVER, PS, (Role.CHIEF, 1), restarts=RestartPolicy.ON_FAILURE), id="chief"
    ),
    pytest.param(workload(Contract.RESTART, kind="ElasticJob", restarts=RestartPolicy.ON_FAILURE), id="gang"),
    pytest.param(
        workload(
            Contract.RESTART,
            kind="ElasticJob",
            restarts=RestartPolicy.EXIT_CODE,
            success=Success.ALL_WORKERS,
            run_policy=RunPolicy(backoff_limit=3, active_deadline_s=500),
        ),
        id="gang with limits",
    ),
    pytest.param(workload(Contract.TORCHRUN, kind="PyTorchJob", restarts=RestartPolicy.EXIT_CODE), id="agents"),
    pytest.param(
        workload(Contract.DISCOVERY, (Role.LAUNCHER, 1), kind="MPIJob", restarts=RestartPolicy.ON_FAILURE), id="horovod"
    ),
]


def come_to_rest(world: World) -> None:
    """The trouble is over: nodes are back, the operator lives, time passes."""
    world.nodes = {name: NodeFacts() for name in ("n1", "n2", "n3")}
    for _ in range(40):
        world.rest()
        invariants(world)
        if takes_part(world.look()) and not world.standing.seats:
            grow(world, 1, 1)
        elif _waits_for_more(world.standing):
            world.give_up()
        elif world.wake_s is not None and world.wake_s < world.now_s + 400:
            world.now_s = world.wake_s
        else:
            return
    raise AssertionError(f"no rest: {world.standing}")


def _waits_for_more(standing: Standing) -> bool:
    change = standing.change
    return standing.phase is Phase.RESIZING and change is not None and set(change.after) != set(standing.assigned)


@pytest.mark.parametrize("of", JOBS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(binding=st.sampled_from([Binding.NODE_NAME, Binding.BINDING]), story=STORIES)
def test_r1_no_story_breaks_the_rules_and_every_story_ends_in_rest(
    of: Workload, binding: Binding, story: list[tuple[Callable[[World, int, int], None], int, int]]
) -> None:
    world = Watched(of, options=Options(binding=binding))
    world.turn()
    for happens, a, b in story:
        happens(world, a, b)
        invariants(world)
    come_to_rest(world)
    standing = world.standing
    live = {name for name, pod in world.pods.items() if pod["status"]["phase"] in ("Pending", "Running")}
    if standing.phase is Phase.RUNNING:
        found = Look(world.look(), world.workload, standing)
        assert not found.strays
        assert {place for place in found.seats if place not in found.done} <= set(found.current)
        assert found.all_run
        names = _names(world)
        assert set(world.services) == (set(names[:1]) if of.kind == "ElasticJob" else set(names))  # a gang's leader
        assert world.conditions[-1] in ("Running=True", "Suspended=False", "Created=True")
    else:
        assert standing.finished or standing.phase is Phase.SUSPENDED
        assert not live
    done = world.turn()
    assert (done.status, done.effects, done.events) == (None, (), ())


def _names(world: World) -> list[str]:
    return [f"job1-{seat.worker.role}-{seat.worker.ordinal}" for seat in world.standing.seats]
