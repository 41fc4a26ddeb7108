"""What a training program holds in its hand: register, restore, steps, report, should_stop, commit.

Outside Sterna every call does nothing, and `steps()` walks through the data as a plain loop would.
"""

import os
from collections.abc import Generator, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from sterna.protocol import WorkerIdentity
from sterna.training.checkpoint import Loaded
from sterna.training.data.shards import Shards, ShardSampler
from sterna.training.data.sources import Source, check_same_order, source_of
from sterna.training.progress import Progress
from sterna.training.ranks.worker import Settings, Worker
from sterna.training.reporting import reporter_from
from sterna.training.state.chance import chance_now, loader_chance, put_chance, put_loader_chance
from sterna.training.state.registry import Registry


class Restored(NamedTuple):
    """What `restore()` found."""

    step: int
    epoch: int


class Run:
    """One process of a training job. Made by `attach()`."""

    def __init__(self, identity: WorkerIdentity, settings: Settings, *, rng: bool) -> None:
        self._identity = identity
        self._pid = os.getpid()
        self._rng = rng
        self._registry = Registry()
        self._progress = Progress()
        self._worker = Worker(identity, settings, self._registry, self._progress) if identity.inside else None
        self._reporter = reporter_from(
            os.environ, identity, self._progress, metric=settings.metric, every_rank=settings.every_rank_reports
        )
        self._own: Mapping[str, Any] = {}  # this rank's own state, as restored, until steps() has used it
        self._origin: Mapping[str, Any] = {}  # state of chance when the present epoch began
        self._data: Any = None  # what steps() is walking through
        self._walking = False  # the program is inside a steps() loop
        self._walked = False  # it has been in one
        self._boundaries = 0  # of a program that makes its own loop
        self._restored: Restored | None = None
        self._prepared = False
        self._finished = False
        if self._worker is not None and identity.signals:
            self._worker.try_to_listen_for_signals()

    @property
    def inside(self) -> bool:
        """Whether Sterna runs this process."""
        return self._identity.inside

    @property
    def rank(self) -> int:
        return self._identity.rank

    @property
    def world_size(self) -> int:
        return self._identity.world_size

    @property
    def incarnation(self) -> int:
        """Raised each time the whole job is started anew."""
        return self._identity.incarnation

    @property
    def step(self) -> int:
        """Steps done since the job's very beginning."""
        return self._progress.step

    @property
    def epoch(self) -> int:
        """The epoch that the next step belongs to."""
        return self._progress.position.epoch

    def register(self, name: str | None = None, value: Any = None, /, **objects: Any) -> None:
        """Have objects saved and restored, each under its name: `register(model=model)` or `register("model", model)`.

        Anything with `state_dict` and `load_state_dict`; dict, list, deque, set, NumPy arrays and torch tensors, which
        are restored in place; Keras models, optimizers and variables; random generators; pairs of callables (save,
        load). It does not matter whether `restore()` was called before. Rank 0's objects are the ones that are saved.
        """
        if name is not None:
            self._registry.add(name, value)
        for key, each in objects.items():
            self._registry.add(key, each)

    def restore(self) -> Restored | None:
        """Load the newest complete checkpoint, the same on every rank; None if there is none, or outside Sterna.

        A standby waits in here until it is told to go. All ranks must call it. Raises `RestoreFailed` when there are
        checkpoints and none can be loaded, and `NotEverybodyCame` when other ranks do not turn up.
        """
        if self._worker is not None and not self._worker.joined:
            self._join(load=True)
        return self._restored

    def steps(self, data: Any, *, epochs: int | None = 1) -> Iterator[tuple[int, Any]]:
        """Yield (epoch, batch) from where the restored checkpoint was made, to `epochs` epochs in all (None: endless).

        `data` is `Shards`, an iterable such as a DataLoader, or a number of steps. Coming back for the next batch ends
        a step: that is where notices are looked at and checkpoints begin. The loop ends by itself when a stop was
        ordered and is committed; `should_stop()` tells that from the end of the data. A batch in the middle of which
        the program breaks out of the loop does not count as trained.
        """
        if epochs is not None and (isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 0):
            raise ValueError(f"epochs is {epochs!r}; expected a whole number of at least 0, or None")
        source = source_of(data, rank=self.rank, world_size=self.world_size)
        return self._walk(data, source, epochs)

    def sampler(self, shards: Shards) -> ShardSampler:
        """`shards` as a batch sampler for a torch DataLoader, which `steps()` then walks through."""
        return ShardSampler(shards, rank=self.rank, world_size=self.world_size)

    def report(self, **metrics: float) -> None:
        """Tell the scheduler how training goes. Numbers only; cheap enough to call at every step.

        One of them is what the job's growth is judged by: see `metric` of `attach`. Numbers called `step` and `epoch`
        say how far a program has come that counts by itself.
        """
        if self._worker is not None:
            self._worker.report(metrics)
        self._reporter.report(metrics)

    def should_stop(self) -> bool:
        """True once a stop was ordered and the state is committed, at one step on all ranks: leave now.

        In a `steps()` loop a step ends when the program comes back for the next batch, so this turns True only after
        the loop, which ends by itself. In a program that has no such loop each call but the first one ends a step:
        `while not run.should_stop(): train()`.
        """
        if not self._walked and not self._finished:
            self._join_if_needed()
            if self._boundaries and not self._stopped:
                self._progress.counted_step()
            self._boundaries += 1
            self._boundary()
            self._begin_step()
        return self._stopped

    def commit(self) -> None:
        """Save now and wait until it is durable. In a `steps()` loop "now" is the end of the present step.

        Outside such a loop all ranks must call it. If the save fails the program goes on; the reason is in the status.
        """
        if self._worker is None:
            return
        if self._walking:
            self._worker.commit_asked = True
        else:
            self._join_if_needed()
            self._worker.commit(self._captured)

    def listen_for_signals(self) -> None:
        """Treat SIGTERM as an order to stop: commit at the next step boundary. From the main thread only.

        Not needed for Sterna's own orders, which come by files; a signal is what other systems send. Without this a
        SIGTERM ends the process at once, and what was trained since the last periodic checkpoint is trained again.
        """
        if self._worker is not None:
            self._worker.listen_for_signals()

    def finish(self) -> None:
        """The training is done: wait for a save that is under way, and say so. Nothing is saved or told after it."""
        self._end(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(None if kind is None else f"{kind.__name__}: {error}")

    def _end(self, problem: str | None) -> None:
        if self._worker is not None and not self._finished:
            self._worker.finish(problem)
        if not self._finished:
            self._reporter.close(finished=problem is None and not self._stopped)
        self._finished = True

    @property
    def _stopped(self) -> bool:
        return self._worker is not None and self._worker.stopped

    def _join_if_needed(self) -> None:
        """A program that never asked to restore still has to meet the others, to be stopped together with them."""
        if self._worker is not None and not self._worker.joined:
            self._join(load=False)

    def _join(self, *, load: bool) -> None:
        assert self._worker is not None
        if self._worker.join(load=load, apply=self._apply):
            self._restored = Restored(self._progress.step, self._progress.position.epoch)

    def _apply(self, loaded: Loaded) -> None:
        self._registry.restore(loaded.shared)
        self._own = loaded.own
        if self._rng and "chance" in self._own:
            put_chance(self._own["chance"])

    def _walk(self, data: Any, source: Source, epochs: int | None) -> Generator[tuple[int, Any], None, None]:
        self._join_if_needed()
        progress = self._progress
        check_same_order(progress.order, progress.position, source)
        self._data, self._walking, self._walked = data, True, True
        try:
            self._boundary()  # an order may have come while this process was on its way
            began = progress.position.epoch
            while not self._stopped and (epochs is None or progress.position.epoch < epochs):
                progress.entered(source, epochs)
                epoch, walked = progress.position.epoch, progress.position.batches
                for batch in self._opened(source):
                    self._begin_step()
                    yield epoch, batch
                    progress.did_step(source)
                    walked += 1
                    self._boundary()
                    if self._stopped:
                        return
                if not walked and (epochs is None or epoch > began):
                    raise ValueError(
                        f"epoch {epoch} had no batches at all; give steps() something that can be walked through again"
                    )
                progress.position = progress.position.next_epoch()
        finally:
            self._walking, self._data = False, None

    def _opened(self, source: Source) -> Iterator[Any]:
        """Batches from the present position on, with chance as it was when they were drawn first."""
        if not (self._rng and source.draws and self.inside):
            self._put_own_chance()
            return source.opened(self._progress.position)
        origin = self._own.get("origin") if self._progress.position.batches else None
        if origin:
            put_chance(origin["chance"])
            put_loader_chance(self._data, origin["loader"])
        self._origin = {"chance": chance_now(), "loader": loader_chance(self._data)}
        batches = source.opened(self._progress.position)
        if origin:
            put_loader_chance(self._data, self._own.get("loader", []))
        self._put_own_chance()
        return batches

    def _put_own_chance(self) -> None:
        """Whatever was drawn since restore(), to build a model say, is as if it had not been."""
        if self._rng and "chance" in self._own:
            put_chance(self._own["chance"])
        self._own = {}

    def _captured(self) -> dict[str, Any]:
        """This rank's own state, for a checkpoint."""
        if not self._rng:
            return {}
        return {"chance": chance_now(), "loader": loader_chance(self._data), "origin": dict(self._origin)}

    def _begin_step(self) -> None:
        if self._progress.began_step() and self._worker is not None:
            self._worker.training()

    def _boundary(self) -> None:
        if self._worker is not None:
            self._worker.boundary(self._captured)
            if not self._prepared and self._progress.last_step_mono_s is not None:
                self._prepared = True  # now optimizers have all their state
                self._worker.prepare(self._captured)


_current: Run | None = None


def attach(
    *,
    rng: bool = True,
    save_every_s: tuple[float, float] | None = (10.0, 600.0),
    keep: int = 2,
    patience_s: float = 600.0,
    metric: str = "",
    every_rank_reports: bool = False,
) -> Run:
    """The run that this process is part of. Calling it again gives the same one, until it is finished.

    rng           keep the state of random number generators (Python's, NumPy's global one, torch's) with checkpoints
    save_every_s  shortest and longest interval between periodic checkpoints; in between it follows from what a save
                  costs. None: only when ordered or asked to
    keep          how many checkpoints to keep
    patience_s    how long ranks wait for each other, before it counts as an error
    metric        which of the reported numbers is an evaluation's result; by default what STERNA_METRIC says, or the
                  best known name: eval_loss, val_accuracy, loss and the like, before others
    every_rank_reports  send every rank's evaluations to the monitor; by default only rank 0's
    """
    global _current
    if _current is None or _current._finished or _current._pid != os.getpid():
        settings = Settings(
            save_every_s=save_every_s,
            keep=keep,
            patience_s=patience_s,
            metric=metric,
            every_rank_reports=every_rank_reports,
        )
        _current = Run(WorkerIdentity.from_environment(), settings, rng=rng)
    return _current
