"""`sterna monitor` under attack."""

import pytest

from tests.attack.http_attacks import CROWD, GROWN_MIB_MAX, HttpAttacks
from tests.attack.http_corpus import Victim, crowd
from tests.attack.http_victims import QUICK, asked, monitor


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with monitor(tmp_path_factory.mktemp("monitor")) as started:
        yield started


@pytest.fixture(scope="module")
def victim(running):
    return running[0]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    with monitor(tmp_path_factory.mktemp("quick"), limits=QUICK) as (victim, _):
        yield victim


class TestMonitor(HttpAttacks):
    def test_probes_are_answered_on_their_own_port_whatever_goes_on_at_the_other(self, running):
        victim, probes = running
        with victim.unharmed(grown_mib_max=GROWN_MIB_MAX), crowd(victim, CROWD):
            assert [asked(probes, "GET", path, None) for path in ("/healthz", "/readyz")] == [200, 200]
        assert asked(victim.port, "GET", "/healthz", None) == 401  # nothing is said there without a token

    @pytest.mark.parametrize("begin", [b"", b"GET /healthz HTTP/1.1\r\nX: "], ids=["silent", "in the middle of a head"])
    def test_an_idle_crowd_at_the_port_of_probes_keeps_no_probe_out(self, running, begin):
        victim, probes = running
        there = Victim(victim.popen, probes, "/healthz", "", lambda: asked(probes, "GET", "/healthz", None))
        with there.unharmed(grown_mib_max=GROWN_MIB_MAX), crowd(there, CROWD, begin):
            assert [there.ordinary() for _ in range(20)] == [200] * 20
            assert there.files() < CROWD / 2, "most of them were sent away"

    def test_few_files_are_enough(self, tmp_path):
        """A process that may hold 128 files serves on while a thousand connections are open."""
        with (
            monitor(tmp_path, files=128) as (victim, probes),
            victim.unharmed(grown_mib_max=GROWN_MIB_MAX),
            crowd(victim, CROWD),
        ):
            assert asked(probes, "GET", "/healthz", None) == 200
            assert victim.ordinary() == 200
            assert victim.files() < 128
