"""A warden runs for months: nothing may be left in it by the processes that came and went."""

import os

import pytest

from sterna.engines.local.launch.warden.client import WardenClient
from sterna.engines.local.launch.warden.values import Hook
from tests.engines.local.warden.keeping import Keeping, ended, eventually, gather

ROUNDS = 25
EACH = 20


@pytest.mark.slow
def test_five_hundred_starts_leave_no_descriptor_no_group_and_no_memory_behind(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        pid = (await client.list_all()).pid
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        sizes: list[int] = []
        for number in range(ROUNDS):
            names = [f"p-{number}-{one}" for one in range(EACH)]
            lines = ["echo hello; exit 0", "sleep 600 & exit 1", "exec sleep 600", "no-such-program-at-all"]
            for at, name in enumerate(names):
                await client.ports(name, 1)
                line = lines[at % 4]
                argv = ("no-such-program",) if line.startswith("no-such") else ("sh", "-c", line)
                await client.start(keeping.launch(name, *argv, memory_bytes=1 << 28, cpu_milli=1000))
            await client.run_hook(names[2], Hook("postStart", ("true",), 60))
            await gather(*(client.stop(name, grace_s=0) for name in names[2::4]))
            await gather(*(ended(client, name) for name in names))
            await client.forget(*names)
            sizes.append(_private_bytes(pid))
        await eventually(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= descriptors, "descriptors are left open")
        assert (await client.list_all()).processes == ()
        assert max(sizes[-5:]) - sizes[4] < 2**20  # the first rounds fill caches
        journal = keeping.home / "warden" / "journal"
        assert journal.stat().st_size < 2 * 2**20

    keeping.run(test)


def _private_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon:"))
