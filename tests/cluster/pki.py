"""Certificates of a cluster that lives for an hour: one authority, and whatever it signs."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """Signs with a key of its own in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.certificate = directory / "ca.crt"
        self.key = directory / "ca.key"

    def establish(self) -> None:
        usage = "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"
        out = ("-keyout", self.key, "-out", self.certificate)
        _openssl("req", "-x509", *KEY, *out, "-subj", "/CN=cluster-ca", "-days", "30", "-addext", usage)

    def server(self, name: str, *, hosts: Sequence[str], addresses: Sequence[str]) -> tuple[Path, Path]:
        """Certificate and key of a server that is reached under these names."""
        names = ",".join([*(f"DNS:{host}" for host in hosts), *(f"IP:{address}" for address in addresses)])
        return self._sign(name, f"/CN={name}", "extendedKeyUsage=serverAuth", f"subjectAltName={names}")

    def client(self, user: str, groups: Sequence[str] = ()) -> tuple[Path, Path]:
        """Certificate and key of a user: Kubernetes reads the name from CN, the groups from O."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        return self._sign(user.replace(":", "-"), subject, "extendedKeyUsage=clientAuth")

    def _sign(self, name: str, subject: str, *extensions: str) -> tuple[Path, Path]:
        key, request, wanted, signed = (self._directory / f"{name}.{end}" for end in ("key", "csr", "ext", "crt"))
        always = ("basicConstraints=CA:FALSE", "keyUsage=critical,digitalSignature")
        wanted.write_text("\n".join([*always, *extensions]))
        _openssl("req", "-new", *KEY, "-keyout", key, "-out", request, "-subj", subject)
        by = ("-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial")
        _openssl("x509", "-req", "-in", request, *by, "-days", "30", "-out", signed, "-extfile", wanted)
        return signed, key


def signing_key(directory: Path) -> tuple[Path, Path]:
    """Private and public half of the key that signs the tokens of service accounts."""
    private, public = directory / "sa.key", directory / "sa.pub"
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", private)
    _openssl("ec", "-in", private, "-pubout", "-out", public)
    return private, public


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"openssl {arguments[0]}: {done.stderr}"
