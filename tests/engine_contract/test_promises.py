"""What the loop may rely on, whatever the engine. Each promise is asked of every engine there is."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sterna.engines.loop import run_cycle
from sterna.journal.journal import NoJournal
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.plan import Action, Decision, Grow, Held, Shrink
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory
from sterna.model.why import KEPT, NEXT_IN_ORDER
from sterna.placement.packed import packed
from sterna.planner.decide import Settings, decide
from sterna.policies.registry import policy
from tests.engine_contract.worlds import GPUS, KINDS, World, world

engines = pytest.mark.parametrize("kind", KINDS)
contracts = pytest.mark.parametrize("survivors", [True, False], ids=["members come and go", "nobody survives"])


def ask(kind: str, story: Callable[[World], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with world(kind) as asked:
            await story(asked)

    asyncio.run(whole())


def places(*nodes: str) -> tuple[Worker, ...]:
    """Workers 0, 1, ... on these nodes, each with a card of its own."""
    cards = {node: iter(range(GPUS)) for node in nodes}
    return tuple(
        Worker(Role.WORKER, ordinal, NodeId(node), (DeviceId(str(next(cards[node]))),))
        for ordinal, node in enumerate(nodes)
    )


async def shown(asked: World, job_id: JobId) -> tuple[tuple[Worker, ...], tuple[Worker, ...]]:
    job = (await asked.engine.observe()).by_id[job_id]
    return job.workers, job.leaving


def nothing_is_overfull(view: Snapshot) -> bool:
    used = {node.id: 0 for node in view.nodes}
    for job in view.jobs:
        for worker in job.workers + job.leaving:
            used[worker.node] += job.spec.request.gpu_milli
    return all(used[node.id] <= node.allocatable.gpu_milli for node in view.nodes)


async def cycle(asked: World, name: str = "elastic-fifo") -> Decision:
    """One cycle of the real loop. A simulated world makes true at its end what was decided."""
    decision = await run_cycle(asked.engine, policy(name), packed, NoJournal(), Settings())
    await asked.apply([])
    return decision


@engines
def test_an_accepted_job_is_seen_waiting_and_time_and_revisions_only_rise(kind):
    async def story(asked: World) -> None:
        first = await asked.submit("a", at_least=1, at_most=1, survivors=False)
        second = await asked.submit("b", at_least=1, at_most=1, survivors=False)
        before, after = await asked.engine.observe(), await asked.engine.observe()
        assert [job.id for job in after.jobs] == [first, second]
        assert all(job.wants_workers and not job.workers for job in after.jobs)
        assert all(job.waiting_since_s == job.spec.submitted_s for job in after.jobs)
        assert after.now_s >= before.now_s
        assert after.revision > before.revision

    ask(kind, story)


@engines
@contracts
def test_what_is_taken_up_is_held_and_twice_is_once(kind, survivors):
    async def story(asked: World) -> None:
        job_id = await asked.submit("a", at_least=1, at_most=2, survivors=survivors)
        growth = Grow(job_id, places("node-1", "node-2"), NEXT_IN_ORDER)
        assert [outcome.held for outcome in await asked.apply([growth])] == [Held.DONE]
        assert [outcome.held for outcome in await asked.apply([growth])] == [Held.DONE]
        await asked.settle()
        job = (await asked.engine.observe()).by_id[job_id]
        assert (job.workers, job.leaving, job.waiting_since_s) == (growth.to, (), None)
        assert job.started_s is not None

    ask(kind, story)


@engines
@contracts
def test_what_is_let_go_of_takes_room_until_it_is_gone_and_twice_is_once(kind, survivors):
    async def story(asked: World) -> None:
        job_id = await asked.submit("a", at_least=1, at_most=2, survivors=survivors)
        both = places("node-1", "node-2")
        await asked.apply([Grow(job_id, both, NEXT_IN_ORDER)])
        await asked.settle()
        kept = both[:1] if survivors else ()
        shrink = Shrink(job_id, kept, KEPT)
        (outcome,) = await asked.apply([shrink])
        assert outcome.went_well
        workers, leaving = await shown(asked, job_id)
        assert workers == kept
        assert set(leaving) <= set(both) - set(kept)
        if outcome.held is Held.BEGUN:
            assert (await asked.apply([shrink]))[0].went_well
        await asked.settle()
        assert await shown(asked, job_id) == (kept, ())

    ask(kind, story)


@engines
def test_a_job_that_is_gone_makes_an_action_stale_and_nothing_worse(kind):
    async def story(asked: World) -> None:
        job_id = await asked.submit("a", at_least=1, at_most=1, survivors=False)
        await asked.finish(job_id)
        (outcome,) = await asked.apply([Grow(job_id, places("node-1"), NEXT_IN_ORDER)])
        assert outcome.held is Held.STALE
        assert (await asked.engine.observe()).jobs == ()

    ask(kind, story)


@engines
def test_what_a_policy_remembers_comes_with_every_later_snapshot(kind):
    async def story(asked: World) -> None:
        job_id = await asked.submit("a", at_least=1, at_most=1, survivors=False)
        view = await asked.engine.observe()
        memory = PolicyMemory({job_id: {"age": 2.5}}, {"turn": 7.0}, 3.0)
        decision = decide(view, policy("fifo"), packed)
        await asked.engine.remember(Decision(1, decision.target, decision.layout, (), memory, None))
        assert (await asked.engine.observe()).memory == memory
        await asked.reopen()
        assert (await asked.engine.observe()).memory == memory

    ask(kind, story)


@engines
def test_service_is_counted_while_workers_are_held(kind):
    async def story(asked: World) -> None:
        job_id = await asked.submit("a", at_least=1, at_most=2, survivors=False)
        await asked.apply([Grow(job_id, places("node-1", "node-1"), NEXT_IN_ORDER)])
        await asked.settle()
        before = await asked.engine.observe()
        await asyncio.sleep(0.05)
        await asked.settle()
        after = await asked.engine.observe()
        elapsed_s = after.now_s - before.now_s
        gained = after.by_id[job_id].attained_gpu_s(after.now_s) - before.by_id[job_id].attained_gpu_s(before.now_s)
        assert elapsed_s > 0
        assert gained == pytest.approx(2 * elapsed_s, abs=1e-3)

    ask(kind, story)


@engines
@contracts
def test_cycles_come_to_rest_and_no_node_is_ever_overfull(kind, survivors):
    async def story(asked: World) -> None:
        for name, most in (("a", 4), ("b", 2), ("c", 1)):
            await asked.submit(name, at_least=1, at_most=most, survivors=survivors)
            for _ in range(6):
                await cycle(asked)
                assert nothing_is_overfull(await asked.engine.observe())
                await asked.settle()
                assert nothing_is_overfull(await asked.engine.observe())
        assert not (await cycle(asked)).changes_something
        view = await asked.engine.observe()
        assert sorted(job.size for job in view.jobs) == [1, 1, 2]  # all four cards are used

    ask(kind, story)


@engines
@contracts
def test_a_scheduler_that_crashes_in_the_middle_of_a_plan_goes_on_with_what_is(kind, survivors):
    async def story(asked: World) -> None:
        first = await asked.submit("a", at_least=1, at_most=4, survivors=survivors)
        await cycle(asked)
        await asked.settle()
        assert (await asked.engine.observe()).by_id[first].size == 4
        await asked.submit("b", at_least=2, at_most=2, survivors=survivors)
        view = await asked.engine.observe()
        decision = decide(view, policy("elastic-fifo"), packed)
        await asked.engine.remember(decision)
        await asked.apply(decision.steps[0].actions)  # and the rest of the plan is never carried out
        await asked.reopen()
        for _ in range(6):
            assert nothing_is_overfull(await asked.engine.observe())
            await cycle(asked)
            await asked.settle()
        sizes = {job.id: job.size for job in (await asked.engine.observe()).jobs}
        assert sizes == {"default/a": 2, "default/b": 2}

    ask(kind, story)


@engines
def test_a_decision_that_moves_a_gang_moves_it_as_a_whole(kind):
    async def story(asked: World) -> None:
        job_id = await asked.submit("a", at_least=2, at_most=2, survivors=False)
        here, there = places("node-1", "node-1"), places("node-2", "node-2")
        await asked.apply([Grow(job_id, here, NEXT_IN_ORDER)])
        await asked.settle()
        actions: list[Action] = [Shrink(job_id, (), KEPT), Grow(job_id, there, KEPT)]
        for action in actions:
            assert (await asked.apply([action]))[0].went_well
        assert nothing_is_overfull(await asked.engine.observe())
        await asked.settle()
        assert await shown(asked, job_id) == (there, ())

    ask(kind, story)
