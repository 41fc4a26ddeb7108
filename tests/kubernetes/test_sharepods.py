"""KubeShare beside training, on a real API server: SharePods count on their nodes, and urgent ones go first."""

from collections import Counter
from fractions import Fraction
from typing import Any

import msgspec
import pytest
import yaml

from sterna.engines.kubernetes.apiserver.objects import Meta, SharePodObject
from sterna.engines.kubernetes.kubeshare.sharepods import share_pod_of
from tests.kubernetes.jobs import elasticjob, tfjob
from tests.kubernetes.lab import Lab
from tests.kubernetes.sharepods import SharePods, install, uninstall


@pytest.fixture
def shares(lab: Lab) -> SharePods:
    install(lab.plane)
    return SharePods(lab)


def started(lab: Lab, *, nodes: int = 1, gpus: int = 2, cpu: str = "64", **settings: Any) -> list[str]:
    names = lab.nodes.add(nodes, gpus=gpus, cpu=cpu)
    lab.start(kubeshare=True, **settings)
    return names


def sharing_job(name: str, *, share: str, workers: tuple[int, int, int]) -> str:
    """A TFJob as DRAGON's KubeShare controller took it."""
    body = yaml.safe_load(tfjob(name, workers=workers, ps=0, gpus=0))
    body["metadata"]["annotations"] = {"DRAGON_KUBESHARE": "true"}
    annotations = {"kubeshare/gpu_request": share, "kubeshare/gpu_limit": "1.0", "kubeshare/gpu_mem": "1048576"}
    body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["metadata"] = {"annotations": annotations}
    return yaml.safe_dump(body)


def cards_used(lab: Lab) -> dict[tuple[str, str], Fraction]:
    """How much of each card workers hold, by node and card."""
    used: Counter[tuple[str, str]] = Counter()
    for pod in lab.pods():
        annotations = pod["metadata"].get("annotations", {})
        share = Fraction(annotations.get("kubeshare/gpu_request", "1"))
        for card in filter(None, annotations.get("sterna.dev/devices", "").split(",")):
            used[pod["spec"]["nodeName"], card] += share  # type: ignore[assignment]
    return {card: Fraction(share) for card, share in used.items()}


def test_dragon_30_one_operator_runs_shares_and_whole_cards_on_one_node_and_overbooks_none(lab: Lab):
    started(lab, gpus=3)
    lab.submit(sharing_job("part", share="0.5", workers=(3, 3, 3)))
    lab.until_pods("part", *(f"part-worker-{index}" for index in range(3)))
    lab.submit(tfjob("whole", workers=(1, 1, 3), ps=0, gpus=1))
    lab.until_pods("whole", "whole-worker-0")
    lab.until_rest()
    used = cards_used(lab)
    assert sorted(used.values()) == [Fraction(1, 2), 1, 1]
    lab.delete("TFJob", "part")
    lab.until_pods("whole", *(f"whole-worker-{index}" for index in range(3)))


@pytest.mark.parametrize(("gpus", "cpu"), [(4, "64"), (8, "10")], ids=["cards are short", "CPUs are short"])
@pytest.mark.parametrize("realized", [False, True], ids=["before KubeShare made pods", "with the pods it made"])
def test_dragon_30_a_card_that_sharepods_share_counts_once_and_is_not_trainings(
    lab: Lab, shares: SharePods, realized: bool, gpus: int, cpu: str
):
    """Two on one card and one on another: of four cards two are left, of ten CPUs four. Two workers either way."""
    (node,) = started(lab, gpus=gpus, cpu=cpu)
    for name, gpu_id in (("one", "aaaaa"), ("two", "aaaaa"), ("three", "bbbbb")):
        shares.create(name, "0.5" if gpu_id == "aaaaa" else "0.1", node=node, gpu_id=gpu_id, cpu="2")
        if realized:
            shares.realize(name)
    shares.until_seen()
    lab.submit(tfjob("whole", workers=(1, 4, 4), ps=0, gpus=1, cpu="2"))
    lab.until_pods("whole", "whole-worker-0", "whole-worker-1")
    shares.until_seen()
    assert lab.names("whole") == ["whole-worker-0", "whole-worker-1"]


