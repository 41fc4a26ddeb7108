"""`sterna token`: what the monitor of one node is known by, made from the installation's secret."""

from pathlib import Path
from typing import Annotated

import typer

from sterna.model.errors import InvalidRequest

_EPILOG = """\b
Examples:
  sterna token --node gpu-1 --token-file secret > gpu-1.token
  sterna monitor --scheduler 10.0.0.1 --node gpu-1 --token-file gpu-1.token
\b
Run it where the secret is, and take the token to the node: with it one may report what happens on that node and nothing
else, neither for another node nor as a job. The same secret and node always give the same token. It is not
needed on Kubernetes: there monitors are known by their service account.
"""

_NAME_MAX = 253


def token(
    node: Annotated[str, typer.Option("--node", metavar="NAME", help="As the scheduler calls it.")],
    token_file: Annotated[
        Path, typer.Option("--token-file", metavar="FILE", help="The installation's secret; its first line is used.")
    ],
) -> None:
    """Print the token that a node's monitor reports with."""
    from sterna.engines.door.serving import secrets_in
    from sterna.protocol.tokens import SECRET_BYTES_MIN, node_token

    if not node.strip() or len(node) > _NAME_MAX or not node.isprintable() or "/" in node:
        raise InvalidRequest(field="--node", value=node, expected="the name of a node")
    secret = next(line for line in secrets_in(token_file).lines() if len(line) >= SECRET_BYTES_MIN)
    typer.echo(node_token(secret, node=node))


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(token)
