"""Options that several commands share: what a cluster looks like, what changes cost, how often to decide.

A dataclass of options is written once and `taking` lends its fields to a command, so that `simulate` and `compare` can
never drift apart.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

T = TypeVar("T")

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class TextOutput(StrEnum):
    TEXT = "text"
    JSON = "json"


def seconds(words: str) -> float:
    """`90`, `90s`, `1.5m`, `2h`, `1d`: a length of time, not negative."""
    text = str(words).strip().lower()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        value = float(digits) * _UNITS[text[len(digits) :].strip() or "s"]
    except (KeyError, ValueError):
        value = math.nan
    if not 0 <= value < math.inf:
        raise typer.BadParameter(f"{words!r} is not a length of time; write 90, 90s, 1.5m, 2h or 1d")
    return value


def policy_names(incomplete: str) -> list[str]:
    """For shell completion."""
    from sterna.policies.registry import ENTRIES

    return [entry.name for entry in ENTRIES if entry.name.startswith(incomplete)]


IdleCpuShare = Annotated[
    float | None,
    typer.Option(
        "--idle-cpu-share",
        min=0.0,
        max=1.0,
        help="How much of a node with GPUs jobs without GPUs may take. Default: half where there are nodes without "
        "GPUs, else all.",
    ),
]

PolicyName = Annotated[
    str,
    typer.Option("--policy", "-p", help="How jobs are sized; see `sterna policies`.", autocompletion=policy_names),
]
Settings = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="An option of the policy; may be given again.", show_default=False),
]

Rebalance = Annotated[
    str | None,
    typer.Option(
        "--rebalance",
        metavar="NAME,...",
        help="Who moves work beyond what placement does: specon, imbalance, ... or none. Default: as it was.",
        show_default=False,
    ),
]
RebalanceSettings = Annotated[
    list[str],
    typer.Option(
        "--rebalance-set",
        metavar="KEY=VALUE",
        help="An option of a rebalancer, or judge.KEY of how growth is judged; may be given again.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Everything a simulation may be told besides its trace and its policy."""

    format: Annotated[
        str | None, typer.Option("--format", help="Trace format; `sterna traces` lists all. Default: by its columns.")
    ] = None
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="Nodes in the cluster.")] = 16
    gpus_per_node: Annotated[int, typer.Option("--gpus-per-node", min=0, help="GPUs in each node.")] = 4
    cpus_per_node: Annotated[int, typer.Option("--cpus-per-node", min=1, help="CPUs in each node.")] = 128
    memory_per_node: Annotated[
        int, typer.Option("--memory-per-node", metavar="GIB", min=1, help="Memory of each node in GiB.")
    ] = 1024
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="FILE", help="Nodes from a file instead of --nodes and --gpus-per-node."),
    ] = None
    model: Annotated[
        str | None,
        typer.Option("--model", help="How jobs train; see `sterna models`. Default: what suits the format."),
    ] = None
    model_set: Annotated[
        list[str],
        typer.Option("--model-set", metavar="KEY=VALUE", help="An option of the model; may be given again."),
    ] = field(default_factory=list)
    profiles: Annotated[
        str | None, typer.Option("--profiles", metavar="DIR", help="Measured speeds that the model reads.")
    ] = None
    sizing: Annotated[
        str | None,
        typer.Option("--sizing", help="How large a job may grow: request (as asked) or model (as far as it scales)."),
    ] = None
    start_cost: Annotated[
        float,
        typer.Option("--start-cost", metavar="TIME", parser=seconds, help="Pause when a job starts."),
    ] = 0.0
    rescale_cost: Annotated[
        float, typer.Option("--rescale-cost", metavar="TIME", parser=seconds, help="Pause when a job changes size.")
    ] = 0.0
    migrate_cost: Annotated[
        float, typer.Option("--migrate-cost", metavar="TIME", parser=seconds, help="Pause when a job changes nodes.")
    ] = 0.0
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval",
            metavar="TIME",
            parser=seconds,
            help="Decide in rounds, not at every event.",
        ),
    ] = None
    rate_limit: Annotated[
        float | None,
        typer.Option(
            "--rate-limit",
            metavar="TIME",
            parser=seconds,
            help="Least time between two decisions; with --interval, rounds that come sooner are left out.",
        ),
    ] = None
    placement: Annotated[
        str | None,
        typer.Option("--placement", help="Where workers go: packed, spread, count, ... Default: the policy's own."),
    ] = None
    contention: Annotated[
        str,
        typer.Option(
            "--contention", help="none, or cpu: containers on a node share its CPU, so neighbours slow each other down."
        ),
    ] = "none"
    rebalance: Rebalance = None
    rebalance_set: RebalanceSettings = field(default_factory=list)
    pin: Annotated[
        str | None,
        typer.Option("--pin", metavar="FILE", help="Start jobs where this file says; --save-pins writes one."),
    ] = None
    estimates: Annotated[
        str,
        typer.Option("--estimates", help="What policies know of speed and work left: exact, or learned."),
    ] = "exact"
    starving_after: Annotated[
        float | None,
        typer.Option("--starving-after", metavar="TIME", parser=seconds, help="Keep nodes for who waited so long."),
    ] = None
    idle_cpu_share: IdleCpuShare = None
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="TIME", parser=seconds, help="How long workers told to go still take room."),
    ] = 0.0
    whole_seconds: Annotated[
        bool, typer.Option("--whole-seconds", help="Round arrivals and finishes up, as some simulators do.")
    ] = False
    foretell_again: Annotated[
        bool, typer.Option("--foretell-again", help="Work out every finish anew at each event, as AFS' simulator does.")
    ] = False
    node_events: Annotated[
        str | None, typer.Option("--node-events", metavar="FILE", help="Nodes that come, go or are drained, and when.")
    ] = None
    serving: Annotated[
        str | None, typer.Option("--serving", metavar="FILE", help="Serving pods that come and go before training.")
    ] = None
    seed: Annotated[int, typer.Option("--seed", help="For everything that is drawn by lot.")] = 0


def taking(options: type[T]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose parameter `run` is an `options` dataclass: its fields, all with defaults, become options."""

    def lend(command: Callable[..., None]) -> Callable[..., None]:
        own = [part for part in inspect.signature(command).parameters.values() if part.name != "run"]
        lent = [_parameter(entry, hint) for entry, hint in _hinted(options)]

        @wraps(command)
        def wrapper(**values: Any) -> None:
            run = options(**{part.name: values.pop(part.name) for part in lent})
            command(**values, run=run)

        parameters = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in (*own, *lent)]
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {part.name: part.annotation for part in parameters}
        return wrapper

    return lend


def _hinted(options: type[Any]) -> list[tuple[Field[Any], Any]]:
    hints = get_type_hints(options, include_extras=True)
    return [(entry, hints[entry.name]) for entry in fields(options)]


def _parameter(entry: Field[Any], hint: Any) -> inspect.Parameter:
    default = entry.default if entry.default_factory is MISSING else entry.default_factory()
    return inspect.Parameter(entry.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
