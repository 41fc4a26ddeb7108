"""Small worlds that were once answered wrongly, each with the answer that is right: who starts, where, and what the
others are told."""

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.planner.lives import held, life
from tests.worlds import GIB, cluster, job, node

from sterna.engines.simulator.models.paced import PacedTraining
from sterna.engines.simulator.results import SimulationResult
from sterna.engines.simulator.simulate import Simulation, simulate
from sterna.engines.simulator.training import SimulatedJob
from sterna.interfaces.reports.decision import decision_text
from sterna.model.curves import SpeedupCurve
from sterna.model.feasibility import cannot_start
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import Job
from sterna.model.nodes import Device, Doubt, Guest, Node
from sterna.model.phases import Phase
from sterna.model.plan import Decision
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because, Why
from sterna.placement.packed import packed
from sterna.placement.strategies import placement
from sterna.planner.decide import Settings, decide
from sterna.planner.reasons import Reasons
from sterna.policies.registry import ENTRIES, policy
from sterna.wire.decision_file import decision_record

POLICIES = [entry.name for entry in ENTRIES]


def decided(view: Snapshot, name: str = "fifo", settings: Settings | None = None, **options: str) -> Decision:
    chosen = policy(name, options)
    return decide(view, chosen, placement(chosen.placement), settings)


def where(decision: Decision, name: str) -> set[str]:
    return {worker.node for worker in decision.layout.workers_of(JobId(name))}


def told(view: Snapshot, decision: Decision, name: str) -> Because:
    return Reasons(view, decision).of(view.by_id[JobId(name)])


def share_job(name: str, milli: int, gib: int, count: int = 1) -> Job:
    request = Resources(gpu_milli=milli, gpu_bytes=gib * GIB)
    return job(name, needs=count).but(spec=replace(job(name, needs=count).spec, request=request))


def with_cards(name: str, *gib: int) -> Node:
    devices = tuple(Device(DeviceId(str(number)), size * GIB) for number, size in enumerate(gib))
    room = Resources(64_000, 64 * GIB, 1000 * len(gib))
    return Node(id=NodeId(name), allocatable=room, devices=devices, accelerator="gpu")


ZONE_B: dict[str, Any] = {"labels": (("zone", "b"),)}


