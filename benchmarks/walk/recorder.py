"""Runs one process of the project under `sys.setprofile` and writes down how control passes between its modules.

    python recorder.py NOTES sterna ARGUMENT...     the command `sterna ARGUMENT...`, and the warden that it starts
    python recorder.py NOTES python ARGUMENT...     an interpreter as a recorded process starts it: of those, only the
                                                    warden is recorded

Of the standard library alone: the warden runs with neither site-packages nor environment. In a recorded process
`sys.executable` is a script that runs this file, so that the warden is recorded without a line of its code changed.

A line of NOTES is one of, as tab-separated fields with wall-clock seconds first:

    TIME enter PROCESS VISIT PARENT MODULE FUNCTION
    TIME leave PROCESS VISIT
    TIME exec  PROCESS

A *visit* is a stay in one module: it begins when a function of the module is called from another module, from the event
loop or from a thread, and ends when that function returns; what the function calls in its own module belongs to the
same visit. PARENT is the visit that called it, or `-`. Code of other packages between two modules of the project is
looked through. A coroutine that goes on after an `await` does not begin anew. Not written down: what runs while a
module is imported, methods that dataclasses generate, and generator expressions.
"""

import dis
import os
import runpy
import shlex
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Any

_BEGIN = 0  # the argument of RESUME where a function begins; others go on after a yield or an await
_RESUME, _YIELD = dis.opmap["RESUME"], dis.opmap["YIELD_VALUE"]
_ANONYMOUS = frozenset({"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"})
_IMPORTING = ""  # stands for a visit in what runs during an import
_BOUNDARIES = {("asyncio.events", "_run"), ("threading", "_bootstrap")}  # below stands the event loop or the thread


class Recorder:
    def __init__(self, notes: str, package: str) -> None:
        self._notes = notes
        self._package = package + os.sep
        self._modules: dict[str, str | None] = {}  # by file: code objects of two files may be equal
        self._bytes: dict[CodeType, bytes] = {}
        self._visits: dict[int, str] = {}  # by the id of a frame; one that is reused is written over at its beginning
        self._openers: dict[int, str] = {}  # frames that began a visit
        self._count = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            module = self._module(frame.f_code)
            if module is not None and self._begins(frame):
                self._called(frame, module)
        elif event == "return":
            if id(frame) in self._openers and not self._suspends(frame):
                self._note("leave", self._openers.pop(id(frame)))
        elif event == "c_call" and argument.__name__ == "execve":
            self._note("exec")

    def _called(self, frame: FrameType, module: str) -> None:
        self._openers.pop(id(frame), None)
        name = frame.f_code.co_name
        caller = self._caller(frame)
        if name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            self._visits[id(frame)] = _IMPORTING
            return
        parent = None if caller is None else self._visits.get(id(caller))
        if parent == _IMPORTING or name in _ANONYMOUS:
            self._visits[id(frame)] = _IMPORTING if parent is None else parent
        elif caller is not None and parent is not None and self._module(caller.f_code) == module:
            self._visits[id(frame)] = parent
        else:
            self._count += 1
            visit = f"{os.getpid()}.{self._count}"
            self._visits[id(frame)] = visit
            self._openers[id(frame)] = visit
            self._note("enter", visit, parent or "-", module, frame.f_code.co_qualname)

    def _caller(self, frame: FrameType) -> FrameType | None:
        """The nearest function of the project that waits for this one; None: the event loop or a thread does."""
        found = frame.f_back
        while found is not None and (found.f_globals.get("__name__"), found.f_code.co_name) not in _BOUNDARIES:
            if self._module(found.f_code) is not None:
                return found
            found = found.f_back
        return None

    def _module(self, code: CodeType) -> str | None:
        """The module that this code is of; None: not the project's."""
        path = code.co_filename
        if path not in self._modules:
            inside = path.startswith(self._package) and path.endswith(".py")
            stem = path[len(self._package) : -3].replace(os.sep, ".").removesuffix(".__init__") if inside else ""
            self._modules[path] = f"sterna.{stem}".removesuffix(".__init__") if inside else None
        return self._modules[path]

    def _begins(self, frame: FrameType) -> bool:
        code, at = self._code(frame.f_code), frame.f_lasti
        return at < 0 or code[at] != _RESUME or code[at + 1] == _BEGIN

    def _suspends(self, frame: FrameType) -> bool:
        return self._code(frame.f_code)[frame.f_lasti] == _YIELD

    def _code(self, code: CodeType) -> bytes:
        if code not in self._bytes:
            self._bytes[code] = code.co_code  # made anew at each access
        return self._bytes[code]

    def _note(self, kind: str, *fields: str) -> None:
        """Opened anew each time: processes fork, close what is open, and end without notice."""
        line = "\t".join([f"{time.time():.6f}", kind, str(os.getpid()), *fields]) + "\n"
        notes = os.open(self._notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(notes, line.encode())
        os.close(notes)


WARDEN = os.path.join("warden", "__main__.py")
SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2, "src"))


def main(arguments: list[str]) -> None:
    notes, kind, *rest = arguments
    if kind == "sterna":
        sys.executable = _interpreter(notes)
        _record(notes)
        from sterna.interfaces.cli.main import main as command

        sys.argv = ["sterna", *rest]
        command()
    path = next((word for word in rest if word.endswith(WARDEN)), None)
    if path is None:
        os.execv(sys.executable, [sys.executable, *rest])
    _record(notes)
    sys.argv = rest[rest.index(path) :]
    runpy.run_path(path, run_name="__main__")


def _record(notes: str) -> None:
    recorder = Recorder(notes, os.path.join(SOURCE, "sterna"))
    threading.setprofile(recorder)
    sys.setprofile(recorder)


def _interpreter(notes: str) -> str:
    """A script that stands for the interpreter in a recorded process."""
    script = f"{notes}.python"
    words = (sys.executable, "-I", "-S", os.path.abspath(__file__), notes, "python")
    with open(script, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    os.chmod(script, 0o700)
    return script


if __name__ == "__main__":
    main(sys.argv[1:])