def test_dragon_30_a_sharepod_that_is_over_takes_nothing_and_its_card_is_free_with_the_last(
    lab: Lab, shares: SharePods
):
    (node,) = started(lab, gpus=2)
    shares.create("one", "0.4", node=node, gpu_id="aaaaa")
    shares.create("two", "0.4", node=node, gpu_id="aaaaa")
    lab.submit(tfjob("whole", workers=(1, 2, 2), ps=0, gpus=1))
    lab.until_pods("whole", "whole-worker-0")
    shares.end("one")
    shares.until_seen()
    assert lab.names("whole") == ["whole-worker-0"]
    shares.delete("two")
    lab.until_pods("whole", "whole-worker-0", "whole-worker-1")


def test_dragon_30_what_is_left_of_a_sharepods_pods_counts_until_it_is_gone(lab: Lab, shares: SharePods):
    (node,) = started(lab, gpus=2)
    shares.create("one", "0.4", node=node, gpu_id="aaaaa")
    shares.realize("one")
    lab.submit(tfjob("whole", workers=(1, 2, 2), ps=0, gpus=1))
    lab.until_pods("whole", "whole-worker-0")
    shares.end("one")  # KubeShare has not taken its own pods away yet
    shares.until_seen()
    assert lab.names("whole") == ["whole-worker-0"]
    lab.api.delete(f"/api/v1/namespaces/{lab.namespace}/pods/kubeshare-vgpu-{node}-aaaaa", {"gracePeriodSeconds": 0})
    lab.until_pods("whole", "whole-worker-0", "whole-worker-1")


def test_dragon_31_an_urgent_sharepod_gets_the_fullest_card_that_has_the_share(lab: Lab, shares: SharePods):
    near, far = lab.nodes.add(2, gpus=2)
    shares.create("half", "0.5", node=near, gpu_id="aaaaa")
    shares.create("most", "0.7", node=far, gpu_id="bbbbb")
    lab.start(kubeshare=True)
    shares.create("urgent", "0.3", high=True)
    assert shares.until_placed("urgent") == (far, "bbbbb")
    lab.until(lambda: "Placed" in lab.reasons("urgent"), "an event says so")


def test_dragon_31_one_that_no_open_card_has_room_for_opens_a_card_with_a_name_of_five_letters(
    lab: Lab, shares: SharePods
):
    (node,) = started(lab, gpus=2)
    shares.create("other", "0.7", node=node, gpu_id="aaaaa")
    shares.create("patient", "0.5")  # not urgent: KubeShare's own scheduler places it
    shares.create("urgent", "0.5", high=True)
    where, card = shares.until_placed("urgent")
    assert where == node
    assert card != "aaaaa"
    assert len(card) == 5
    assert card.isalpha()
    lab.submit(tfjob("whole", workers=(1, 1, 1), ps=0, gpus=1))
    lab.until(lambda: lab.phase("TFJob", "whole"), "the job is taken in")
    shares.until_seen()
    assert lab.names("whole") == []
    assert shares.seat("patient") == ("", "")


@pytest.mark.parametrize("cpu", ["64", "8"], ids=["cards are short", "CPUs are short as well"])
def test_dragon_31_training_shrinks_for_an_urgent_sharepod_and_only_as_far_as_it_must(
    lab: Lab, shares: SharePods, cpu: str
):
    started(lab, gpus=4, cpu=cpu)
    lab.submit(tfjob("job1", workers=(1, 4, 4), ps=0, gpus=1, cpu="2"))
    lab.until_pods("job1", *(f"job1-worker-{index}" for index in range(4)))
    shares.create("urgent", "0.5", high=True)
    where, card = shares.until_placed("urgent")
    assert where in lab.nodes.names
    assert len(card) == 5
    lab.until_pods("job1", *(f"job1-worker-{index}" for index in range(3)))
    shares.create("second", "0.5", high=True, cpu="500m")  # the rest of that card: nobody shrinks any further
    assert shares.until_placed("second") == (where, card)
    shares.until_seen()
    assert len(lab.names("job1")) == 3
    shares.delete("urgent")
    shares.delete("second")
    lab.until_pods("job1", *(f"job1-worker-{index}" for index in range(4)))