class TestPoolChoice:
    """Item 1: a job that names no accelerator goes where its minimum fits."""

    @pytest.mark.parametrize("name", POLICIES)
    def test_a_gpu_job_starts_although_there_are_cpu_nodes_with_more_milli(self, name):
        nodes = [node("cpu0", cpus=64), node("gpu0", gpus=8, accelerator="a100")]
        decision = decided(cluster(nodes=nodes, jobs=[job("x", needs=1, left=100.0)]), name)
        assert where(decision, "x") == {"gpu0"}

    def test_in_500_mixed_clusters_that_hold_nobody_a_gpu_job_always_starts(self):
        chance = random.Random(11)
        for _ in range(500):
            nodes = [node(f"c{each}", cpus=chance.choice([16, 64, 128])) for each in range(chance.randint(1, 4))]
            for each in range(chance.randint(1, 3)):
                kind = chance.choice(["a100", "t4", "h100"])
                nodes.append(node(f"g{each}", gpus=chance.choice([1, 2, 4, 8]), accelerator=kind))
            decision = decided(cluster(nodes=nodes, jobs=[job("x", needs=1)]))
            assert decision.layout.workers_of(JobId("x")), [one.id for one in nodes]

    def test_a_job_that_selects_a_zone_goes_to_the_pool_in_that_zone(self):
        nodes = [node("a1", gpus=8, accelerator="a100"), node("t1", gpus=4, accelerator="t4", **ZONE_B)]
        x = job("x", needs=1, spec={"selector": (("zone", "b"),)})
        assert where(decided(cluster(nodes=nodes, jobs=[x])), "x") == {"t1"}

    def test_a_worker_with_three_gpus_goes_where_one_node_has_three(self):
        nodes = [
            node("a1", gpus=2, accelerator="a100"),
            node("a2", gpus=2, accelerator="a100"),
            node("t1", gpus=3, accelerator="t4"),
        ]
        assert where(decided(cluster(nodes=nodes, jobs=[job("x", needs=1, gpus_each=3)])), "x") == {"t1"}

    def test_a_pool_where_it_fits_now_comes_before_one_that_is_full(self):
        nodes = [node("a1", gpus=8, accelerator="a100"), node("t1", gpus=2, accelerator="t4")]
        full = job("full", needs=8, on=["a1"] * 8)
        assert where(decided(cluster(nodes=nodes, jobs=[full, job("x", needs=2)])), "x") == {"t1"}

    def test_cards_with_less_memory_come_first_and_larger_ones_where_they_are_needed(self):
        nodes = [
            node("a1", gpus=8, gpu_gib=80, accelerator="a100"),
            node("t1", gpus=4, gpu_gib=16, accelerator="t4"),
        ]
        jobs = [share_job("small", 500, 8), share_job("large", 500, 40)]
        decision = decided(cluster(nodes=nodes, jobs=jobs))
        assert where(decision, "small") == {"t1"}
        assert where(decision, "large") == {"a1"}

    def test_two_jobs_do_not_choose_one_pool_for_the_last_gpu_of_each(self):
        nodes = [node("a1", gpus=1, accelerator="a100"), node("t1", gpus=1, accelerator="t4")]
        decision = decided(cluster(nodes=nodes, jobs=[job("x", needs=1), job("y", needs=1)]))
        assert where(decision, "x") | where(decision, "y") == {"a1", "t1"}

    def test_while_it_waits_the_choice_is_made_anew(self):
        nodes = [node("a1", gpus=2, accelerator="a100"), node("t1", gpus=2, accelerator="t4")]
        busy = [job("a", needs=2, on=["a1"] * 2), job("t", needs=2, on=["t1"] * 2)]
        x = job("x", needs=2, submitted_s=5)
        assert not decided(cluster(nodes=nodes, jobs=[*busy, x])).changes_something
        assert where(decided(cluster(nodes=nodes, jobs=[busy[0], x])), "x") == {"t1"}
        assert where(decided(cluster(nodes=nodes, jobs=[busy[1], x])), "x") == {"a1"}

    def test_the_choice_has_a_reason_with_numbers(self):
        nodes = [node("cpu0", cpus=64), node("a1", gpus=8, accelerator="a100"), node("t1", gpus=4, accelerator="t4")]
        because = decided(cluster(nodes=nodes, jobs=[job("x", needs=1)])).chosen[JobId("x")]
        assert because.why is Why.POOL_CHOSEN
        assert dict(because.numbers) == {"pool": "a100", "fits": "now", "pools_looked_at": 2}

    def test_the_reason_is_printed_and_kept_in_records(self):
        nodes = [node("a1", gpus=8, accelerator="a100"), node("t1", gpus=4, accelerator="t4")]
        view = cluster(nodes=nodes, jobs=[job("x", needs=1)])
        decision = decided(view)
        assert "its pool" in decision_text(view, decision, policy="fifo")
        (record,) = decision_record(view, decision)["jobs"]
        assert record["pool"]["why"] == "PoolChosen"
        assert record["pool"]["numbers"]["pool"] == "a100"

    def test_a_running_job_stays_in_its_pool_unless_its_owner_lets_it_move(self):
        nodes = [
            node("a1", gpus=2, accelerator="a100", cordoned=True),
            node("t1", gpus=2, accelerator="t4"),
        ]
        stays = cluster(nodes=nodes, jobs=[job("x", needs=2, on=["a1"] * 2)])
        assert where(decided(stays), "x") == set()
        moves = cluster(nodes=nodes, jobs=[job("x", needs=2, on=["a1"] * 2, spec={"moves_between_pools": True})])
        assert where(decided(moves), "x") == {"t1"}


