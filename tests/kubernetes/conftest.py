"""A real API server that knows our kinds."""

from collections.abc import Iterator
from functools import partial

import pytest

from sterna.wire.crds import definitions
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.fixtures import install_crds
from tests.cluster.requests import until
from tests.kubernetes.lab import Lab
from tests.kubernetes.rights import grant_shipped_rights


@pytest.fixture(scope="session")
def kinds(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with deploy/crds, once kubectl can be told of them."""
    install_crds(control_plane)
    until(partial(_published, control_plane), "kubectl is told of all kinds", every_s=0.5)
    return control_plane


def _published(plane: ControlPlane) -> bool:
    """What kubectl checks a manifest by; it comes a little after the kinds are served."""
    known = plane.api().get("/openapi/v2")["definitions"]
    names = {
        f"{'.'.join(reversed(spec['group'].split('.')))}.{version['name']}.{spec['names']['kind']}"
        for spec in (definition["spec"] for definition in definitions())
        for version in spec["versions"]
    }
    return all("spec" in known.get(name, {}).get("properties", {}) for name in names)


@pytest.fixture(scope="session")
def granted(kinds: ControlPlane) -> ControlPlane:
    """The user sterna has the rights that the shipped manifest gives the operator, and no others."""
    grant_shipped_rights(kinds)
    return kinds


@pytest.fixture
def lab(granted: ControlPlane, fake_nodes: FakeNodes, namespace: str) -> Iterator[Lab]:
    """No nodes and no operator to begin with: `lab.nodes.add(3, gpus=2)`, `lab.start()`."""
    found = Lab(granted, fake_nodes, namespace)
    yield found
    found.close()
