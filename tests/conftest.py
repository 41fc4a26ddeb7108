"""What all tests rely on, whoever started them."""

import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.cluster.fixtures"]

# A shell that runs tests in the background lets them ignore SIGINT, and whatever they start would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine must fail nothing, and the same commit must not pass here and fail there.
settings.register_profile(
    "sterna",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="STERNA_REQUIRE" in os.environ,
    print_blob=True,
)
settings.load_profile("sterna")

_ON_REAL_NODES = ("tests/e2e/kubernetes/", "tests/cluster/test_real_nodes.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All tests that need real nodes go to one worker, and first, so that there is one such cluster; the others go to
    whoever is free. By name, since the marks of xdist's own `loadgroup` are lost under pytest 9.2.
    """
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class OneRealCluster(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "real nodes" if nodeid.startswith(_ON_REAL_NODES) else nodeid

    return OneRealCluster(config, log)
