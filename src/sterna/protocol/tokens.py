"""Who may report: one secret per installation, and tokens for jobs that are derived from it.

A job's token says which job it is for and proves it by HMAC-SHA256 over `namespace/name/uid`, so whoever holds the
secret can check any token and has to remember none. With it one may report for the pods of that job and do nothing
else. The secret itself, as a bearer token, is the installation's own word: monitors use it towards the scheduler.

Secrets and tokens come out of files that are read again when they change (`TokenFile`), so they can be replaced while
everything runs.
"""

import base64
import binascii
import hashlib
import hmac
import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

SECRET_BYTES_MIN = 16

_PREFIX = "sterna1"
_FILE_BYTES_MAX = 64 * 1024
_REMEMBERED_MAX = 4096  # tokens that were right; checking one takes longer than looking it up


class TokenOwner(NamedTuple):
    """Whose token it is. All empty: the installation's own."""

    namespace: str = ""
    job: str = ""
    uid: str = ""

    @property
    def is_installation(self) -> bool:
        return not self.job

    @property
    def job_id(self) -> str:
        return f"{self.namespace}/{self.job}"


INSTALLATION = TokenOwner()


def job_token(secret: str, *, namespace: str, job: str, uid: str) -> str:
    """The token of one job; the same whenever it is made from the same secret. Safe in a header and in a file."""
    subject = f"{namespace}/{job}/{uid}".encode()
    name = base64.urlsafe_b64encode(subject).rstrip(b"=").decode()
    return f"{_PREFIX}.{name}.{_signature(secret, subject)}"


class TokenFile:
    """Secrets or tokens in a file, one a line, the first of which is used and all of which are accepted.

    Looked at again at most once in `every_s`; what cannot be read, or holds nothing, leaves the last good content in
    place. Two lines are how a secret is replaced: the new one is added, then moved up, then the old one taken away.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, every_s: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = os.fspath(path)
        self._every_s = every_s
        self._clock = clock
        self._looked_s = clock()
        self._lines = self._read()

    def lines(self) -> tuple[str, ...]:
        now_s = self._clock()
        if now_s - self._looked_s >= self._every_s:
            self._looked_s = now_s
            self._lines = self._read() or self._lines
        return self._lines

    def first(self) -> str | None:
        """What to send. None: there was never anything in the file."""
        lines = self.lines()
        return lines[0] if lines else None

    def _read(self) -> tuple[str, ...]:
        try:
            with open(self._path, "rb") as file:
                content = file.read(_FILE_BYTES_MAX)
            return tuple(line.strip() for line in content.decode("ascii").splitlines() if line.strip())
        except (OSError, UnicodeDecodeError):
            return ()


class Gate:
    """Tells whose a bearer token is. `secrets` is asked each time, so that replaced secrets take effect."""

    def __init__(self, secrets: Callable[[], Sequence[str]]) -> None:
        self._secrets = secrets
        self._made_of: Sequence[str] = ()
        self._owners: dict[str, TokenOwner] = {}

    def owner_of(self, authorization: str | bytes | None) -> TokenOwner | None:
        """From the value of an Authorization header. None: whoever it is may not come in."""
        text = authorization.decode("latin-1") if isinstance(authorization, bytes) else authorization or ""
        secrets = self._secrets()
        if secrets != self._made_of:
            self._made_of, self._owners = secrets, {}
        known = self._owners.get(text)
        if known is not None:
            return known
        scheme, _, token = text.partition(" ")
        if scheme.lower() != "bearer" or not token:
            return None
        for secret in secrets:
            owner = owner_of(token.strip(), secret)
            if owner is not None:
                if len(self._owners) >= _REMEMBERED_MAX:
                    self._owners.clear()
                self._owners[text] = owner
                return owner
        return None


def owner_of(token: str, secret: str) -> TokenOwner | None:
    """Whose token this is by this secret; None: not made from it."""
    if len(secret) < SECRET_BYTES_MIN:  # an empty or guessable secret opens nothing
        return None
    if hmac.compare_digest(token.encode("utf-8", "replace"), secret.encode()):
        return INSTALLATION
    try:
        prefix, name, signature = token.split(".")
        subject = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4))
        namespace, job, uid = subject.decode().split("/")
    except (ValueError, binascii.Error):
        return None
    good = hmac.compare_digest(signature.encode("utf-8", "replace"), _signature(secret, subject).encode())
    return TokenOwner(namespace, job, uid) if good and prefix == _PREFIX and job else None


def bearer(token: str) -> str:
    """The value of the Authorization header."""
    return f"Bearer {token}"


def _signature(secret: str, subject: bytes) -> str:
    return hmac.new(secret.encode(), subject, hashlib.sha256).hexdigest()