def test_dragon_31_a_gang_that_restarts_on_every_change_shrinks_as_well(lab: Lab, shares: SharePods):
    started(lab, gpus=3)
    lab.submit(elasticjob("gang", workers=(1, 3)))
    lab.until_pods("gang", *(f"gang-worker-{index}" for index in range(3)))
    shares.create("urgent", "1.0", high=True)
    shares.until_placed("urgent")
    lab.until_pods("gang", "gang-worker-0", "gang-worker-1")


def test_dragon_31_no_job_is_stopped_or_goes_below_its_minimum_for_a_sharepod(lab: Lab, shares: SharePods):
    started(lab, gpus=2)
    lab.submit(tfjob("job1", workers=(1, 1, 1), ps=0, gpus=1))
    lab.submit(tfjob("job2", workers=(1, 1, 1), ps=0, gpus=1))
    before = {name: pod["metadata"]["uid"] for job in ("job1", "job2") for name, pod in _one(lab, job).items()}
    shares.create("urgent", "0.5", high=True)
    lab.until(lambda: "NoRoom" in lab.reasons("urgent"), "an event says that there is no room")
    shares.until_seen()
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in lab.all_pods()} == before
    assert shares.seat("urgent") == ("", "")
    lab.nodes.exit("job1-worker-0", 0)
    shares.until_placed("urgent")


def test_dragon_31_one_that_is_deleted_before_it_was_placed_is_forgotten_and_training_proceeds(
    lab: Lab, shares: SharePods
):
    """Its room is being made while it goes: the worker that had to leave holds on until after."""
    started(lab, gpus=2)
    lab.submit(tfjob("job1", workers=(1, 2, 2), gpus=1, grace_s=3600))
    lab.until_pods("job1", "job1-ps-0", "job1-worker-0", "job1-worker-1")
    lab.nodes.habits.on_stop = lambda _: None
    shares.create("urgent", "0.5", high=True)
    lab.until(lambda: lab.names("job1") == ["job1-ps-0", "job1-worker-0"], "a worker is told to go")
    assert shares.seat("urgent") == ("", "")
    shares.delete("urgent")
    lab.nodes.let_go("job1-worker-1")
    lab.until_pods("job1", "job1-ps-0", "job1-worker-0", "job1-worker-1")


def test_dragon_31_one_that_somebody_else_placed_first_is_counted_where_it_is(lab: Lab, shares: SharePods):
    (node,) = started(lab, gpus=2)
    lab.submit(tfjob("job1", workers=(2, 2, 2), ps=0, gpus=1))
    lab.until_pods("job1", "job1-worker-0", "job1-worker-1")
    shares.create("urgent", "0.5", high=True)
    lab.until(lambda: "NoRoom" in lab.reasons("urgent"), "it has to wait")
    (other,) = lab.nodes.add(1, gpus=1, prefix="other", taints=[{"key": "theirs", "effect": "NoSchedule"}])
    annotations = {"kubeshare/GPUID": "ccccc"}
    shares.edit("urgent", {"metadata": {"annotations": annotations}, "spec": {"nodeName": other}})
    shares.until_seen()
    assert shares.seat("urgent") == (other, "ccccc")
    assert len(lab.names("job1")) == 2
    assert node != other


