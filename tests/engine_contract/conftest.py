"""What a world needs that takes too long to start for every test."""

import pytest

from tests.cluster.fixtures import install_crds
from tests.engine_contract.worlds import KubernetesWorld


@pytest.fixture(autouse=True)
def cluster_for_those_who_need_it(request: pytest.FixtureRequest) -> None:
    kind = request.getfixturevalue("kind") if "kind" in request.fixturenames else ""
    if kind == "kubernetes" and not hasattr(KubernetesWorld, "control_plane"):
        KubernetesWorld.control_plane = request.getfixturevalue("control_plane")
        install_crds(KubernetesWorld.control_plane)
