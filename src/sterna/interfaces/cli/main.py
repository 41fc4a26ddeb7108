"""The `sterna` command: its list of commands, and the one place where errors become words and exit codes."""

import io
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sterna.interfaces.cli import (
    compare,
    crds,
    decide,
    delete,
    demo,
    describe,
    down,
    events,
    explain,
    generate,
    get,
    logs,
    migrate,
    models,
    monitor,
    nodes,
    operator,
    policies,
    policy,
    rebalancers,
    replay,
    scale,
    scenario,
    simulate,
    submit,
    suspension,
    token,
    top,
    traces,
    up,
    wait,
)
from sterna.interfaces.cli.engine_choice import (
    ContextOption,
    Engine,
    EngineOption,
    KubeconfigOption,
    NamespaceOption,
    speaking,
    with_engine,
)
from sterna.interfaces.cli.terminal import EXIT_INTERRUPTED, EXIT_PIPE_CLOSED, tell_error
from sterna.model.errors import SternaError

EPILOG = """\b
Exit codes: 0 done, 1 failed, 2 wrong input (the message says what would do), 3 not found, 4 time is up,
130 interrupted.
Environment: STERNA_HOME is where the engine of this machine keeps its state; STERNA_ENGINE=kubernetes lets commands
ask the cluster of KUBECONFIG instead, whose operator is in STERNA_OPERATOR_NAMESPACE (sterna-system);
NO_COLOR switches colours off.
"""


class AnsweringGroup(TyperGroup):
    """Commands whose errors reach people as one line: what was wrong, with what, and what would do."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with speaking(ctx):
                answer = super().invoke(ctx)
            sys.stdout.flush()  # here rather than at exit, where a closed pipe could not be caught
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone: nothing to add
            raise typer.Exit(EXIT_PIPE_CLOSED) from None
        except KeyboardInterrupt:
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except (SternaError, OSError) as error:
            raise typer.Exit(tell_error(error)) from None
        return answer


cli = typer.Typer(
    name="sterna",
    cls=AnsweringGroup,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: it reads the same in a pipe, and starts three times as fast
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)


def _print_version(asked: bool) -> None:
    if asked:
        from sterna import __version__

        typer.echo(__version__)
        raise typer.Exit


@cli.callback()
def sterna(
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
    engine: EngineOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Elastic, migration-aware scheduling for deep-learning training: run jobs here, ask the core, or simulate it.

    The decisions are those that the engines carry out: one pure core decides for a cluster, one machine and the
    simulator alike. Options before a command may stand behind it as well.
    """


_ENGINE = (up, down, submit, get, describe, logs, events, explain, top, wait, demo)  # in the order that help lists them
_CHANGES = (scale, migrate, nodes, suspension, delete, policy)
_CORE = (operator, monitor, token, decide, simulate, compare, scenario, replay, generate)
_LISTS = (policies, rebalancers, models, traces, crds)
for _module in (*_ENGINE, *_CHANGES):
    _module.add_to(cli)
for _command in cli.registered_commands:
    assert _command.callback is not None
    _command.callback = with_engine(_command.callback)
for _module in (*_CORE, *_LISTS):
    _module.add_to(cli)


@cli.command(epilog="\b\nExample:\n  sterna version")
def version() -> None:
    """Print the version."""
    _print_version(True)


def main() -> None:
    """The console script."""
    run("sterna")


def run(program: str, *, engine: Engine | None = None) -> None:
    """The commands under this name. `engine` is the one asked unless an option differs; None: the environment says."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent process, which is no error
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - kept to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a sign is no error either
    cli(prog_name=program, obj=engine)


if __name__ == "__main__":
    main()
