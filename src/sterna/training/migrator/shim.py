"""`migrator` and `MigratableVariable`: pytorchjob-migration's two interfaces over one registry.

Nothing happens before the first use: `register` only remembers. The first of `listening`, `resume`, `signal`,
`load_ckpt`, `save_ckpt`, `step`, `MigratableVariable` makes the directories, finds out who this rank is and takes the
files over (rank 0) or asks rank 0 (the others). Inside Sterna, that is also where a stand-by waits for its turn.
"""

import atexit
import contextlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from sterna.training.errors import Mismatch, Superseded, TrainingError, Unregistrable
from sterna.training.migrator.boundary import Boundary, Progress
from sterna.training.migrator.console import say
from sterna.training.migrator.migrator_files import every_s
from sterna.training.migrator.owner import Contents, Owner
from sterna.training.migrator.session import Session
from sterna.training.migrator.signal_protocol import Word
from sterna.training.migrator.variables import Kind, Saved, dump, kind_of, state_of
from sterna.training.migrator.wanted_saves import Saving

V = TypeVar("V")

_NO_MORE_VARIABLES_AFTER_S = 60.0  # where steps are not seen: what was saved and not asked for by then never will be


class Migrator:
    """One for each process. `rank` answers what the program set, or None: then it is found out."""

    def __init__(
        self, *, rank: Callable[[], int | None] = lambda: None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._rank = rank
        self._environment = environment
        self._variables: dict[str, Any] = {}
        self._positions = 0  # how many came without a key
        self._boundary = Boundary(self._at_boundary)
        self._beginning = threading.RLock()
        self._begun: _Begun | None = None
        self._saved: Saved | None = None  # MigratableVariable: what is yet to be given back
        self._registered_s = 0.0  # when the last variable came
        self._trained = False  # a step was done since the beginning
        self._pid = os.getpid()

    def register(self, key: str, obj: Any) -> None:
        """Remember `obj` under `key`: a live object that is saved as it is then, and brought back in place."""
        if not isinstance(key, str):
            raise Unregistrable(
                f"the key {key!r} is a {type(key).__name__}; expected a text, as in register('model', model)"
            )
        if kind_of(obj) is Kind.PLAIN:
            warnings.warn(
                f"{key!r} is a {type(obj).__name__}, which cannot be changed in place: it will be saved and never "
                "restored. Put it into a dict and register that.",
                stacklevel=2,
            )
        self._boundary.watch(obj)
        self._variables[key] = obj
        self._registered_s = time.monotonic()

    def listening(self, interval: float = 1) -> None:
        """Wait for `save` in a thread, from now on. Rank 0 only; elsewhere there is nothing to listen for."""
        if not interval > 0:
            raise TrainingError(f"interval is {interval!r}; expected a number of seconds above 0")
        begun = self._begin()
        if begun.session.owner is not None:
            begun.listener.interval_s = float(interval)
            begun.listener.start()

    @property
    def resume(self) -> bool:
        """Whether to call `load_ckpt()`: the same on all ranks, as rank 0 has decided."""
        return self._begin().session.resume

    @property
    def signal(self) -> str:
        """The word in the signal file."""
        return self._begin().session.desk.word() or Word.INIT.value

    def save_ckpt(self) -> None:
        """Save now, in this thread. Only rank 0 writes; on the others nothing happens."""
        begun = self._begin()
        if begun.session.owner is not None:
            begun.saving.now()

    def load_ckpt(self, map_location: Any = "cpu", *, weights_only: bool = True) -> None:
        """Bring every registered variable to what was saved, and say so once all ranks have done it.

        Raises KeyError for a key that the file does not have, before anything is changed. Keys of the
        file that are not registered are ignored. `weights_only=False` unpickles the file: only if you trust its writer.
        """
        session = self._begin().session
        saved = session.read(map_location=map_location, weights_only=weights_only)
        for key, variable in self._variables.items():
            if key not in saved:
                raise KeyError(f"{key!r} is not in the checkpoint {session.desk.places.checkpoint}")
            saved.check(key, variable)
        for key, variable in self._variables.items():
            saved.give(key, variable)
        session.meet()
        if session.owner is not None:
            session.owner.acknowledge()

    def step(self) -> None:
        """Say that a step is done and all variables belong to it: from then on saves happen here and nowhere else."""
        self._begin()
        self._boundary.step()

    def finish(self) -> None:
        """Say that training is over: the next launch starts anew, and nothing is saved here any more."""
        begun = self._begin()
        if begun.session.owner is not None:
            begun.session.owner.finish()
        if begun.session.link is None:
            begun.listener.stop()

    def variable(self, x: V, key: str | None = None) -> V:
        """`MigratableVariable`: remember x, bring it to what was saved in its place, and return it.

        Without a key its place is the number of the call, so all ranks and all launches must call in the same order.
        """
        if kind_of(x) is Kind.PLAIN:
            raise Unregistrable(
                f"a {type(x).__name__} cannot be brought back in place, and leaving it out would shift all that follow;"
                " expected something with state_dict and load_state_dict, a dict, a list, a tensor or an array"
            )
        session, _, listener = self._begin()
        if session.pending and self._saved is None:
            self._saved = session.read(map_location="cpu", weights_only=True)
            session.meet()
        name = str(self._positions) if key is None else key
        if name in self._variables:
            raise Mismatch(f"there is already a variable with the key {name!r}")
        if self._saved is not None:
            self._give(self._saved, name, x, owner=session.owner, by_position=key is None)
        self.register(name, x)
        self._positions += key is None
        if session.owner is not None:
            listener.start()
        return x

    def _give(self, saved: Saved, name: str, x: Any, *, owner: Owner | None, by_position: bool) -> None:
        if saved.positional and not by_position:
            raise Mismatch(f"{name!r} has a key, and the checkpoint was saved by position: use the same form as then")
        if name in saved:
            saved.give(name, x)
        if saved.all_given and owner is not None:
            owner.acknowledge()
            self._saved = None

    def _begin(self) -> "_Begun":
        with self._beginning:
            if self._begun is None:
                progress = Progress(self._boundary)
                session = Session(self._rank(), self._environment, progress)
                saving = Saving(
                    session,
                    self._boundary,
                    progress,
                    variables=lambda: self._variables,
                    contents=self._contents,
                    every_s=every_s(self._environment),
                )
                wait = time.sleep if session.link is None else session.link.wait
                self._begun = _Begun(session, saving, Listener(self._look, wait))
                self._pid = os.getpid()
                atexit.register(self._at_exit)
                if session.link is not None:
                    self._begun.listener.start()  # orders must be heard even by ranks that never call listening()
            return self._begun

    def _at_boundary(self) -> None:
        if not self._trained and self._boundary.steps:
            self._trained = True
            self._first_step_done()
        if self._begun is not None and self._begun.saving.wanted and os.getpid() == self._pid:
            self._begun.saving.at_boundary()

    def _first_step_done(self) -> None:
        """What is not loaded by now will not be loaded."""
        if self._begun is not None:
            self._take_as_loaded(self._begun.session)
            self._begun.session.trains_on()
            self._begun.saving.tell_progress()

    def _take_as_loaded(self, session: Session) -> None:
        left, self._saved = self._saved, None
        owner = session.owner
        if owner is None or owner.restored:
            return
        if left is None:
            say("there is a checkpoint to resume from, and the program trains without it")
        owner.restored = True
        with contextlib.suppress(OSError, Superseded):  # the next save meets the same error, and says it
            if left is not None:
                owner.acknowledge()

    def _look(self) -> float:
        """In the listener's thread."""
        assert self._begun is not None  # the listener is a part of it
        waited_s = time.monotonic() - self._registered_s
        if self._saved is not None and not self._boundary.watched and waited_s > _NO_MORE_VARIABLES_AFTER_S:
            self._take_as_loaded(self._begun.session)
        return self._begun.saving.look()

    def _contents(self) -> Contents:
        variables = dict(self._variables)  # the listener may be here while the program still registers
        positional = 0 < len(variables) == self._positions
        states = {key: state_of(variable) for key, variable in variables.items()}
        kinds = tuple((key, str(kind_of(variable))) for key, variable in variables.items())
        return Contents(dump(list(states.values()) if positional else states), kinds, positional)

    def _at_exit(self) -> None:
        """A traceback is no end of training: the next launch goes on from the last checkpoint."""
        failed = getattr(sys, "last_value", None) is not None
        if self._begun is not None and os.getpid() == self._pid and not failed:
            self._begun.session.finished()


class _Begun(NamedTuple):
    """What there is from the first use on."""

    session: Session
    saving: Saving
    listener: "Listener"


class Listener:
    """The thread that looks now and then whether something is wanted. A daemon: it never keeps a program from ending.

    `look` answers when to look next; 0: after `interval_s`.
    """

    def __init__(self, look: Callable[[], float], wait: Callable[[float], None] = time.sleep) -> None:
        self._look = look
        self._wait = wait
        self.interval_s = 1.0
        self._thread: threading.Thread | None = None
        self._stopped = False

    def start(self) -> None:
        """Safe to repeat: one thread is enough."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="sterna-migrator", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """There is nothing to listen for any more. The thread ends with its present wait."""
        self._stopped = True

    def _run(self) -> None:
        while not self._stopped:
            try:
                again_s = self._look()
            except Exception as error:  # the boundary of a thread: it must outlive whatever a look runs into
                say(f"the listener goes on after {type(error).__name__}: {error}")
                again_s = 0.0
            self._wait(again_s or self.interval_s)
