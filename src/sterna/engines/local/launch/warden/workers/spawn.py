"""Fork and become: from the warden to a training program, with nothing of the warden left in it.

The child runs Python only between fork and exec. That is safe because the warden has one thread. Whatever goes wrong
there travels back through a pipe that a successful exec closes, so that a command that cannot be run is never
mistaken for one that ran and ended with code 127.
"""

import ctypes
import errno
import os
import resource
import signal
from typing import NamedTuple, NoReturn

from sterna.engines.local.launch.warden.workers.hierarchies import read_text, try_to_write, write_text

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
_OOM_SCORE = "/proc/self/oom_score_adj"
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class Inherited(NamedTuple):
    """What the warden was started with and changed for itself: its children get it back."""

    umask: int
    files_max: tuple[int, int]
    oom_score_adj: int

    @classmethod
    def taken(cls) -> "Inherited":
        """Read what children get back, and change it for the warden itself."""
        umask = os.umask(0o077)  # the warden's own files are for its user only
        soft, hard = files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:  # two descriptors for each worker, and those for ports
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return cls(umask, files_max, _oom_score_adjusted())


class Program(NamedTuple):
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    cpus: tuple[int, ...] | None
    nice: int
    join: tuple[str, ...]  # files of control groups: written with 0, they take the writer in


class Forked(NamedTuple):
    pid: int
    output_fd: int  # what it and its children write
    report_fd: int  # empty at its end: the program runs; else why it does not


def prctl(option: int, argument: int | bytes) -> None:
    """The system call. Raises OSError."""
    if _prctl(option, argument, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"prctl {option}")


def fork_into(program: Program, inherited: Inherited) -> Forked:
    """A child in its own session that becomes `program`, and dies with this process."""
    output_r, output_w = os.pipe2(os.O_CLOEXEC)
    try:
        report_r, report_w = os.pipe2(os.O_CLOEXEC)
    except OSError:
        os.close(output_r)
        os.close(output_w)
        raise
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())  # no handler of ours runs in the child
    try:
        pid = os.fork()
        if pid == 0:
            _become(program, inherited, parent=parent, output_w=output_w, report_w=report_w)
    except OSError:
        os.close(output_r)
        os.close(report_r)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(output_w)
        os.close(report_w)
    os.set_blocking(output_r, False)
    os.set_blocking(report_r, False)
    return Forked(pid, output_r, report_r)


def failure_message(report: bytes, program: Program) -> str:
    """The child's report, `<errno> <stage>`, as a message for people."""
    number, _, stage = report.decode(errors="replace").partition(" ")
    code = int(number) if number.isdigit() else 0
    why = os.strerror(code)
    command, shown = program.argv[0], _shown(program.argv[0])
    if stage == "cwd":
        return f"working directory {_shown(program.cwd)}: {why}"
    if stage != "exec":
        return f"cannot prepare the process ({stage}): {why}"
    if code == errno.ENOENT and "/" not in command:
        return f"command not found: {shown} (PATH={_shown(program.env.get('PATH', os.defpath))})"
    if code == errno.ENOENT and os.path.exists(os.path.join(program.cwd, command)):
        return f"command {shown} names an interpreter that does not exist (its first line)"
    if code == errno.ENOENT:
        return f"command not found: {shown}"
    if code == errno.EACCES:
        return f"command not executable: {shown} ({why})"
    if code == errno.ENOEXEC:
        return f"command {shown} is no program: neither a binary of this machine nor a script with a #! line"
    if code == errno.E2BIG:
        return f"command {shown}: arguments and environment are too long for the system"
    return f"command {shown} cannot be run: {why}"


def _shown(text: str) -> str:
    """Messages travel to the store and to terminals, so what they quote stays short. Of a path the end says most."""
    quoted = repr(text)
    return quoted if len(quoted) <= 400 else f"{quoted[:100]}...{quoted[-297:]}"


def _become(program: Program, inherited: Inherited, *, parent: int, output_w: int, report_w: int) -> NoReturn:
    stage = "session"
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died between fork and prctl, which therefore will never tell
            os._exit(1)
        stage = "control group"
        for path in program.join:
            write_text(path, "0")
        stage = "limits"
        resource.setrlimit(resource.RLIMIT_NOFILE, inherited.files_max)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if program.cpus is not None:
            stage = f"cores {', '.join(map(str, program.cpus[:8]))}"
            os.sched_setaffinity(0, program.cpus)
        if program.nice:
            stage = f"nice {program.nice}"
            os.nice(program.nice)
        try_to_write(_OOM_SCORE, str(inherited.oom_score_adj))
        os.umask(inherited.umask)
        stage = "standard streams"
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (output_w, 1), (output_w, 2)):
            os.dup2(source, target)
        stage = "cwd"
        os.chdir(program.cwd)
        stage = "signals"
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        stage = "exec"
        os.execvpe(program.argv[0], program.argv, program.env)
    except OSError as error:
        os.write(report_w, f"{error.errno} {stage}".encode())
    except BaseException as error:  # nothing may return into the warden's code from here
        os.write(report_w, f"0 {stage}: {error!r}".encode()[:1000])
    finally:
        os._exit(127)


def _oom_score_adjusted() -> int:
    """When the machine runs out of memory a training process should go, not the parent of them all."""
    before = int(read_text(_OOM_SCORE) or 0)
    try_to_write(_OOM_SCORE, str(min(before, -500)))  # an ordinary user may not; then it stays as it is
    return before
