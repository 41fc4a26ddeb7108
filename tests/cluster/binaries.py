"""Where the programs of a Kubernetes control plane come from.

From the directory that KUBEBUILDER_ASSETS names, else from the cache, else built once from Debian's source package by
the script beside this file. A build becomes visible by one rename, so what the cache holds is whole.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

REMIND_S = 30.0  # a step that takes minutes says so
SCRIPT = Path(__file__).with_name("build-kubernetes")


class NoBinaries(Exception):
    """There is no Kubernetes here and none could be made; the message says what would help."""


@dataclass(frozen=True)
class Binaries:
    """A directory with at least kube-apiserver in it. What else is there depends on where it came from."""

    directory: Path

    def has(self, program: str) -> bool:
        return self._found(program) is not None

    def path(self, program: str) -> str:
        found = self._found(program)
        if found is None:
            raise NoBinaries(f"there is no {program} in {self.directory}")
        return found

    @property
    def version(self) -> tuple[int, int]:
        said = subprocess.run([self.path("kube-apiserver"), "--version"], capture_output=True, text=True, check=True)
        numbers = re.search(r"v(\d+)\.(\d+)", said.stdout)
        if numbers is None:
            raise NoBinaries(f"kube-apiserver does not say its version: {said.stdout!r}")
        return int(numbers[1]), int(numbers[2])

    def _found(self, program: str) -> str | None:
        """Etcd and its like may be the system's; parts of Kubernetes must all be of one version."""
        ours = self.directory / program
        if ours.exists():
            return str(ours)
        return None if program.startswith("kube-") or program == "kubelet" else shutil.which(program)


def find_binaries() -> Binaries:
    """The programs, built now if that is the only way: some minutes, once per machine."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        if not Path(assets, "kube-apiserver").exists():
            raise NoBinaries(f"KUBEBUILDER_ASSETS is {assets}, and there is no kube-apiserver in it")
        return Binaries(Path(assets))
    home = cache_place()
    if not home.exists():
        with _alone(home.parent / ".lock") as lock:
            if not home.exists():  # another worker may have built it while this one waited
                _build(home, lock)
    return Binaries(home / "bin")


def cache_place() -> Path:
    """The directory of this build: another script, version or machine has another one."""
    base = os.environ.get("STERNA_CACHE")
    root = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sterna"
    made_of = SCRIPT.read_bytes() + platform.machine().encode()  # the script names the versions of Kubernetes and of Go
    return root / "kubernetes" / hashlib.sha256(made_of).hexdigest()[:16]


def _build(home: Path, lock: int) -> None:
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise NoBinaries(f"Kubernetes is built from Debian's source package, and there is no {program} here")
    work = home.with_name(f".{home.name}.building")
    shutil.rmtree(work, ignore_errors=True)  # what an aborted build left
    work.mkdir(parents=True)
    log = work.with_suffix(".log")
    with open(log, "wb") as out:
        script = subprocess.Popen(
            [SCRIPT, work],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            pass_fds=(lock,),  # while any of its compilers runs, nobody else begins, even if this process is no more
        )
    try:
        _show_progress(script, log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)
        script.wait()
    if script.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise NoBinaries(f"Kubernetes could not be built; the log is {log} and ends with\n{tail}")
    for path in work.iterdir():
        if path.name != "bin":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    work.rename(home)
    log.unlink()


def _show_progress(script: subprocess.Popen[bytes], log: Path) -> None:
    """One line that grows on a terminal; elsewhere a line for each step, and one every half minute of a long one."""
    began_s = shown_s = time.monotonic()
    shown = ""
    terminal = sys.stderr.isatty()
    while script.poll() is None:
        steps = [line[6:] for line in log.read_text(errors="replace").splitlines() if line.startswith("step: ")]
        step = steps[-1] if steps else "starting"
        now_s = time.monotonic()
        if terminal or step != shown or now_s >= shown_s + REMIND_S:
            line = f"set-up: building Kubernetes, once, about six minutes: {step} ({now_s - began_s:.0f} s)"
            sys.stderr.write(f"\r{line:<100}" if terminal else f"{line}\n")
            sys.stderr.flush()
            shown, shown_s = step, now_s
        with suppress(subprocess.TimeoutExpired):
            script.wait(1)
    if terminal:
        sys.stderr.write("\n")


@contextmanager
def _alone(lock: Path) -> Iterator[int]:
    """One builder at a time; the kernel lets go of the lock of one that died."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle.fileno()
