"""Random lives: starts, stops, broken connections and killed wardens in any order, against what must hold always."""

import asyncio
import random
from pathlib import Path

import pytest

from sterna.engines.local.launch.warden.client import WardenClient
from sterna.engines.local.launch.warden.values import ProcessPhase, ProcessState
from sterna.model.errors import SternaError
from tests.engines.local.warden.keeping import Keeping, ended, gather, kill_9, marked_in, quoted
from tests.needs import seeds

DEEDS = 60


class Life:
    """One client and its chance. Each process writes its id when it begins, and ends with a code its id tells."""

    def __init__(self, keeping: Keeping, client: WardenClient, seed: int) -> None:
        self.chance = random.Random(seed)
        self.keeping = keeping
        self.client = client
        self.ran = keeping.home / "ran"
        self.names: list[str] = []
        self.forgotten: set[str] = set()

    async def start(self) -> None:
        name = (
            f"p-{len(self.names)}" if self.chance.random() < 0.7 or not self.names else self.chance.choice(self.names)
        )
        if name in self.forgotten:
            return  # an engine that forgot a process does not start it again
        self.names += [name] if name not in self.names else []
        code = int(name[2:]) % 200 + 1
        rest = self.chance.choice(["", "sleep 0.05;", "setsid sleep 600 & sleep 0.02;", "trap '' TERM; sleep 600;"])
        line = f"echo {name} >> {quoted(self.ran)}; {rest} exit {code}"
        await gather(*(self.client.start(self.keeping.launch(name, "sh", "-c", line)) for _ in range(2)))

    async def stop(self) -> None:
        await self.client.stop(self.chance.choice(self.names), grace_s=self.chance.choice([0, 0.05]))

    async def forget(self) -> None:
        over = [state.id for state in (await self.client.list_all()).processes if not state.alive]
        self.forgotten |= set(over)
        await self.client.forget(*over)

    async def lose_the_connection(self) -> None:
        if self.client._line is not None:
            self.client._line.drop()

    async def kill_the_warden(self) -> None:
        kill_9((await self.client.list_all()).pid)
        await self.client.list_all()
        assert marked_in(self.keeping.home) == []

    async def wait(self) -> None:
        await asyncio.sleep(self.chance.random() * 0.05)

    async def do_something(self) -> None:
        deeds = [self.start] * 6 + [self.stop] * 2 + [self.forget, self.lose_the_connection, self.wait, self.wait]
        deed = self.chance.choice(deeds if self.chance.random() < 0.95 else [self.kill_the_warden])
        try:
            await deed()
        except (SternaError, IndexError):  # nobody of that name yet, or no longer: the engine would look again
            return


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4))
def test_no_id_runs_twice_no_end_is_wrong_and_none_that_was_told_is_lost(either_keeping: Keeping, seed: int) -> None:
    keeping = either_keeping

    async def test(client: WardenClient) -> None:
        life = Life(keeping, client, seed)
        for _ in range(DEEDS):
            await life.do_something()
        await gather(*(client.stop(state.id, grace_s=0) for state in (await client.list_all()).processes))
        for state in (await client.list_all()).processes:
            await ended(client, state.id)
        final = {state.id: state for state in (await client.list_all()).processes}
        assert_each_ran_at_most_once(life.ran, f"seed {seed}")
        assert sorted(life.names) == sorted({*final, *life.forgotten} & set(life.names)), f"seed {seed}"
        for state in final.values():
            assert_ended_as_it_should(state, f"seed {seed}")
        for told in keeping.heard:  # by push, perhaps under a warden that is long dead
            assert told.id in life.forgotten or final[told.id] == told, f"seed {seed}"

    keeping.run(test)


def assert_each_ran_at_most_once(ran: Path, where: str) -> None:
    names = ran.read_text().split() if ran.exists() else []
    assert len(names) == len(set(names)), where


def assert_ended_as_it_should(state: ProcessState, where: str) -> None:
    if state.phase is ProcessPhase.LOST:
        return
    assert state.phase is ProcessPhase.EXITED, (state, where)
    assert state.exited is not None
    own_code = state.exited.code == int(state.id[2:]) % 200 + 1
    assert own_code or (state.exited.stopped and state.exited.signal in (9, 15)), (state, where)