def test_dragon_31_taints_and_selectors_hold_for_sharepods_too(lab: Lab, shares: SharePods):
    lab.nodes.add(1, gpus=1, prefix="tainted", taints=[{"key": "theirs", "effect": "NoSchedule"}])
    lab.nodes.add(1, gpus=1, prefix="plain")
    (wanted,) = lab.nodes.add(1, gpus=1, prefix="fast", labels={"disk": "fast"})
    lab.start(kubeshare=True)
    shares.create("urgent", "0.5", high=True, nodeSelector={"disk": "fast"})
    assert shares.until_placed("urgent")[0] == wanted


def test_dragon_31_a_restarted_operator_makes_room_for_one_that_waits(lab: Lab, shares: SharePods):
    lab.nodes.add(1, gpus=2)
    running = lab.start(kubeshare=True)
    lab.submit(tfjob("job1", workers=(1, 2, 2), gpus=1, grace_s=3600))
    lab.until_pods("job1", "job1-ps-0", "job1-worker-0", "job1-worker-1")
    lab.nodes.habits.on_stop = lambda _: None
    shares.create("urgent", "0.5", high=True)
    lab.until(lambda: lab.names("job1") == ["job1-ps-0", "job1-worker-0"], "a worker is told to go")
    running.restart()
    lab.nodes.let_go("job1-worker-1")
    shares.until_placed("urgent")
    shares.until_seen()
    assert lab.names("job1") == ["job1-ps-0", "job1-worker-0"]


def test_dragon_31_one_that_makes_no_sense_is_told_so_and_holds_nobody_up(lab: Lab, shares: SharePods):
    started(lab, gpus=1)
    shares.create("urgent", "1.5", high=True)
    lab.until(lambda: "InvalidSharePod" in lab.reasons("urgent"), "an event says so")
    lab.submit(tfjob("job1", workers=(1, 1, 1), ps=0, gpus=1))
    lab.until_pods("job1", "job1-worker-0")


def test_a_cluster_without_sharepods_is_looked_after_all_the_same(lab: Lab):
    uninstall(lab.plane)
    started(lab, gpus=1)
    lab.submit(tfjob("job1", workers=(1, 1, 1), ps=0, gpus=1))
    lab.until_pods("job1", "job1-worker-0")


def test_without_the_option_sharepods_are_left_alone_and_their_pods_count_like_anybodys(lab: Lab, shares: SharePods):
    (node,) = lab.nodes.add(1, gpus=2)
    lab.start()
    shares.create("one", "0.5", node=node, gpu_id="aaaaa")
    shares.realize("one")
    shares.create("urgent", "0.5", high=True)
    lab.submit(tfjob("whole", workers=(1, 2, 2), ps=0, gpus=1))
    lab.until_pods("whole", "whole-worker-0")
    shares.until_seen()
    assert lab.names("whole") == ["whole-worker-0"]
    assert shares.seat("urgent") == ("", "")


@pytest.mark.parametrize(
    ("spec", "status", "over", "problem"),
    [
        pytest.param(b"null", b"null", False, True, id="nothing"),
        pytest.param(b'{"containers": "many"}', b"{}", False, True, id="containers are no list"),
        pytest.param(b"{}", b'{"PodStatus": 7}', False, False, id="a status that is none"),
        pytest.param(b"{}", b'{"PodStatus": {"phase": "Failed"}}', True, False, id="failed"),
        pytest.param(b'{"containers": [{"resources": {"requests": {"cpu": "x"}}}]}', b"{}", False, True, id="amount"),
    ],
)
def test_whatever_is_written_into_a_sharepod_it_is_read(spec: bytes, status: bytes, over: bool, problem: bool):
    found = share_pod_of(SharePodObject(metadata=Meta(name="one"), spec=_raw(spec), status=_raw(status)))
    assert (found.over, bool(found.problem)) == (over, problem)


def _raw(text: bytes) -> Any:
    return msgspec.Raw(text)


def _one(lab: Lab, job: str) -> dict[str, Any]:
    return lab.until_pods(job, f"{job}-worker-0")
