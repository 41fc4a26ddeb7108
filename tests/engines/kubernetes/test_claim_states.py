"""What a claim means for the pods that mount it, from the objects as the API server has them."""

from typing import Any

import msgspec
import pytest

from sterna.engines.kubernetes.apiserver.volume_objects import ClaimObject, StorageClassObject, VolumeObject
from sterna.engines.kubernetes.world.claim_states import claim_state
from sterna.model.node_affinity import matches

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def claim(*, annotations: dict[str, str] | None = None, phase: str = "Pending", **spec: Any) -> ClaimObject:
    body = {"metadata": {"name": "data", "annotations": annotations}, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(body, ClaimObject)


def volume(labels: dict[str, str] | None = None, *terms: dict[str, Any]) -> VolumeObject:
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}} if terms else {}
    return msgspec.convert({"metadata": {"labels": labels}, "spec": spec}, VolumeObject)


def storage(mode: str | None) -> StorageClassObject:
    return msgspec.convert({"provisioner": "disks", "volumeBindingMode": mode}, StorageClassObject)


@pytest.mark.parametrize(
    ("found", "its_volume", "its_class", "words"),
    [
        pytest.param(None, None, None, "is not there", id="no such claim"),
        pytest.param(claim(phase="Lost", volumeName="v"), volume(), None, "has lost its volume", id="its volume went"),
        pytest.param(
            claim(annotations=BOUND, volumeName="v"), None, None, "the volume v, which is not there", id="bound to none"
        ),
        pytest.param(claim(volumeName="v"), volume(), None, "is not bound", id="named, and the binding is under way"),
        pytest.param(claim(), None, None, "is not bound", id="no class at all"),
        pytest.param(claim(storageClassName="c"), None, storage("Immediate"), "is not bound", id="made by itself"),
        pytest.param(
            claim(storageClassName="c"),
            None,
            storage("WaitForFirstConsumer"),
            "first consumer",
            id="made for a pod, and no node is named",
        ),
        pytest.param(
            claim(annotations={"volume.kubernetes.io/selected-node": "n-7"}, storageClassName="c"),
            None,
            storage("WaitForFirstConsumer"),
            "for node n-7",
            id="made for a pod on the node that is named",
        ),
        pytest.param(claim(annotations=BOUND, volumeName="v"), volume(), None, "", id="bound"),
    ],
)
def test_what_a_claim_lacks(found, its_volume, its_class, words):
    problem = claim_state("data", found, its_volume, its_class).problem
    assert words in problem
    assert bool(words) == bool(problem)


@pytest.mark.parametrize(
    ("labels", "node", "expected"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="the same zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, False, id="another zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, True, id="one of several zones"),
        pytest.param({ZONE: "a"}, {}, True, id="a node that has no label of place at all"),
        pytest.param({ZONE: "a"}, {REGION: "r"}, False, id="a node that tells its region only"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False, id="both must be right"),
        pytest.param({OLD_ZONE: "a"}, {ZONE: "a"}, True, id="an old label on the volume, a new one on the node"),
        pytest.param({OLD_ZONE: "a"}, {OLD_ZONE: "b", ZONE: "a"}, False, id="the old one goes first where it is"),
        pytest.param({ZONE: "a__"}, {ZONE: "b"}, True, id="a label that cannot be read is passed over"),
        pytest.param({"team": "x"}, {ZONE: "b"}, True, id="other labels say nothing"),
    ],
)
def test_labels_of_a_volume_say_where_it_can_be(labels, node, expected):
    terms = claim_state("data", claim(annotations=BOUND, volumeName="v"), volume(labels), None).terms
    assert (not terms or any(matches(term, "n", node) for term in terms)) is expected


def test_node_affinity_of_a_volume_holds_beside_its_labels():
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    both = claim_state("data", claim(annotations=BOUND, volumeName="v"), volume({ZONE: "a"}, here), None).terms
    found = {(name, zone): any(matches(term, name, {ZONE: zone}) for term in both) for name in "nm" for zone in "ab"}
    assert found == {("n", "a"): True, ("n", "b"): False, ("m", "a"): False, ("m", "b"): False}


def test_an_operator_of_a_later_kubernetes_matches_nothing():
    odd = {"matchExpressions": [{"key": ZONE, "operator": "Near", "values": ["a"]}]}
    (term,) = claim_state("data", claim(annotations=BOUND, volumeName="v"), volume(None, odd), None).terms
    assert not matches(term, "n", {ZONE: "a"})
