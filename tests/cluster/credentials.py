"""Who may talk to a test cluster, and the kubeconfig files that say so.

Users with tokens are read by the API server when it starts. Who turns up later gets a client certificate, or is
a service account, which the API server itself gives tokens to.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COMPONENTS: Mapping[str, Sequence[str]] = {
    "admin": ("system:masters",),
    "system:kube-controller-manager": (),
    "system:kube-scheduler": (),
    "system:kube-proxy": (),
}


class Credentials:
    """Tokens and kubeconfigs, in a directory."""

    def __init__(self, directory: Path, users: Mapping[str, Sequence[str]]) -> None:
        self._directory = directory
        self._groups = {**COMPONENTS, **users}
        self._tokens = {user: secrets.token_hex(16) for user in self._groups}

    def write_token_file(self) -> Path:
        """As --token-auth-file reads it: token, user, uid, groups."""
        path = self._directory / "tokens.csv"
        lines = [
            f'{token},{user},{user},"{",".join(self._groups[user])}"'
            if self._groups[user]
            else f"{token},{user},{user}"
            for user, token in self._tokens.items()
        ]
        path.write_text("\n".join(lines) + "\n")
        return path

    def token(self, user: str) -> str:
        if user not in self._tokens:
            raise KeyError(f"{user} is none of the users with a token: {', '.join(self._tokens)}")
        return self._tokens[user]


def write_kubeconfig(path: Path, *, server: str, ca_file: Path, user: Mapping[str, Any]) -> Path:
    """`user` as in a kubeconfig: a token, or client-certificate and client-key. JSON, which is YAML."""
    cluster = {"server": server, **({"certificate-authority": str(ca_file)} if server.startswith("https") else {})}
    context = {"cluster": "test", "user": "test"}
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": dict(user)}],
        "contexts": [{"name": "test", "context": context}],
    }
    text = json.dumps(body, indent=1)
    if not path.exists() or path.read_text() != text:
        aside = path.with_suffix(f".{secrets.token_hex(4)}")
        aside.write_text(text)
        aside.rename(path)  # whoever reads it meanwhile must not find half of it
    return path
