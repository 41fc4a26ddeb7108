"""The API server is away, slow, wrong or cut off: nobody crashes, what runs goes on, and the end is the same."""

from typing import Any

import pytest

from tests.cluster.chaos import ChaosProxy
from tests.cluster.faults import Answer, Cut, Delay
from tests.kubernetes.day import live_through
from tests.kubernetes.jobs import elasticjob, tfjob
from tests.kubernetes.lab import Lab, Running
from tests.kubernetes.rights import USER
from tests.kubernetes.test_crash_points import EXPECTED
from tests.needs import seeds


def behind(lab: Lab, chaos: ChaosProxy, **settings: Any) -> Running:
    lab.nodes.add(3, gpus=2)
    return lab.start(kubeconfig=chaos.kubeconfig(USER), **settings)


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
    lab.until_true("ElasticJob", "gang", "Succeeded")
    assert rule.hits == 12


def test_r3_what_happened_during_an_outage_is_made_good_within_two_cycles(lab: Lab, chaos: ChaosProxy):
    running = behind(lab, chaos)
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