class TestIdleCpus:
    """Jobs without GPUs on nodes with GPUs: idle CPUs, up to a share of each node."""

    NODES = (node("c1", cpus=4), node("g1", gpus=4, cpus=16, accelerator="a100"))

    def small(self, name: str, count: int, **more: Any) -> Job:
        return job(name, needs=count, gpus_each=0, cpus_each=1, **more)

    def test_nodes_without_gpus_come_first(self):
        decision = decided(cluster(nodes=self.NODES, jobs=[self.small("x", 4)]))
        assert where(decision, "x") == {"c1"}

    def test_what_does_not_fit_there_uses_idle_cpus_of_a_gpu_node(self):
        decision = decided(cluster(nodes=self.NODES, jobs=[self.small("x", 4), self.small("y", 6)]))
        assert where(decision, "x") == {"c1"}
        assert where(decision, "y") == {"g1"}

    def test_half_of_a_gpu_node_is_kept_for_who_comes_for_its_gpus(self):
        jobs = [self.small("x", 4), *(self.small(f"y{number}", 2) for number in range(6))]
        decision = decided(cluster(nodes=self.NODES, jobs=jobs))
        on_g1 = [job_id for job_id in decision.layout.workers if where(decision, job_id) == {"g1"}]
        assert len(on_g1) == 4, "eight of sixteen CPUs"
        gpu_job = job("gpus", needs=4, cpus_each=2, submitted_s=9)
        after = decided(cluster(nodes=self.NODES, jobs=[*jobs, gpu_job]))
        assert where(after, "gpus") == {"g1"}, "no GPU is stranded"

    @pytest.mark.parametrize(("share", "workers"), [(0.0, 0), (0.25, 4), (1.0, 12)])
    def test_the_share_is_the_owners_to_set(self, share, workers):
        jobs = [self.small("x", 4), *(self.small(f"y{number}", 1) for number in range(12))]
        decision = decided(cluster(nodes=self.NODES, jobs=jobs), settings=Settings(idle_cpu_share=share))
        assert sum(where(decision, job_id) == {"g1"} for job_id in decision.layout.workers) == workers

    def test_where_all_nodes_have_gpus_there_is_nowhere_else_and_no_limit(self):
        view = cluster(nodes=[node("g1", gpus=4, cpus=16)], jobs=[self.small("x", 16)])
        assert where(decided(view), "x") == {"g1"}

    @pytest.mark.parametrize("name", POLICIES)
    def test_growth_on_idle_cpus_ends_when_somebody_comes_for_the_gpus(self, name):
        grown = job("grown", at_least=1, at_most=8, gpus_each=0, cpus_each=1, left=1e6, on=["g1"] * 8, as_of_s=100.0)
        full = self.small("full", 4, on=["c1"] * 4, left=1e6)
        comes = job("comes", needs=4, cpus_each=3, left=10.0, submitted_s=50)
        view = cluster(nodes=self.NODES, jobs=[grown, full, comes], now_s=100.0)
        decision = decided(view, name)
        assert len(decision.layout.workers_of(JobId("grown"))) == 1
        later = cluster(
            nodes=self.NODES,
            jobs=[grown.but(workers=decision.layout.workers_of(JobId("grown"))), full, comes],
            now_s=200.0,
        )
        assert where(decided(later, name), "comes") == {"g1"}

    @pytest.mark.parametrize("name", ["srtf", "srsf", "tiresias", "las"])
    @pytest.mark.parametrize("running", [0, 1])
    def test_a_rigid_job_on_idle_cpus_does_not_start_and_stop_in_every_cycle(self, name, running):
        """It is too large for them. While it waits, the job with GPUs would fit at its minimum: no reason to cut a job
        that holds nothing down to its minimum, and to start it so."""
        whole = job("whole", at_most=4, initial=4, gpus_each=0, cpus_each=2, left=10.0, on=["g1"] * running)
        comes = job("comes", at_most=2, initial=2, cpus_each=7, left=10.0)
        nodes = [node("c1", cpus=1), node("g1", gpus=4, cpus=8, accelerator="a100")]
        view = cluster(nodes=nodes, jobs=[whole, comes], now_s=100.0)
        seen = [held(view) for view, _ in life(view, (name, {}), cycles=6)]
        assert seen[2:] == [seen[2]] * 4


