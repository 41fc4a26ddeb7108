"""The lab, for tests of this directory."""

from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.fixtures import install_crds
from tests.engines.kubernetes.operator.lab import Lab


@pytest.fixture(scope="session")
def control_plane_with_kinds(control_plane: ControlPlane) -> ControlPlane:
    install_crds(control_plane)
    return control_plane


@pytest.fixture
def lab(control_plane_with_kinds: ControlPlane, namespace: str, fake_nodes: FakeNodes) -> Iterator[Lab]:
    """No nodes and no operator yet."""
    lab = Lab(control_plane_with_kinds, namespace, fake_nodes)
    yield lab
    lab.close()
