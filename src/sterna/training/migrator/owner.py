"""Rank 0's hold on the files: taking them over, saving, answering, and giving them up.

Carries out what `signal_protocol` says. When a save is due, and in which thread, is not decided here.
"""

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from sterna.training.errors import Superseded
from sterna.training.migrator import signal_protocol
from sterna.training.migrator.checkpoint_files import digest_only, take_stock, write_aside
from sterna.training.migrator.signal_files import Desk
from sterna.training.migrator.signal_protocol import Effect, Generation, Note, Request, TrainerState, Wish, Word
from sterna.training.processes import pid_started

_TRIES = 5  # to find a moment in which the variables do not change, where boundaries are not known
_BETWEEN_TRIES_S = 0.05


class Contents(NamedTuple):
    """What is to be saved, as of now."""

    dump: Callable[[Any], None]
    kinds: tuple[tuple[str, str], ...]
    positional: bool


class Owner:
    """Made once for each process: making it takes the files over from the process that had them before."""

    def __init__(
        self, desk: Desk, *, incarnation: int | None = None, allowed: Callable[[], None] = lambda: None
    ) -> None:
        """`allowed` raises when another incarnation may no longer be disturbed; it is asked before each save."""
        self._desk = desk
        self._allowed = allowed
        self._lock = threading.RLock()
        desk.clear_away()
        unique = secrets.token_hex(6)
        me = TrainerState(
            incarnation=unique if incarnation is None else f"{incarnation}-{unique}",
            lineage="",
            word=Word.INIT,
            pid=os.getpid(),
            pid_started=pid_started(os.getpid()),
            host=socket.gethostname(),
        )
        self.word_found = desk.word()
        request, state = desk.request(), desk.state()
        self.stock = take_stock(desk)
        self.start = signal_protocol.start_from(
            word=self.word_found, state=state, complete=list(self.stock.complete.values())
        )
        self.restored = self.start is None  # False: the variables are not yet what they are to be
        self._number = max((known.number for known in desk.listed() or ()), default=0)
        self.state = me
        self._carry_out(signal_protocol.claim(me, request=request, start=self.start))

    def wish(self) -> tuple[Wish, Request | None]:
        """What the files ask of this trainer now. Raises Superseded."""
        self._require_ownership()
        word, request = self._desk.word(), self._desk.request()
        return signal_protocol.wish(word=word, request=request, state=self.state, restored=self.restored), request

    def answer(self, request: Request | None) -> None:
        """Say that a request is dealt with although nothing was saved for it. Raises Superseded."""
        with self._lock:
            self._require_ownership()
            self._carry_out(signal_protocol.answer(self.state, request=request))

    def save(self, contents: Callable[[], Contents], *, step: int, still: bool, request: Request | None) -> Generation:
        """Save what `contents` gives; durable once this returns. Raises OSError, Superseded, or what torch raises.

        `still`: the variables stand still meanwhile. Where that is not certain, they are read twice, and again
        until both times agree; if they never do, the generation says so.
        """
        with self._lock:
            began_s = time.monotonic()
            self._desk.places.make_directories()
            for attempt in range(_TRIES):
                if attempt:
                    time.sleep(_BETWEEN_TRIES_S)
                taken = contents()
                written = write_aside(self._desk, taken.dump)
                untorn = still or digest_only(contents().dump) == written
                if untorn:
                    break
            try:
                self._allowed()
                self._require_ownership()
            except BaseException:
                self._desk.aside.unlink(missing_ok=True)
                raise
            generation = Generation(
                number=self._number + 1,
                digest=written.digest,
                bytes=written.bytes,
                lineage=self.state.lineage,
                step=step,
                untorn=untorn,
                save_s=round(time.monotonic() - began_s, 3),
                kinds=taken.kinds,
                positional=taken.positional,
            )
            self._publish(generation, request)
            return generation

    def acknowledge(self) -> None:
        """What the start demanded is loaded, by all ranks."""
        with self._lock:
            self.restored = True
            self._require_ownership()
            self._carry_out(signal_protocol.acknowledge(self.state))

    def end(self) -> None:
        """The program came to its end; nothing happens if another process owns the files by now."""
        with self._lock:
            if self._desk.state() == self.state:
                self._carry_out(signal_protocol.end(self.state))

    def finish(self) -> None:
        """The program says that training is over. Raises Superseded."""
        with self._lock:
            self._require_ownership()
            self._carry_out(signal_protocol.finish(self.state))

    def beat(self) -> None:
        """Show that this process lives, to hooks that cannot see its pid."""
        with contextlib.suppress(OSError):
            os.utime(self._desk.places.state)

    def _publish(self, generation: Generation, request: Request | None) -> None:
        checkpoint, previous = self._desk.places.checkpoint, self._desk.places.previous
        whole = self.stock.complete.get(checkpoint)
        effects = signal_protocol.publish(
            self.state,
            generation,
            on_disk=list(self.stock.complete.values()),
            damaged=checkpoint in self.stock.damaged,
            request=request,
        )
        self._number = generation.number
        try:
            self._carry_out(effects)
        except OSError:
            self._desk.aside.unlink(missing_ok=True)
            self.stock = take_stock(self._desk)  # how far it came
            raise
        older = self.stock.complete.get(previous) if whole is None else whole
        complete = {checkpoint: generation} | ({} if older is None else {previous: older})
        self.stock = self.stock._replace(complete=complete, damaged=())
        self.restored = True

    def _require_ownership(self) -> None:
        """Raise Superseded if a newer trainer has taken the files over."""
        found = self._desk.state()
        if found is not None and found.incarnation != self.state.incarnation:
            raise Superseded(
                f"process {found.pid} on {found.host} has taken over {self._desk.places.signal}: nothing is saved here "
                "any more. If these are two jobs, give them different MIGRATION_CKPT_PATH and MIGRATION_SIGNAL_PATH"
            )

    def _carry_out(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            self._desk.carry_out(effect)
            if isinstance(effect, Note):
                self.state = effect.state
