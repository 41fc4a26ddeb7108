"""The API of `sterna up` under attack."""

import resource
import select
import socket
import threading

import pytest

from tests.attack.http_attacks import CROWD, GROWN_MIB_MAX, HttpAttacks
from tests.attack.http_corpus import MIB, Victim, crowd, send_all
from tests.attack.http_victims import QUICK, engine
from tests.waiting import until

FILES = 1024  # what a shell gives to a process
LOG_BYTES_MAX = 64 * 1024


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    with engine(tmp_path_factory.mktemp("engine")) as (api, _):
        yield api


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    with engine(tmp_path_factory.mktemp("quick"), limits=QUICK) as (api, _):
        yield api


class TestApi(HttpAttacks):
    @pytest.mark.parametrize("rounds", [20])
    def test_a_dripping_crowd_beyond_the_limit_of_files_keeps_nobody_out(self, tmp_path, rounds):
        """1,100 connections, each dripping and coming back when it is sent away; 1,024 files."""
        with (
            engine(tmp_path, files=FILES) as (api, door),
            api.unharmed(grown_mib_max=GROWN_MIB_MAX),
            crowd(api, CROWD, b"GET /v1/health HTTP/1.1\r\nX: ") as lines,
        ):
            over = threading.Event()
            attacker = threading.Thread(target=_drip_and_return, args=(api, lines, over))
            attacker.start()
            try:
                assert [api.ordinary() for _ in range(rounds)] == [200] * rounds
                assert [door.ordinary() for _ in range(rounds)] == [200] * rounds
                assert api.files() < FILES
            finally:
                over.set()
                attacker.join()
        assert (tmp_path / "log").stat().st_size < LOG_BYTES_MAX

    def test_a_process_without_a_file_to_spare_says_so_once_and_answers_when_it_has_one_again(self, tmp_path):
        """The files are taken by something else than connections; who comes meanwhile waits."""
        with engine(tmp_path, files=FILES) as (api, _):
            assert api.ordinary() == 200
            _set_files_max(api.popen.pid, 1)  # whatever is closed meanwhile leaves no room either
            line = api.connect()
            send_all(line, api.head + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}")
            log = tmp_path / "log"
            until(lambda: b"no file" in log.read_bytes(), "it says so")
            assert not select.select([line], [], [], 2.0)[0], "it tries again, in vain, and does not say so again"
            _set_files_max(api.popen.pid, FILES)
            assert line.recv(1 << 16).startswith(b"HTTP/1.1 4")
            line.close()
            assert api.ordinary() == 200
            assert log.read_bytes().count(b"no file") == 1
            assert log.stat().st_size < LOG_BYTES_MAX
            assert api.resident_bytes() < 400 * MIB


def _drip_and_return(victim: Victim, lines: list[socket.socket], over: threading.Event) -> None:
    while not over.is_set():
        for place, line in enumerate(lines):
            if over.is_set():
                return
            try:
                line.send(b"x")
            except OSError:
                line.close()
                lines[place] = again = victim.connect()
                send_all(again, b"GET /v1/health HTTP/1.1\r\nX: ")


def _set_files_max(pid: int, count: int) -> None:
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, hard))