class TestNeverFits:
    """Item 3: the verdict is exact for the whole gang, so that nobody waits behind a job that cannot start."""

    @pytest.mark.parametrize(
        ("nodes", "one"),
        [
            pytest.param(
                [node("n", cpus=6)],
                job("x", needs=1, gpus_each=0, cpus_each=4, ps=1, ps_cpus=4),
                id="worker and parameter server of 4 CPUs each on one node of 6",
            ),
            pytest.param(
                [with_cards("n", 16)], share_job("x", 250, 12, 2), id="two shares of 12 GiB on one 16-GiB card"
            ),
            pytest.param(
                [node("n", gpus=2, cpus=2), node("m", gpus=0, cpus=64, accelerator="gpu")],
                job("x", needs=1, gpus_each=2, cpus_each=4),
                id="GPUs on one node and CPUs on another",
            ),
        ],
    )
    def test_a_gang_that_no_empty_nodes_hold_can_never_start(self, nodes, one):
        view = cluster(nodes=nodes, jobs=[one], now_s=1000)
        assert cannot_start(view, view.jobs[0]) is not None
        assert told(view, decided(view, "dragon"), "x").why is Why.NEVER_FITS

    @pytest.mark.parametrize(
        ("nodes", "why", "names"),
        [
            pytest.param({"n": {"cordoned": True}}, Why.NODES_CORDONED, "n", id="the only node is cordoned"),
            pytest.param({"n": {"ready": False}}, Why.NODES_NOT_READY, "n", id="the only node is not ready"),
            pytest.param({"n": {"doubt": Doubt.NOT_READY}}, Why.NODES_NOT_READY, "n", id="it has just fallen silent"),
            pytest.param({"n": {"doubt": Doubt.FLAPPING}}, Why.NODES_FLAPPING, "n", id="the only node flaps"),
            pytest.param(
                {"n": {"doubt": Doubt.FLAPPING}, "m": {"cordoned": True}},
                Why.NODES_FLAPPING,
                "n",
                id="one flaps, which ends by itself, and another one is cordoned",
            ),
            pytest.param(
                {"n": {"ready": False, "cordoned": True}, "m": {"cordoned": True}},
                Why.NODES_CORDONED,
                "m, n",
                id="to uncordon one is enough, though another is not ready either",
            ),
            pytest.param(
                {"n": {"guests": (Guest("pod", Resources(gpu_milli=3000)),)}}, Why.OTHER_PODS, None, id="other pods"
            ),
        ],
    )
    @pytest.mark.parametrize("name", ["dragon", "fifo", "elastic-fifo", "tiresias"])
    def test_what_may_pass_is_never_told_as_for_ever(self, name, nodes, why, names):
        there = [replace(node(each, gpus=4), **state) for each, state in nodes.items()]
        view = cluster(nodes=there, jobs=[job("x", needs=2)], now_s=1000)
        reason = told(view, decided(view, name), "x")
        assert reason.why is why
        assert names is None or dict(reason.numbers)["nodes"] == names

    @pytest.mark.parametrize("doubt", Doubt)
    def test_what_runs_on_a_node_in_doubt_stays_at_its_size_and_what_waits_for_its_room_is_told(self, doubt):
        nodes = [node("m", gpus=2), replace(node("n", gpus=4), doubt=doubt)]
        jobs = [job("runs", needs=2, on=["n", "n"]), job("beside", needs=2, on=["m", "m"]), job("x", needs=2)]
        view = cluster(nodes=nodes, jobs=jobs)
        decision = decided(view)
        assert (where(decision, "runs"), where(decision, "beside"), where(decision, "x")) == ({"n"}, {"m"}, set())
        reason = told(view, decision, "x")
        why = Why.NODES_FLAPPING if doubt is Doubt.FLAPPING else Why.NODES_NOT_READY
        assert (reason.why, dict(reason.numbers)["nodes"]) == (why, "n")

    def test_a_job_is_kept_from_nodes_that_refused_it_and_is_told_so(self):
        nodes, refused = [node("m", gpus=4), node("n", gpus=4)], {"kept_from": frozenset({NodeId("n")})}
        elsewhere = cluster(nodes=nodes, jobs=[job("x", needs=2, spec=refused)])
        assert where(decided(elsewhere), "x") == {"m"}
        nowhere = cluster(nodes=nodes[1:], jobs=[job("x", needs=2, spec=refused)])
        reason = told(nowhere, decided(nowhere), "x")
        assert (reason.why, dict(reason.numbers)["nodes"]) == (Why.NODES_REFUSED, "n")
        running = cluster(nodes=nodes, jobs=[job("x", needs=2, on=["n", "n"], spec=refused)])
        assert where(decided(running), "x") == {"n"}  # what runs there stays

    @pytest.mark.parametrize("variant", ["dragon", "erudite", "prototype"])
    def test_a_job_that_can_never_start_blocks_nobody(self, variant):
        hopeless = job("x", needs=1, gpus_each=0, cpus_each=4, ps=1, ps_cpus=4, spec={"priority": 9})
        small = job("small", needs=1, gpus_each=0, cpus_each=1, submitted_s=1)
        view = cluster(nodes=[node("n", cpus=6)], jobs=[hopeless, small], now_s=1000)
        assert where(decided(view, "dragon", variant=variant), "small") == {"n"}

    def test_a_thousand_nodes_and_parameter_servers_are_one_question(self):
        nodes = [node(f"n{number:04}", gpus=16, cpus=16 + number % 2) for number in range(1000)]
        x = job("x", needs=8000, cpus_each=2, ps=16, ps_cpus=4)
        view = cluster(nodes=nodes, jobs=[x])
        verdict = cannot_start(view, x)
        assert verdict is not None
        assert dict(verdict.numbers)["cpus_in_all"] == 16064


