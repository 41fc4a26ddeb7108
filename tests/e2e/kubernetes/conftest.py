"""A real cluster that knows our kinds, and a stage on it for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.fixtures import install_crds
from tests.cluster.real_nodes import RealCluster
from tests.e2e.kubernetes.stage import Stage
from tests.kubernetes.rights import grant_shipped_rights


@pytest.fixture(scope="session")
def equipped(real_cluster: RealCluster) -> RealCluster:
    install_crds(real_cluster.control_plane)
    grant_shipped_rights(real_cluster.control_plane)
    return real_cluster


@pytest.fixture
def stage(equipped: RealCluster, real_namespace: str, tmp_path: Path) -> Iterator[Stage]:
    found = Stage(equipped, real_namespace, tmp_path)
    yield found
    found.close()
