"""The house as its files describe it: storeys from the import contracts, rooms from what packages say of themselves.

Everything is read as text: nothing of an engine is imported to be described.
"""

import ast
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sterna.interfaces.reference.blocks import table

_PACKAGE = "sterna."


class Storey(NamedTuple):
    """Packages that stand side by side: they import what is below, and not each other."""

    packages: tuple[str, ...]


class Room(NamedTuple):
    path: str  # below the package, as a path
    modules: int
    says: str  # what is at home here


def contracts(pyproject: Path) -> list[dict[str, Any]]:
    """The contracts that the import checker holds the code to."""
    document = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = document["tool"]["importlinter"]["contracts"]
    return found


def storeys(rules: list[dict[str, Any]]) -> list[Storey]:
    """From the top down, as the contract about layers of the whole package names them."""
    return [Storey(_side_by_side(layer)) for layer in _stack(rules)["layers"]]


def storeys_block(rules: list[dict[str, Any]], package: Path) -> str:
    """Which package may import which: the stack as a table, and every other contract as a line."""
    stack = storeys(rules)
    rows = []
    for number, storey in enumerate(stack):
        below = [name for lower in stack[number + 1 :] for name in lower.packages]
        for name in storey.packages:
            may = [f"`{one}`" for one in below if one not in _forbidden(rules, name)]
            rows.append((f"`{name}`", _says(package, name), ", ".join(may) or "nothing of these"))
    others = [f"- {_told(rule)}" for rule in rules if rule is not _stack(rules)]
    head = table(("storey, from the top", "what it is for", "may import"), rows)
    return "\n".join([head, "", "Besides, and checked the same way:", "", *others])


def rooms(package: Path, room: str) -> list[Room]:
    """The package `room` and the packages directly in it, with what each says of itself."""
    top = package / room
    inside = sorted(path.parent for path in top.glob("*/__init__.py"))
    return [_room(package, one) for one in (top, *inside)]


def rooms_block(package: Path, names: tuple[str, ...]) -> str:
    found = dict.fromkeys(one for name in names for one in rooms(package, name))  # each once
    rows = [(f"`{one.path}/`", str(one.modules), one.says) for one in found]
    return table(("room", "modules", "what is at home there"), rows)


def walks_block(walks: Mapping[str, Mapping[str, Any]]) -> str:
    """The walks that were measured, each with its numbers and its picture."""
    parts = []
    for name, walk in walks.items():
        again = f"returns to a module within one visit of its caller: at most {walk['reentered']}"
        parts += [
            f"### {walk['title']}",
            f"{walk['modules']} modules, {walk['calls']} calls across modules; {again}.",
            f"![The modules of this walk, in order](images/walk-{name}.svg)",
        ]
    return "\n\n".join(parts)


def _stack(rules: list[dict[str, Any]]) -> dict[str, Any]:
    """The contract about the layers of the whole package; others are about the layers inside one."""
    layered = (rule for rule in rules if rule["type"] == "layers")
    return next(rule for rule in layered if rule.get("containers", []) in ([], [_PACKAGE.rstrip(".")]))


def _side_by_side(layer: str) -> tuple[str, ...]:
    return tuple(_short(name) for name in layer.replace(":", "|").split("|"))


def _forbidden(rules: list[dict[str, Any]], name: str) -> set[str]:
    """What another contract forbids this package although it is below."""
    about = [rule for rule in rules if rule["type"] == "forbidden" and _PACKAGE + name in rule["source_modules"]]
    return {_short(one) for rule in about for one in rule["forbidden_modules"]}


def _room(package: Path, path: Path) -> Room:
    modules = sum(1 for one in path.glob("*.py") if not one.stem.startswith("__"))
    return Room(str(path.relative_to(package)), modules, _paragraphs(path / "__init__.py")[0])


def _says(package: Path, name: str) -> str:
    path = package / name
    return _paragraphs(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))[0]


def _paragraphs(path: Path) -> list[str]:
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return [" ".join(paragraph.split()) for paragraph in doc.split("\n\n")]


def _told(rule: dict[str, Any]) -> str:
    match rule["type"]:
        case "forbidden":
            sources, banned = _named(rule["source_modules"]), _named(rule["forbidden_modules"])
            indirect = "" if rule.get("allow_indirect_imports") else ", not through others either"
            return f"**{rule['name']}.** {sources} must not import {banned}{indirect}."
        case "independence":
            return f"**{rule['name']}.** {_named(rule['modules'])} must not import each other."
        case "layers":
            inside = "".join(f"In `{_short(one)}`: " for one in rule.get("containers", []))
            return (
                f"**{rule['name']}.** {inside}"
                + " above ".join(_named(_side_by_side(one)) for one in rule["layers"])
                + "."
            )
        case kind:
            return f"**{rule['name']}.** ({kind})"


def _named(modules: Sequence[str]) -> str:
    return ", ".join(f"`{_short(name)}`" for name in modules)


def _short(name: str) -> str:
    return name.strip().strip("()").strip().removeprefix(_PACKAGE)
