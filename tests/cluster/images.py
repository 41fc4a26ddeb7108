"""Container images without a registry: OCI archives written here, imported by each node's containerd.

There are two: the sandbox's, and one whose root is empty but for the links of a merged /usr, to be filled by mounts of
this machine's own directories (see `host_python`). Pods need `imagePullPolicy: Never`.
"""

import gzip
import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

PAUSE_IMAGE = "localhost/pause:1"
HOST_IMAGE = "localhost/host:1"
DIRECTORIES = ("usr", "etc", "proc", "sys", "dev", "root", "run", "var", "opt", "home")
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # as Go names them


def build_images(directory: Path) -> list[Path]:
    """Archives of both images."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "pause"
    source = Path(__file__).with_name("pause.c")
    subprocess.run(["gcc", "-Os", "-static", "-o", program, source], check=True)
    with _Layer() as pause:
        pause.file("pause", program.read_bytes(), mode=0o755)
    with _Layer() as host:
        for name in DIRECTORIES:
            host.directory(name)
        host.directory("tmp", mode=0o1777)
        for name, target in LINKS.items():
            host.link(name, target)
        host.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        host.file("etc/group", b"root:x:0:\nnogroup:x:65534:\n")
        host.file(
            "etc/ld.so.cache", Path("/etc/ld.so.cache").read_bytes()
        )  # else the libraries under /usr are not found
    return [
        _write(directory / "pause.tar", PAUSE_IMAGE, pause.whole, ["/pause"]),
        _write(directory / "host.tar", HOST_IMAGE, host.whole, []),
    ]


class _Layer:
    """A tar file of an image's root directory."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._buffer, mode="w")  # noqa: SIM115

    def __enter__(self) -> "_Layer":
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    @property
    def whole(self) -> bytes:
        return self._buffer.getvalue()

    def directory(self, name: str, *, mode: int = 0o755) -> None:
        self._add(name, tarfile.DIRTYPE, mode)

    def link(self, name: str, target: str) -> None:
        self._add(name, tarfile.SYMTYPE, 0o777, target=target)

    def file(self, name: str, content: bytes, *, mode: int = 0o644) -> None:
        self._add(name, tarfile.REGTYPE, mode, content)

    def _add(self, name: str, kind: bytes, mode: int, content: bytes = b"", *, target: str = "") -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(content), target
        self._tar.addfile(entry, io.BytesIO(content))


def _write(path: Path, name: str, layer: bytes, entrypoint: Sequence[str]) -> Path:
    blobs: dict[str, bytes] = {}

    def blob(media: str, content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        kind = f"application/vnd.oci.image.{media}"
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    machine = platform.machine()
    config = {
        "architecture": ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": {"Env": [PATH], "Entrypoint": list(entrypoint)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", json.dumps(config).encode()),
        "layers": [blob("layer.v1.tar+gzip", gzip.compress(layer, mtime=0))],
    }
    top = blob("manifest.v1+json", json.dumps(manifest).encode())
    index = {"schemaVersion": 2, "manifests": [{**top, "annotations": {"io.containerd.image.name": name}}]}
    with _Layer() as archive:
        archive.file("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        archive.file("index.json", json.dumps(index).encode())
        for digest, content in blobs.items():
            archive.file(f"blobs/sha256/{digest}", content)
    path.write_bytes(archive.whole)
    return path
