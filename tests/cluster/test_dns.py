"""Which addresses a name of the cluster stands for."""

import pytest

from tests.cluster.dns import Objects, addresses_of

SERVICES: Objects = {
    ("a", "headless"): {"spec": {"clusterIP": "None"}},
    ("a", "early"): {"spec": {"clusterIP": "None", "publishNotReadyAddresses": True}},
    ("a", "virtual"): {"spec": {"clusterIP": "10.96.0.7"}},
    ("b", "empty"): {"spec": {"clusterIP": "None"}},
}
BEHIND = {
    "subsets": [
        {"addresses": [{"ip": "10.0.0.1", "hostname": "one"}], "notReadyAddresses": [{"ip": "10.0.0.2"}]},
        {"addresses": [{"ip": "10.0.0.3"}]},
    ]
}
ENDPOINTS: Objects = {("a", "headless"): BEHIND, ("a", "early"): BEHIND, ("a", "virtual"): BEHIND}


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        pytest.param("headless.a.svc.cluster.local", ["10.0.0.1", "10.0.0.3"], id="its ready pods"),
        pytest.param("HEADLESS.a.svc.cluster.local.", ["10.0.0.1", "10.0.0.3"], id="in capitals, with the last dot"),
        pytest.param("early.a.svc.cluster.local", ["10.0.0.1", "10.0.0.2", "10.0.0.3"], id="those not ready as well"),
        pytest.param("one.headless.a.svc.cluster.local", ["10.0.0.1"], id="a pod by its hostname"),
        pytest.param("two.headless.a.svc.cluster.local", None, id="no pod of that hostname"),
        pytest.param("virtual.a.svc.cluster.local", ["10.96.0.7"], id="an address of its own"),
        pytest.param("empty.b.svc.cluster.local", [], id="a service without pods is a name all the same"),
        pytest.param("headless.b.svc.cluster.local", None, id="of another namespace"),
        pytest.param("headless.a.svc", None, id="not in the zone: the resolver will try again"),
        pytest.param("example.org", None, id="nothing of ours"),
    ],
)
def test_a_name_stands_for(name: str, addresses: list[str] | None):
    assert addresses_of(name, SERVICES, ENDPOINTS) == addresses
