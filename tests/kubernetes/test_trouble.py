"""The API server is away, slow, wrong or cut off: nobody crashes, what runs goes on, and the end is the same."""

import random
from collections import Counter
from typing import Any

import pytest

from tests.cluster.chaos import ChaosProxy
from tests.cluster.faults import Answer, Cut, Delay
from tests.kubernetes.day import live_through
from tests.kubernetes.jobs import elasticjob, mpijob, tfjob
from tests.kubernetes.lab import Lab, Running
from tests.kubernetes.rights import USER
from tests.kubernetes.test_crash_points import EXPECTED
from tests.kubernetes.test_voda_rows import GPUS, started, workers
from tests.needs import seeds


def behind(lab: Lab, chaos: ChaosProxy, **settings: Any) -> Running:
    lab.nodes.add(3, gpus=2)
    return lab.start(kubeconfig=chaos.kubeconfig(USER), **{"retry_s": 0.5, "retry_max_s": 2.0} | settings)


def uids(lab: Lab, job: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in lab.all_pods(job)}


@pytest.mark.parametrize("seed", seeds(2))
def test_r3_a_day_of_random_faults_ends_as_any_other(lab: Lab, chaos: ChaosProxy, seed: int):
    chaos.random(seed, rate=0.1)
    running = behind(lab, chaos)
    evening = live_through(lab)
    assert running.lives == 1
    assert evening == EXPECTED
    assert any(seen.fault is not None for seen in chaos.requests)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Answer(409), id="conflicts"),
        pytest.param(Answer(429, retry_after_s=1), id="throttled"),
        pytest.param(Answer(500), id="internal errors"),
        pytest.param(Answer(500, forwarded=True), id="errors after the deed"),
        pytest.param(Delay(0.5), id="slow"),
    ],
)
def test_r3_ten_answers_in_a_row_go_wrong(lab: Lab, chaos: ChaosProxy, fault: Any):
    behind(lab, chaos)
    lab.submit(tfjob("served", workers=(1, 1, 4)))
    lab.until_pods("served", "served-ps-0", *(f"served-worker-{i}" for i in range(4)))
    kept = uids(lab, "served")
    rule = chaos.inject(fault, watch=False, times=10)
    lab.submit(elasticjob("gang", workers=(2, 2)))
    lab.until_pods("gang", "gang-worker-0", "gang-worker-1")
    lab.until_rest()
    assert rule.hits == 10 or not isinstance(fault, Answer)
    assert uids(lab, "served") == kept


@pytest.mark.parametrize("fault", [pytest.param(Answer(410), id="gone"), pytest.param(Cut(events=0), id="cut at once")])
def test_r3_watches_that_fail_are_begun_anew(lab: Lab, chaos: ChaosProxy, fault: Any):
    rule = chaos.inject(fault, watch=True, times=12)
    behind(lab, chaos)
    lab.submit(elasticjob("gang", workers=(2, 2)))
    lab.until_pods("gang", "gang-worker-0", "gang-worker-1")
    lab.nodes.exit("gang-worker-0", 0)
    lab.nodes.exit("gang-worker-1", 0)
    lab.until_true("ElasticJob", "gang", "Succeeded")
    assert rule.hits == 12


def test_r3_what_happened_during_an_outage_is_made_good_within_two_cycles(lab: Lab, chaos: ChaosProxy):
    running = behind(lab, chaos, rate_limit_s=3.0)  # without one, every bit of news is a cycle of its own
    lab.submit(tfjob("served", workers=(1, 1, 4)) + "---" + elasticjob("gang", workers=(2, 2)))
    lab.until_pods("served", "served-ps-0", *(f"served-worker-{i}" for i in range(4)))
    lab.until_pods("gang", "gang-worker-0", "gang-worker-1")
    lab.until_rest()
    kept = uids(lab, "served")
    chaos.refuse()
    lab.submit(elasticjob("next", workers=(2, 2)))
    lab.nodes.exit("gang-worker-0", 0)
    lab.nodes.exit("gang-worker-1", 0)
    before = running.operator.decider.cycles
    chaos.accept()
    lab.until_true("ElasticJob", "gang", "Succeeded")
    lab.until_pods("next", "next-worker-0", "next-worker-1")
    assert running.operator.decider.cycles - before <= 3  # one may have begun while nobody answered
    lab.until_rest()
    assert uids(lab, "served") == kept
    assert running.lives == 1


