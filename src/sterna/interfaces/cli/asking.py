"""What commands that ask a running engine share: which engine, which job, and in which form the answer is printed.

Nothing is imported before a command runs, and completion is silent when no engine answers.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sterna.interfaces.cli.engine_choice import Engine, chosen, speaking
from sterna.interfaces.cli.terminal import exit_code, tell_error
from sterna.model.errors import EngineUnavailable, InvalidRequest, SternaError

if TYPE_CHECKING:
    from sterna.interfaces.client import Client

Record = dict[str, Any]

_COMPLETES_WITHIN_S = {Engine.LOCAL: 0.5, Engine.KUBERNETES: 5.0}  # a loopback answers at once, a cluster does not


class Form(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def client_of(home: str | None) -> "Client":
    return chosen().client(home)


def job_ids(names: list[str], namespace: str) -> list[str]:
    """What was typed, each once: a bare name is one of the namespace."""
    return [job_id_of(name, namespace) for name in dict.fromkeys(names)]


def job_id_of(name: str, namespace: str) -> str:
    from sterna.interfaces.client.client import full_id

    if not name.strip("/"):
        raise InvalidRequest(field="JOB", value=name, expected="the name of a job, or NAMESPACE/NAME")
    return full_id(name, namespace)


def printed(value: Any, form: Form) -> str:
    """For programs: the record as it is, in JSON or YAML."""
    if form is Form.YAML:
        import yaml

        text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
        return text.rstrip("\n")
    import json

    return json.dumps(value, indent=2, ensure_ascii=False)


def for_each(names: list[str], do: Callable[[str], None]) -> None:
    """Go on with the others when one fails; the exit code is the first failure's."""
    codes = []
    for name in names:
        try:
            do(name)
        except EngineUnavailable:
            raise  # no engine answers, for the others neither
        except (SternaError, TimeoutError) as error:
            tell_error(error)
            codes.append(exit_code(error))
    if codes:
        raise typer.Exit(codes[0])


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Watching ends by Ctrl-C, which is no failure."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stdout.flush()


def say(words: str, *, quiet: bool = False) -> None:
    if not quiet:
        typer.echo(words)


def complete_jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    namespace = ctx.params.get("namespace") or "default"
    jobs = _completed(ctx, lambda client: client.jobs())
    jobs = jobs or _completed(ctx, lambda client: client.jobs(namespace=namespace))  # the user may not list all of them
    names = [job["name"] if job["namespace"] == namespace else job["id"] for job in jobs]
    return sorted(name for name in names if name.startswith(incomplete))


def complete_nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    names = [node["name"] for node in _completed(ctx, lambda client: client.nodes())]
    return sorted(name for name in names if name.startswith(incomplete))


def _completed(ctx: typer.Context, ask: "Callable[[Client], list[Record]]") -> list[Record]:
    with speaking(ctx):
        try:
            choice = chosen()
            return ask(choice.client(ctx.params.get("home"), deadline_s=_COMPLETES_WITHIN_S[choice.engine]))
        except (SternaError, OSError):
            return []


Home = Annotated[
    str | None,
    typer.Option("--home", metavar="DIR", help="Where the engine keeps its state. Default: STERNA_HOME."),
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the job.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
OutputForm = Annotated[Form, typer.Option("--output", "-o", help="For people: table or wide. For programs: the rest.")]
JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="A job: NAME, or NAMESPACE/NAME.", autocompletion=complete_jobs)
]
JobArguments = Annotated[
    list[str], typer.Argument(metavar="JOB...", help="Jobs: NAME, or NAMESPACE/NAME.", autocompletion=complete_jobs)
]
NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="A node.", autocompletion=complete_nodes)]
