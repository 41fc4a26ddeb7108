"""Who may report: one secret per installation, and tokens that are derived from it, for jobs and for nodes.

A job's token says which job it is for and proves it by HMAC-SHA256 over `namespace/name/uid`, so a holder of the
secret can check any token and has to remember none. It permits reports for the pods of that job and nothing else. By a
node's token the scheduler knows the monitor of that node; it permits reports of what happens on that node and nothing
else. The secret itself, as a bearer token, permits everything; it stays with the scheduler.

A monitor has no secret to check tokens by. The scheduler tells it the digests (SHA-256) of the tokens of jobs that have
pods on its node: enough to know a token, and not to make one (docs/decisions/0019).

Secrets and tokens come out of files that are read again when they change (`TokenFile`), so they can be replaced while
everything runs.
"""

import base64
import binascii
import hashlib
import hmac
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

SECRET_BYTES_MIN = 16

_PREFIX = "sterna1"
_NODE_PREFIX = "sterna1-node"
_FILE_BYTES_MAX = 64 * 1024
_REMEMBERED_MAX = 4096  # tokens that were right; checking one takes longer than looking it up


class TokenOwner(NamedTuple):
    """Whose token it is. All empty: the installation's own."""

    namespace: str = ""
    job: str = ""
    uid: str = ""
    node: str = ""  # of the monitor whose token it is; such a token has no job

    @property
    def is_installation(self) -> bool:
        return not self.job and not self.node

    @property
    def job_id(self) -> str:
        return f"{self.namespace}/{self.job}"


INSTALLATION = TokenOwner()


def job_token(secret: str, *, namespace: str, job: str, uid: str) -> str:
    """The token of one job; the same whenever it is made from the same secret. Safe in a header and in a file."""
    return _signed(secret, _PREFIX, f"{namespace}/{job}/{uid}".encode())


def node_token(secret: str, *, node: str) -> str:
    """The token of one node's monitor, where no cluster gives it one; made like a job's."""
    return _signed(secret, _NODE_PREFIX, node.encode())


def digest_of(token: str) -> str:
    """By which a token is known to a monitor that could not make it."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_like_job_token(token: str) -> bool:
    """Might this be a job's token? Whether it is takes the secret, or its digest."""
    parts = token.split(".")
    return len(parts) == 3 and parts[0] == _PREFIX and len(parts[2]) == hashlib.sha256().digest_size * 2


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
    """Tells whose a bearer token is. `secrets` is asked each time, so that replaced secrets take effect.

    `told` are tokens that a holder of the secret vouches for: owners by digest.
    """

    def __init__(
        self, secrets: Callable[[], Sequence[str]], *, told: Callable[[], Mapping[str, TokenOwner]] = dict
    ) -> None:
        self._secrets = secrets
        self._told = told
        self._made_of: Sequence[str] = ()
        self._owners: dict[str, TokenOwner] = {}

    def owner_of(self, authorization: str | bytes | None) -> TokenOwner | None:
        """From the value of an Authorization header. None: the request is not admitted."""
        text = authorization.decode("latin-1") if isinstance(authorization, bytes) else authorization or ""
        secrets = self._secrets()
        if secrets != self._made_of:
            self._made_of, self._owners = secrets, {}
        known = self._owners.get(text)
        if known is not None:
            return known
        token = token_in(text)
        if not token:
            return None
        for secret in secrets:
            owner = owner_of(token, secret)
            if owner is not None:
                if len(self._owners) >= _REMEMBERED_MAX:
                    self._owners.clear()
                self._owners[text] = owner
                return owner
        return self._told().get(digest_of(token))


def owner_of(token: str, secret: str) -> TokenOwner | None:
    """Whose token this is by this secret; None: not made from it."""
    if len(secret) < SECRET_BYTES_MIN:  # an empty or guessable secret opens nothing
        return None
    if hmac.compare_digest(token.encode("utf-8", "replace"), secret.encode()):
        return INSTALLATION
    try:
        prefix, name, signature = token.split(".")
        subject = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4))
        owner = _OWNERS[prefix](subject.decode())
    except (ValueError, KeyError, binascii.Error):
        return None
    good = hmac.compare_digest(signature.encode("utf-8", "replace"), _signature(secret, prefix, subject).encode())
    return owner if good and (owner.job or owner.node) else None


def token_in(authorization: str) -> str:
    """Of the value of an Authorization header; empty: it holds no bearer token."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def bearer(token: str) -> str:
    """The value of the Authorization header."""
    return f"Bearer {token}"


def _job_of(subject: str) -> TokenOwner:
    namespace, job, uid = subject.split("/")
    return TokenOwner(namespace, job, uid)


_OWNERS: Mapping[str, Callable[[str], TokenOwner]] = {
    _PREFIX: _job_of,
    _NODE_PREFIX: lambda subject: TokenOwner(node=subject),
}


def _signed(secret: str, prefix: str, subject: bytes) -> str:
    name = base64.urlsafe_b64encode(subject).rstrip(b"=").decode()
    return f"{prefix}.{name}.{_signature(secret, prefix, subject)}"


def _signature(secret: str, prefix: str, subject: bytes) -> str:
    """Of a job's token over its subject alone, as it always was: pods that run keep theirs over an upgrade. A node's
    has its kind before it, with a sign between that no name has, so that neither is ever the other's.
    """
    said = subject if prefix == _PREFIX else prefix.encode() + b"\0" + subject
    return hmac.new(secret.encode(), said, hashlib.sha256).hexdigest()