def test_r3_the_api_server_is_restarted_and_running_jobs_notice_nothing(lab: Lab):
    lab.nodes.add(3, gpus=2)
    running = lab.start()
    lab.submit(tfjob("served", workers=(1, 1, 4)))
    lab.until_pods("served", "served-ps-0", *(f"served-worker-{i}" for i in range(4)))
    kept = uids(lab, "served")
    lab.plane.restart_apiserver()
    lab.submit(elasticjob("gang", workers=(2, 2)))
    lab.until_pods("gang", "gang-worker-0", "gang-worker-1")
    assert uids(lab, "served") == kept
    assert running.lives == 1


def test_r3_a_delete_that_meets_a_conflict_is_tried_again(lab: Lab, chaos: ChaosProxy):
    behind(lab, chaos)
    lab.submit(tfjob("served", workers=(1, 1, 2)))
    lab.until_pods("served", "served-ps-0", "served-worker-0", "served-worker-1")
    rule = chaos.inject(Answer(409), method="DELETE", path="/pods", times=4)
    lab.nodes.exit("served-worker-0", 0)
    lab.until_true("TFJob", "served", "Succeeded")
    lab.until_pods("served")
    assert rule.hits == 4


@pytest.mark.parametrize("done", [False, True], ids=["and was not done", "although it was done"])
def test_voda_12_every_write_fails_once_and_all_is_well_in_the_end(lab: Lab, chaos: ChaosProxy, done: bool):
    lab.nodes.add(2, gpus=GPUS)
    fault = Answer(500, forwarded=done)
    paths = (
        ("POST", r"/pods\?(?!.*dryRun)"),
        ("POST", "/services"),
        ("POST", "/configmaps"),
        ("PATCH", "/status"),
        ("DELETE", "/pods"),
        ("DELETE", "/services"),
        ("PUT", "/configmaps"),
    )
    for method, path in paths:
        chaos.inject(fault, method=method, path=path, times=1)
    lab.start(kubeconfig=chaos.kubeconfig(USER))
    lab.submit(tfjob("elastic", workers=(1, 1, 4)))
    lab.until_pods("elastic", "elastic-ps-0", *workers("elastic", 0, 1, 2, 3))
    lab.submit(mpijob("hosts", workers=(1, 2, 2)))
    lab.until_pods("hosts", "hosts-launcher-0", *workers("hosts", 0, 1))
    lab.until(lambda: len(lab.all_pods("elastic")) == 3, "the elastic one gave way")
    lab.nodes.exit("elastic-worker-0", 0)
    lab.until_true("TFJob", "elastic", "Succeeded")
    lab.until_pods("elastic")


def test_voda_26_nodes_come_go_come_again_and_change_their_labels(lab: Lab):
    """Whatever happens to nodes, jobs shrink or wait, nobody crashes, and in the end all have what they can have."""
    chance = random.Random(26)
    started(lab, nodes=3)
    there = list(lab.nodes.names)
    lab.submit(tfjob("elastic", workers=(1, 1, 6)))
    lab.until_pods("elastic", "elastic-ps-0", *workers("elastic", *range(6)))
    silences: Counter[str] = Counter()  # a node that falls silent a third time is given nothing new for minutes
    for _ in range(12):
        name = chance.choice(there)
        match chance.randrange(4):
            case 0:
                lab.nodes.delete(name)
                there.remove(name)
                there += lab.nodes.add(1, gpus=GPUS)
            case 1 if silences[name] < 2:
                silences[name] += 1
                lab.nodes.stop_kubelet(name)
                lab.nodes.start_kubelet(name)
            case 2:
                lab.nodes.cordon(name)
                lab.nodes.cordon(name, on=False)
            case _:
                lab.nodes.label(name, {"sterna.dev/accelerator": chance.choice(["a100", "v100"])})
                lab.nodes.label(name, {"sterna.dev/accelerator": None})
    lab.until(lambda: len(lab.pods("elastic")) == 7, "it has all six workers again")
    lab.until_rest()