class TestTrueVerdicts:
    """Item 7: what a job is told names what is short, with numbers that are so."""

    def test_every_card_is_looked_at_and_not_just_the_first(self):
        view = cluster(nodes=[with_cards("n", 8, 16)], jobs=[share_job("x", 250, 12)])
        assert cannot_start(view, view.jobs[0]) is None
        assert where(decided(view), "x") == {"n"}

    def test_a_verdict_names_the_memory_of_cards_where_that_is_short(self):
        view = cluster(nodes=[with_cards("n", 8, 8)], jobs=[share_job("x", 250, 12)])
        numbers = dict(told(view, decided(view), "x").numbers)
        assert numbers["card_gib_each"] == 12
        assert numbers["card_gib_on_the_best_node"] == 8

    def test_bystanders_of_a_reservation_are_not_told_that_they_never_fit(self):
        jobs = [
            job("large", needs=2, left=900.0),
            job("small", needs=1, left=10.0, submitted_s=900),
            job("running", needs=1, left=5.0, on=["n"]),
        ]
        view = cluster(nodes=[node("n", gpus=2)], jobs=jobs, now_s=1000)
        decision = decided(view, "srjf", Settings(starving_after_s=60))
        assert where(decision, "small") == set()
        because = told(view, decision, "small")
        assert because.why is Why.RESERVED
        assert dict(because.numbers) == {"for_job": "large"}

    @pytest.mark.parametrize("name", ["srtf", "srsf"])
    def test_a_rigid_size_above_the_pool_says_so_on_an_empty_cluster(self, name):
        view = cluster(gpus=4, jobs=[job("x", at_least=1, at_most=8, left=10.0)])
        because = told(view, decided(view, name), "x")
        assert because.why is Why.WHOLE_SIZE
        assert dict(because.numbers) == {"workers": 8, "gpus_in_all": 8, "gpus_free": 4, "gpus_on_the_best_node": 4}

    def test_no_node_fits_quotes_cpus_where_cpus_are_short(self):
        jobs = [
            job("running", needs=1, cpus_each=6, on=["n"]),
            job("x", needs=1, gpus_each=1, cpus_each=4, submitted_s=1),
        ]
        view = cluster(nodes=[node("n", gpus=8, cpus=8)], jobs=jobs, now_s=10)
        because = told(view, decided(view), "x")
        assert because.why is Why.NO_NODE_FITS
        assert dict(because.numbers) == {"cpus_each": 4, "cpus_on_the_best_node": 2}

    def test_numbers_are_those_of_the_layout_that_is_carried_out(self):
        """Two jobs of 3 GPUs in a zone of 4 and then one of 2: the second is told about the 1 GPU that is left."""
        zone = {"selector": (("zone", "b"),)}
        nodes = [node("b", gpus=4, **ZONE_B), node("a", gpus=8)]
        jobs = [job(f"j{number}", needs=1, gpus_each=3, submitted_s=number, spec=zone) for number in range(3)]
        view = cluster(nodes=nodes, jobs=jobs, now_s=10)
        decision = decided(view)
        assert where(decision, "j0") == {"b"}
        for name in ("j1", "j2"):
            assert dict(told(view, decision, name).numbers) == {"gpus_each": 3, "gpus_on_the_best_node": 1}

    def test_the_simulator_tells_a_job_that_never_started_what_decide_would_tell_it(self):
        """Eight GPUs in all and four needed: what is short is a node, which "needs 4000 of 8000" does not say."""
        nodes, x = [node(f"n{number}", gpus=2) for number in range(4)], job("x", needs=1, gpus_each=4)
        waiting = [SimulatedJob(x.spec, PacedTraining(60.0, SpeedupCurve.flat()))]
        result = simulate(Simulation(nodes=nodes, jobs=waiting, size=policy("fifo"), place=packed))
        view = cluster(nodes=nodes, jobs=[x])
        assert [record.refused for record in result.records] == [
            f"never started: {told(view, decided(view), 'x').sentence}"
        ]
        assert dict(told(view, decided(view), "x").numbers)["gpus_on_the_best_node"] == 2


SHORTEST_FIRST = ["srjf", "srtf", "srsf", "elastic-srjf", "afs-l"]


