"""A model of hook, trainer and disk, for walking through every order in which they can act and die.

The rules are the product's own (`sterna.training.migrator.signal_protocol`): what is modelled is only who reads and
writes when. Reading a file, carrying out one effect, training a step, being killed: each is one move, and between any
two of them anybody else may move.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from sterna.training.migrator import signal_protocol
from sterna.training.migrator.signal_protocol import (
    Announce,
    Answer,
    Ask,
    Effect,
    Generation,
    Note,
    Publish,
    Request,
    Say,
    SetAside,
    TrainerState,
    Wish,
    Word,
)

RULES = SimpleNamespace(
    start_from=signal_protocol.start_from,
    claim=signal_protocol.claim,
    wish=signal_protocol.wish,
    answer=signal_protocol.answer,
    publish=signal_protocol.publish,
    acknowledge=signal_protocol.acknowledge,
    end=signal_protocol.end,
    ask=signal_protocol.ask,
    answer_to=signal_protocol.answer_to,
)


@dataclass(frozen=True, slots=True)
class Bounds:
    launches: int = 3
    steps: int = 2  # of one launch
    saves: int = 2  # of one launch
    requests: int = 2


@dataclass(frozen=True, slots=True)
class Disk:
    word: str | None = None
    state: TrainerState | None = None
    request: Request | None = None
    listed: tuple[Generation, ...] = ()
    checkpoint: Generation | None = None
    previous: Generation | None = None
    aside: Generation | str | None = None  # "torn": half of one

    def complete(self) -> tuple[Generation, ...]:
        found = (self.checkpoint, self.previous)
        return tuple(one for one in found if one is not None and one in self.listed)

    def after(self, effect: Effect) -> "Disk":
        match effect:
            case Say(word):
                return replace(self, word=str(word))
            case Note(state):
                return replace(self, state=state)
            case Ask(request):
                return replace(self, request=request)
            case Announce(generations):
                return replace(self, listed=generations)
            case SetAside():
                return self if self.checkpoint is None else replace(self, checkpoint=None, previous=self.checkpoint)
            case Publish():
                assert isinstance(self.aside, Generation), "half a file was published"
                return replace(self, checkpoint=self.aside, aside=None)


@dataclass(frozen=True, slots=True)
class Trainer:
    """`todo` is carried out one by one; what was read so far lies in `read`."""

    doing: str = "gone"  # gone, claim, load, train, poll, save
    launch: int = 0
    read: tuple[Any, ...] = ()
    todo: tuple[Effect, ...] = ()
    then: str = ""
    state: TrainerState | None = None
    start: Generation | None = None
    restored: bool = False
    step: int = 0
    trained: int = 0
    saves: int = 0
    wanted: bool = False
    request: Request | None = None
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Hook:
    doing: str = "none"  # none, ask, wait, done
    asked: int = 0
    request: Request | None = None
    todo: tuple[Effect, ...] = ()
    step: int = 0  # what must be on disk for the answer "saved" to be true


@dataclass(frozen=True, slots=True)
class World:
    disk: Disk = Disk()
    trainer: Trainer = Trainer()
    hook: Hook = Hook()
    durable: int | None = None  # the furthest step that was ever published and that nobody has declared over


class Lost(AssertionError):
    """A promise is broken; the message says which, and how it came to that."""


def explore(bounds: Bounds, rules: SimpleNamespace = RULES) -> int:
    """Walk through everything that can happen and check what must hold. Answers how many worlds there are."""
    first = World()
    came_from: dict[World, tuple[World, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        world = queue.popleft()
        try:
            check(world, rules)
            following = list(moves(world, bounds, rules))
        except AssertionError as broken:
            raise Lost(f"{broken}\n" + "\n".join(_story(world, came_from))) from broken
        for what, after in following:
            if after not in came_from:
                came_from[after] = (world, what)
                queue.append(after)
    return len(came_from)


def check(world: World, rules: SimpleNamespace) -> None:
    """What must hold in every world."""
    if world.durable is not None:
        furthest = max((one.step for one in world.disk.complete()), default=-1)
        assert furthest >= world.durable, f"step {world.durable} was on disk and is not any more"
    if world.hook.doing == "wait" and world.trainer.doing != "gone":
        assert _answered_in_the_end(world, rules), "the hook waits for ever although the trainer lives"


def moves(world: World, bounds: Bounds, rules: SimpleNamespace) -> Iterator[tuple[str, World]]:
    yield from _trainer_moves(world, bounds, rules)
    yield from _hook_moves(world, bounds, rules)


def _trainer_moves(world: World, bounds: Bounds, rules: SimpleNamespace) -> Iterator[tuple[str, World]]:
    trainer = world.trainer
    if trainer.doing == "gone":
        if trainer.launch < bounds.launches:
            launched = Trainer(doing="claim", launch=trainer.launch + 1)
            yield "launch", replace(world, trainer=launched, disk=replace(world.disk, aside=None))
        return
    yield "kill -9", replace(world, trainer=Trainer(launch=trainer.launch))
    if trainer.todo:
        yield f"trainer: {trainer.todo[0]}", _carry_out_next(world)
    elif trainer.doing in ("claim", "poll"):
        yield f"trainer reads ({trainer.doing})", _read_next(world, rules)
    elif trainer.doing == "load":
        assert trainer.start is not None
        loaded = replace(trainer, step=trainer.start.step, restored=True, then="train")
        yield "load", replace(world, trainer=replace(loaded, todo=rules.acknowledge(trainer.state)))
        yield "poll", replace(world, trainer=replace(trainer, doing="poll", read=()))
        if trainer.wanted:  # a listener that saves by itself does not wait for the program to load first
            yield "save", replace(world, trainer=replace(trainer, doing="save", saves=trainer.saves + 1))
    elif trainer.doing == "save":
        yield from _save_moves(world, bounds, rules)
    elif trainer.doing == "train":
        if trainer.trained < bounds.steps:
            yield "step", replace(world, trainer=replace(trainer, step=trainer.step + 1, trained=trainer.trained + 1))
        if not trainer.wanted:
            yield "poll", replace(world, trainer=replace(trainer, doing="poll", read=()))
        if trainer.saves < bounds.saves:  # asked for, or periodic
            yield "save", replace(world, trainer=replace(trainer, doing="save", saves=trainer.saves + 1))
        yield "end", replace(world, trainer=replace(trainer, todo=rules.end(trainer.state), ends=True))


def _save_moves(world: World, bounds: Bounds, rules: SimpleNamespace) -> Iterator[tuple[str, World]]:
    trainer, disk = world.trainer, world.disk
    assert trainer.state is not None
    if disk.aside is None:
        yield "half is written", replace(world, disk=replace(disk, aside="torn"))
        return
    number = 1 + max((one.number for one in disk.listed), default=0)
    new = Generation(
        number=number, digest=f"{trainer.launch}-{number}-{trainer.step}", bytes=0,
        lineage=trainer.state.lineage, step=trainer.step,
    )  # fmt: skip
    todo = rules.publish(trainer.state, new, on_disk=disk.complete(), damaged=False, request=trainer.request)
    served = replace(trainer, todo=todo, then="train", wanted=False, request=None, restored=True)
    yield "all is written", replace(world, trainer=served, disk=replace(disk, aside=new))


def _carry_out_next(world: World) -> World:
    trainer = world.trainer
    effect, left = trainer.todo[0], trainer.todo[1:]
    disk, durable = world.disk.after(effect), world.durable
    if isinstance(effect, Publish):
        assert disk.checkpoint is not None
        durable = max(durable or 0, disk.checkpoint.step)
    trainer = replace(trainer, todo=left, state=effect.state if isinstance(effect, Note) else trainer.state)
    if not left:
        trainer = replace(trainer, doing=trainer.then or trainer.doing, then="")
        if trainer.ends:
            trainer = Trainer(launch=trainer.launch)
            durable = durable if disk.state is not None and disk.state.word is Word.RESUME else None
    return replace(world, disk=disk, trainer=trainer, durable=durable)


def _read_next(world: World, rules: SimpleNamespace) -> World:
    """One file after the other, as the product does it."""
    trainer, disk = world.trainer, world.disk
    order = ("word", "request", "state", "complete") if trainer.doing == "claim" else ("word", "request")
    name = order[len(trainer.read)]
    read = (*trainer.read, disk.complete() if name == "complete" else getattr(disk, name))
    trainer = replace(trainer, read=read)
    if len(read) < len(order):
        return replace(world, trainer=trainer)
    return replace(
        world, trainer=_claimed(world, trainer, rules) if trainer.doing == "claim" else _polled(trainer, rules)
    )


def _claimed(world: World, trainer: Trainer, rules: SimpleNamespace) -> Trainer:
    word, request, state, complete = trainer.read
    start = rules.start_from(word=word, state=state, complete=complete)
    begins_at = 0 if start is None else start.step
    if world.durable is not None:
        assert begins_at >= world.durable, f"a new trainer begins at step {begins_at}, and {world.durable} was saved"
    name = f"launch-{trainer.launch}"
    me = TrainerState(incarnation=name, lineage="", word=Word.INIT)
    todo = rules.claim(me, request=request, start=start)
    then = "train" if start is None else "load"
    return replace(trainer, read=(), state=me, start=start, restored=start is None, todo=todo, then=then)


def _polled(trainer: Trainer, rules: SimpleNamespace) -> Trainer:
    word, request = trainer.read
    back = "train" if trainer.restored else "load"
    idle = replace(trainer, read=(), doing=back)
    wish = rules.wish(word=word, request=request, state=trainer.state, restored=trainer.restored)
    if wish is Wish.SAVE:
        return replace(idle, wanted=True, request=request)
    if wish is Wish.ANSWER:
        return replace(idle, todo=rules.answer(trainer.state, request=request), then=back)
    return idle


def _hook_moves(world: World, bounds: Bounds, rules: SimpleNamespace) -> Iterator[tuple[str, World]]:
    hook, disk = world.hook, world.disk
    if hook.doing in ("none", "done"):
        if hook.asked < bounds.requests and disk.word is not None:
            state = disk.state
            request = Request(id=f"r{hook.asked + 1}", incarnation=None if state is None else state.incarnation)
            asking = Hook(doing="ask", asked=hook.asked + 1, request=request, todo=rules.ask(request))
            yield "hook begins", replace(world, hook=asking)
        return
    yield "hook is killed", replace(world, hook=Hook(asked=hook.asked))
    if hook.request is not None and hook.request.incarnation is not None and not _lives(world, hook.request):
        yield "hook finds the trainer gone", replace(world, hook=Hook(asked=hook.asked))
    elif hook.todo:
        effect = hook.todo[0]
        step = _live_step(world, hook) if isinstance(effect, Ask) else hook.step
        after = replace(hook, todo=hook.todo[1:], step=step, doing="ask" if hook.todo[1:] else "wait")
        yield f"hook: {effect}", replace(world, disk=disk.after(effect), hook=after)
    elif hook.doing == "wait":
        answer = rules.answer_to(hook.request, word=disk.word, state=disk.state)
        if answer is Answer.SAVED:
            furthest = max((one.step for one in disk.complete()), default=-1)
            assert furthest >= hook.step, f"the hook says saved, and step {hook.step} is not on disk"
        if answer is not Answer.WAITING:
            yield f"hook reads {answer.name}", replace(world, hook=Hook(doing="done", asked=hook.asked))


def _lives(world: World, request: Request) -> bool:
    return world.trainer.doing != "gone" and request.incarnation == f"launch-{world.trainer.launch}"


def _live_step(world: World, hook: Hook) -> int:
    assert hook.request is not None
    return world.trainer.step if world.trainer.restored and _lives(world, hook.request) else 0


def _answered_in_the_end(world: World, rules: SimpleNamespace) -> bool:
    """With nobody killed and the trainer going about its business."""
    bounds = Bounds(steps=0, saves=99)
    for _ in range(60):
        assert world.hook.request is not None
        if rules.answer_to(world.hook.request, word=world.disk.word, state=world.disk.state) is not Answer.WAITING:
            return True
        if world.trainer.doing == "gone":
            return True  # it had already come to its end
        following = dict(_trainer_moves(world, bounds, rules))
        wanted = ("save",) if world.trainer.wanted else ("poll", "load") if world.trainer.doing != "load" else ("load",)
        choice = next((one for one in wanted if one in following), None)
        choice = choice or next(one for one in following if one not in ("kill -9", "end", "step", "save"))
        world = following[choice]
    return False


def _story(world: World, came_from: dict[World, tuple[World, str] | None]) -> list[str]:
    lines: list[str] = []
    at: World | None = world
    while at is not None and (step := came_from[at]) is not None:
        at, what = step
        lines.append(what)
    return lines[::-1]
