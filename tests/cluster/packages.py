"""What a test cluster needs of the machine beside Kubernetes itself, and how `make test` sees to it.

As root, what is missing is installed with apt: nothing is removed for it, and no service is started. Anybody else is
told what to install. Ends with 0 when all is there, with INCOMPLETE when tests that need a cluster will be skipped, and
with 1 when that is not allowed (STERNA_REQUIRE=1). Standard library only.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.binaries import NoBinaries, find_binaries

INCOMPLETE = 3
# a program, or a file by its whole path, and the package that brings it
NEEDED = {
    "etcd": "etcd-server",
    "kubectl": "kubernetes-client",
    "openssl": "openssl",
    "setpriv": "util-linux",
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "ip": "iproute2",
    "mount": "mount",
    "hostname": "hostname",
    "gcc": "gcc",
    "/usr/include/stdlib.h": "libc6-dev",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}
POLICY = Path("/usr/sbin/policy-rc.d")
SYSTEM_PROGRAMS = "/usr/local/sbin:/usr/sbin:/sbin"  # not on everybody's PATH


def main() -> int:
    if os.environ.get("KUBEBUILDER_ASSETS"):  # whoever brings their own control plane knows what it needs
        return 0
    missing = missing_packages(_there)
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"set-up: installing {', '.join(missing)}", flush=True)  # noqa: T201
        began_s = time.monotonic()
        _install(missing)
        print(f"set-up: installed after {time.monotonic() - began_s:.0f} s", flush=True)  # noqa: T201
        missing = missing_packages(_there)
    trouble = ""
    if missing:
        trouble = f"Tests on a cluster need packages that are not there. As root: apt-get install {' '.join(missing)}"
    else:
        try:
            find_binaries()
        except NoBinaries as error:
            trouble = str(error)
    if trouble:
        print(trouble, file=sys.stderr)  # noqa: T201
        return 1 if os.environ.get("STERNA_REQUIRE") == "1" else INCOMPLETE
    return 0


def missing_packages(there: Callable[[str], bool]) -> list[str]:
    """In the order of the alphabet. `kubectl` of any origin will do: packages of that name exclude each other."""
    return sorted(package for wanted, package in NEEDED.items() if not there(wanted))


def _there(wanted: str) -> bool:
    if wanted.startswith("/"):
        return Path(wanted).exists()
    return shutil.which(wanted, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PROGRAMS}") is not None


def _install(packages: Sequence[str]) -> None:
    """Refuses to remove anything. Ctrl-C does not reach it: an installation is finished or not begun."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    waiting = ("-o", "DPkg::Lock::Timeout=300")
    with services_held(POLICY):
        for command in (["update"], ["install", "-y", "--no-remove", "--no-install-recommends", *packages]):
            subprocess.run(
                ["apt-get", "-qq", *waiting, *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                check=False,  # some other source of packages may be away; what counts is what is there afterwards
            )


@contextmanager
def services_held(policy: Path) -> Iterator[None]:
    """Packages ask this file whether they may start their services. Ours says no only as long as this process lives."""
    if policy.exists():  # the machine has a policy of its own
        yield
        return
    policy.write_text(f"#!/bin/sh\n[ -d /proc/{os.getpid()} ] && exit 101\nexit 0\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()


if __name__ == "__main__":
    sys.exit(main())