class TestReservations:
    """Items 4 and 8: what is kept for a job that waited too long is kept against the policy as well, and is enough."""

    def simulated(self, name: str, *, rivals: int, starving_after_s: float | None) -> SimulationResult:
        """One GPU, one job of 1,000 s and so many of 100 s, all there from the start."""
        lengths = {"head": 1000.0, **{f"rival-{number}": 100.0 for number in range(rivals)}}
        jobs = [
            SimulatedJob(job(each, needs=1).spec, PacedTraining(length, SpeedupCurve.flat()))
            for each, length in lengths.items()
        ]
        settings = Settings(starving_after_s=starving_after_s)
        return simulate(
            Simulation(nodes=[node("n", gpus=1)], jobs=jobs, size=policy(name), place=packed, settings=settings)
        )

    @pytest.mark.parametrize("rivals", [1, 2, 8])
    @pytest.mark.parametrize("name", SHORTEST_FIRST)
    def test_everybody_finishes_and_the_gpu_never_idles(self, name, rivals):
        result = self.simulated(name, rivals=rivals, starving_after_s=60.0)
        assert [record.id for record in result.records if record.finished_s is None] == []
        assert result.makespan_s == pytest.approx(1000 + 100 * rivals)

    @pytest.mark.parametrize("name", SHORTEST_FIRST)
    def test_the_head_starts_once_it_starves_and_is_left_alone_for_as_long(self, name):
        result = self.simulated(name, rivals=8, starving_after_s=60.0)
        (head,) = (record for record in result.records if record.id == "head")
        first = head.segments[0]
        assert first.from_s == pytest.approx(100), "when the first of the others is done, and not the last"
        assert first.to_s - first.from_s == pytest.approx(60), "then those that waited as long have their turn"

    def test_without_the_option_the_longest_job_is_last(self):
        result = self.simulated("srjf", rivals=8, starving_after_s=None)
        (head,) = (record for record in result.records if record.id == "head")
        assert head.first_started_s == pytest.approx(800)

    @pytest.mark.parametrize("name", POLICIES)
    def test_nodes_are_set_aside_on_which_parameter_servers_fit_too(self, name):
        """The head's ps needs all of n1, its workers fit on n0. A small job comes in every cycle and runs for two."""
        nodes = [node("n0", gpus=2, cpus=3), node("n1", gpus=2, cpus=4)]
        jobs = [
            job("head", needs=2, cpus_each=1, ps=1, ps_cpus=4, left=1e5),
            job("old", needs=1, cpus_each=1, left=1.0, on=["n1"], submitted_s=1, started_s=985.0),
            *(job(f"small-{n}", needs=1, cpus_each=1, left=1.0, submitted_s=900.0 + n) for n in range(3)),
        ]
        now_s, memory = 1000.0, None
        for cycle in range(30):
            view = cluster(nodes=nodes, jobs=jobs, now_s=now_s, memory=memory)
            decision = decided(view, name, Settings(starving_after_s=60))
            if where(decision, "head"):
                return
            later = [carried_out(each, decision, now_s) for each in view.jobs]
            now_s, memory = now_s + 10, decision.memory
            jobs = [each for each in later if each.started_s is None or now_s - each.started_s < 20]
            jobs.append(job(f"small-{cycle + 3}", needs=1, cpus_each=1, left=1.0, submitted_s=now_s))
        pytest.fail("after 30 cycles of small arrivals it had not started")

    def test_the_head_is_told_apart_from_those_who_wait_for_it(self):
        jobs = [
            job("head", needs=2, left=900.0),
            job("running", needs=1, left=5.0, on=["n"], submitted_s=500),
            job("small", needs=1, left=10.0, submitted_s=900),
        ]
        view = cluster(nodes=[node("n", gpus=2)], jobs=jobs, now_s=920)
        decision = decided(view, "srjf", Settings(starving_after_s=60))
        assert told(view, decision, "head").why in (Why.NO_ROOM, Why.NO_NODE_FITS)
        assert told(view, decision, "small").why is Why.RESERVED
        assert decision.kept_for == (JobId("head"),)
        assert where(decision, "running") == {"n"}, "whoever runs there may finish"


def carried_out(one: Job, decision: Decision, now_s: float) -> Job:
    """The job once its part of the decision is carried out."""
    workers = decision.layout.workers_of(one.id)
    if not workers:
        return one.but(workers=(), phase=Phase.WAITING, started_s=None, waiting_since_s=one.waiting_since_s or now_s)
    started_s = one.started_s if one.workers else now_s
    return one.but(workers=workers, phase=Phase.RUNNING, started_s=started_s, waiting_since_s=None)
