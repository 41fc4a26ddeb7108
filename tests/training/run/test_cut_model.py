"""The agreement on a common step, over every interleaving of two and three ranks.

Each rank is a small machine whose moves are the single reads and writes that `Chief` and `Member` make; the rules are
those of `training.ranks.cut` themselves. A step may be collective (nobody completes it before everybody has begun it)
or not, so that jobs in lock-step, jobs that synchronise every k-th step and jobs that never do are all covered.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from sterna.training.ranks.cut import NO_CUT, Cut, Kind, RankPost, State, opened, posted, settled


class Rank(NamedTuple):
    at: str  # which move comes next
    boundary: int = 0
    read: Cut = NO_CUT  # as this rank last saw it
    over: int = 0
    seen: tuple[RankPost, ...] = ()  # chief: the posts read so far in this round of looking
    took: tuple[Cut, ...] = ()


class World(NamedTuple):
    ranks: tuple[Rank, ...]
    cut: Cut  # the board
    posts: tuple[RankPost, ...]
    ordered_at: int | None  # where the chief was when the engine gave its order; None: not yet


class Job(NamedTuple):
    ranks: int
    steps: int
    collective: Callable[[int], bool]
    cuts: int = 1  # how often everybody shall save; with the last one they stop
    order_after: int = 0  # the order comes at any moment from this boundary of the chief on


def moves(job: Job, world: World) -> Iterator[World]:
    """Every world that is one move away."""
    at = world.ranks[0].boundary
    if world.ordered_at is None and at >= job.order_after:
        yield world._replace(ordered_at=at)
    yield from chief_moves(job, world)
    for rank in range(1, job.ranks):
        yield from member_moves(job, world, rank)


def chief_moves(job: Job, world: World) -> Iterator[World]:
    chief = world.ranks[0]
    match chief.at:
        case "boundary":
            wants = world.ordered_at is not None and len(chief.took) < job.cuts
            if world.cut.state is State.OPEN or wants:
                yield with_rank(world, 0, chief._replace(at="look", seen=()))
            else:
                yield with_rank(world, 0, chief._replace(at=onward(job, chief)))
        case "look":  # one post at a time: the others may move in between
            seen = (*chief.seen, world.posts[len(chief.seen) + 1])
            yield with_rank(world, 0, chief._replace(seen=seen, at="decide" if len(seen) == job.ranks - 1 else "look"))
        case "decide":
            cut = world.cut
            if cut.state is not State.OPEN:
                if any(post.arrived for post in chief.seen):
                    yield with_rank(world, 0, chief._replace(at=onward(job, chief)))
                    return
                cut = opened(cut, Kind.STOP, boundary=chief.boundary, others=chief.seen)
            elif cut.step <= chief.boundary:
                cut = settled(cut, chief.seen)
            if cut.state is State.FINAL:
                after = taking(job, chief, cut)
            else:
                after = chief._replace(at="look" if cut.step <= chief.boundary else onward(job, chief), seen=())
            yield with_rank(world._replace(cut=cut), 0, after)
        case _:
            yield from training_moves(job, world, 0)


def member_moves(job: Job, world: World, rank: int) -> Iterator[World]:
    me, post = world.ranks[rank], world.posts[rank]
    match me.at:
        case "boundary":
            yield with_seat(world, rank, me._replace(at="read"), RankPost(me.boundary, post.knows))
        case "read":
            cut = world.cut
            if cut.id == me.over:
                yield with_rank(world, rank, me._replace(at=onward(job, me)))
            elif cut.state is State.OPEN:
                yield with_rank(world, rank, me._replace(at="sit", read=cut))
            else:
                taken = post.arrived and post.knows == cut.id and cut.step == me.boundary
                after = (taking(job, me, cut) if taken else me._replace(at=onward(job, me)))._replace(over=cut.id)
                yield with_seat(world, rank, after, RankPost(me.boundary, cut.id))
        case "sit":
            at = "read" if me.boundary >= me.read.step else onward(job, me)
            yield with_seat(world, rank, me._replace(at=at, read=NO_CUT), posted(post, me.read))
        case _:
            yield from training_moves(job, world, rank)


def training_moves(job: Job, world: World, rank: int) -> Iterator[World]:
    me = world.ranks[rank]
    if me.at == "train":
        yield with_rank(world, rank, me._replace(at="inside"))
    elif me.at == "inside":
        number = me.boundary + 1
        others_began = all(each.boundary >= number or began(each, number) for each in world.ranks)
        if not job.collective(number) or others_began:
            yield with_rank(world, rank, me._replace(at="boundary", boundary=number))


def began(rank: Rank, number: int) -> bool:
    return rank.at == "inside" and rank.boundary + 1 == number


def taking(job: Job, rank: Rank, cut: Cut) -> Rank:
    took = (*rank.took, cut)
    return rank._replace(took=took, at="end" if len(took) == job.cuts else onward(job, rank), seen=())


def onward(job: Job, rank: Rank) -> str:
    return "train" if rank.boundary < job.steps else "end"


def with_rank(world: World, rank: int, after: Rank) -> World:
    return world._replace(ranks=(*world.ranks[:rank], after, *world.ranks[rank + 1 :]))


def with_seat(world: World, rank: int, after: Rank, post: RankPost) -> World:
    return with_rank(world, rank, after)._replace(posts=(*world.posts[:rank], post, *world.posts[rank + 1 :]))


def every_world(job: Job) -> dict[World, list[World]]:
    """All that can be reached, each with what comes next."""
    start = World((Rank("boundary"),) * job.ranks, NO_CUT, (RankPost(0, 0),) * job.ranks, ordered_at=None)
    found: dict[World, list[World]] = {}
    unseen = [start]
    while unseen:
        world = unseen.pop()
        if world not in found:
            found[world] = [after for after in moves(job, world) if after != world]
            unseen.extend(found[world])
    return found


def over(world: World) -> bool:
    return all(rank.at == "end" for rank in world.ranks)


def never(_: int) -> bool:
    return False


def always(_: int) -> bool:
    return True


def every_second(number: int) -> bool:
    return number % 2 == 0


def every_third(number: int) -> bool:
    return number % 3 == 0


JOBS = [
    pytest.param(Job(2, 4, always), id="two in lock-step"),
    pytest.param(Job(2, 6, every_third), id="two that synchronise every third step"),
    pytest.param(Job(2, 4, never), id="two that never wait for each other"),
    pytest.param(Job(2, 4, always, cuts=2), id="two in lock-step that save and later stop"),
    pytest.param(Job(2, 5, every_second, cuts=2), id="two that synchronise every second step, save and later stop"),
    pytest.param(Job(2, 3, never, cuts=3), id="two that never wait for each other and save three times"),
    pytest.param(Job(3, 4, always), id="three in lock-step"),
    pytest.param(Job(3, 3, always, cuts=2), id="three in lock-step that save and later stop"),
    pytest.param(Job(3, 4, every_second, order_after=1), id="three that synchronise every second step"),
    pytest.param(Job(3, 2, never), id="three that never wait for each other"),
]


@pytest.mark.parametrize("job", JOBS)
def test_voda_44_all_ranks_save_at_one_step_and_nobody_waits_for_ever_whatever_the_interleaving(job):
    worlds = every_world(job)
    for world in worlds:
        assert_one_step(job, world)
    assert_a_way_to_the_end(worlds)


def assert_one_step(job: Job, world: World) -> None:
    longest = max((rank.took for rank in world.ranks), key=len)
    for rank in world.ranks:
        assert rank.took == longest[: len(rank.took)], world
        assert len(rank.took) < job.cuts or rank.took[-1].step == rank.boundary, world
    if over(world):  # nobody is left out: all save, or the training ended before
        assert {rank.took for rank in world.ranks} == {longest}, world
        assert len(longest) == job.cuts or all(rank.boundary == job.steps for rank in world.ranks), world


def assert_a_way_to_the_end(worlds: dict[World, list[World]]) -> None:
    """From everywhere: no deadlock, and no loop without a way out."""
    came_from: dict[World, list[World]] = {}
    for world, afters in worlds.items():
        for after in afters:
            came_from.setdefault(after, []).append(world)
    fine = {world for world in worlds if over(world)}
    unseen = list(fine)
    while unseen:
        for before in came_from.get(unseen.pop(), ()):
            if before not in fine:
                fine.add(before)
                unseen.append(before)
    stuck = worlds.keys() - fine
    assert not stuck, f"{len(stuck)} of {len(worlds)}, such as {next(iter(stuck))}"


@pytest.mark.parametrize("ranks", [2, 3])
def test_in_lock_step_a_stop_comes_within_three_steps_of_the_order(ranks):
    """One is under way, one is where everybody hears of it, and one more if a rank was just about to read."""
    waited = {
        world.ranks[0].took[0].step - world.ordered_at
        for world in every_world(Job(ranks, 5 if ranks == 2 else 4, always))
        if world.ordered_at is not None and world.ranks[0].took
    }
    assert waited
    assert max(waited) <= 3


def test_the_model_does_reach_the_interesting_cases():
    """A cut that was moved, ranks that arrived early, and an end without a cut: or the above shows nothing."""
    worlds = every_world(Job(2, 6, every_third)).keys()
    assert any(over(world) and not world.ranks[0].took for world in worlds)
    assert any(over(world) and world.ranks[0].took for world in worlds)
    assert any(world.posts[1].arrived and world.cut.step > world.posts[1].boundary for world in worlds)
