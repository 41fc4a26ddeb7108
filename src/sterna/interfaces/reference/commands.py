"""The reference page of the command line, from the commands themselves.

Written from their signatures rather than from `--help` output, whose layout belongs to the library that prints it.
"""

import inspect
from collections.abc import Callable
from enum import StrEnum
from typing import Any, get_args, get_origin

from sterna.interfaces.cli.main import EPILOG, cli, sterna
from sterna.interfaces.reference.blocks import table


def commands_page() -> str:
    parts = ["# Commands", _prose(sterna), _parameters(sterna), _example(EPILOG)]
    commands = [(command.callback, command.epilog) for command in cli.registered_commands if command.callback]
    for command, epilog in sorted(commands, key=lambda pair: pair[0].__name__):
        parts += [f"## sterna {command.__name__}", _prose(command), _parameters(command), _example(epilog)]
    words = "`sterna --install-completion` installs completion for this shell; `sterna --show-completion` prints it."
    parts += ["## Completion", words]
    return "\n\n".join(part for part in parts if part) + "\n"


def _prose(command: Callable[..., Any]) -> str:
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _example(words: str | None) -> str:
    """What stands below a command's help, as it stands there."""
    return "```text\n" + words.replace("\b", "").strip() + "\n```" if words else ""


def _parameters(command: Callable[..., Any]) -> str:
    parameters = inspect.signature(command).parameters.values()
    rows = [_row(parameter) for parameter in parameters if not get_args(parameter.annotation)[1].hidden]
    return table(("option", "meaning", "default"), rows) if rows else ""


def _row(parameter: inspect.Parameter) -> tuple[str, ...]:
    """`parameter` is annotated with its type and with what typer was told of it."""
    kind, told = get_args(parameter.annotation)
    kinds = [part for part in get_args(kind) or (kind,) if part is not type(None)]
    value = told.metavar or _value(kinds[0])
    names = ", ".join(f"`{name}`" for name in _names(told)) or f"`{told.metavar or f'[{parameter.name.upper()}]'}`"
    if names.startswith("`-") and bool not in kinds:
        names += f" {value}"
    return names, told.help or "", _default(parameter)


def _names(told: Any) -> list[str]:
    """In an annotation, typer keeps the first of an option's names where a default would be."""
    first = [told.default] if isinstance(told.default, str) else []
    return [*first, *(told.param_decls or ())]


def _value(kind: Any) -> str:
    if inspect.isclass(kind) and issubclass(kind, StrEnum):
        return " or ".join(kind)
    return "NUMBER" if (get_origin(kind) or kind) in (int, float) else "TEXT"


def _default(parameter: inspect.Parameter) -> str:
    value = parameter.default
    if value is inspect.Parameter.empty:
        return "needed"
    if value is None or value is False or value == []:
        return ""
    return ", ".join(value) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else str(value)
