"""Write the lists of packages that the images install: exact versions, and the hashes that they must have.

    python deploy/docker/lock.py

It asks pip what it would install on Linux for amd64 and arm64, with the Python of the Dockerfile; nothing is installed.
Both platforms must come out at the same versions.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHON = "3.11"
PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")  # what Debian 12 can run, the newest first
MACHINES = ("x86_64", "aarch64")
HEAD = "# Written by deploy/docker/lock.py: what the images install. Run it again after a change.\n"


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["kubernetes"]]
    write(HERE / "requirements.txt", wanted)
    write(HERE / "requirements-build.txt", [*project["build-system"]["requires"], "build"])


def write(path: Path, wanted: list[str]) -> None:
    found: dict[str, dict[str, set[str]]] = {}  # package, version, hashes
    for machine in MACHINES:
        for package, version, digest in chosen(wanted, machine):
            found.setdefault(package, {}).setdefault(version, set()).add(digest)
    lines = [HEAD]
    for package, versions in sorted(found.items()):
        if len(versions) != 1:
            sys.exit(f"{package}: the machines would get different versions: {', '.join(versions)}")
        ((version, digests),) = versions.items()
        hashes = " \\\n".join(f"    --hash=sha256:{digest}" for digest in sorted(digests))
        lines.append(f"{package}=={version} \\\n{hashes}\n")
    path.write_text("".join(lines))


def chosen(wanted: list[str], machine: str) -> list[tuple[str, str, str]]:
    """What pip would take: name, version and SHA-256 of each file."""
    with tempfile.TemporaryDirectory() as nowhere:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
        command += ["--ignore-installed", "--report", "-", "--target", nowhere, "--only-binary", ":all:"]
        command += ["--implementation", "cp", "--python-version", PYTHON]
        for platform in PLATFORMS:
            command += ["--platform", f"{platform}_{machine}"]
        report = json.loads(subprocess.run([*command, *wanted], check=True, capture_output=True, text=True).stdout)
    return [
        (
            item["metadata"]["name"].lower(),
            item["metadata"]["version"],
            item["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for item in report["install"]
    ]


if __name__ == "__main__":
    main()
