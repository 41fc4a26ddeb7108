"""Promises about rooms and names: import contracts leave nothing out, folders stay small, a stem means one thing."""

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "sterna"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if not path.stem.startswith("__"))
FOLDERS = sorted({path.parent for path in PACKAGE.rglob("*.py")})
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
MODULES_MAX = 15
REASON = re.compile(r"\bone file a \w+", re.IGNORECASE)  # how a folder says why it is larger

# Stems of several modules that mean the same thing in all of them. Commands, and what the two engines and `lifecycle`
# tell of one thing, need no line.
ONE_MEANING = {
    "cgroups": "control groups of Linux: the warden makes them, the monitor reads them",
    "client": "the side that asks, of the protocol that its folder speaks",
    "dragon": "DRAGON, which both sizes jobs and places them",
    "environment": "the variables by which a worker is told who it is",
    "errors": "the exceptions of the scheduler, and those of the training side, which knows no scheduler",
    "evaluations": "what a job says of its quality, taken and judged",
    "happenings": "what happens to nodes of a simulation: values, and the files that they are read from",
    "options": "what may be set by name: of policies and rebalancers, and of commands",
    "prestop": "Kubernetes' hook before a container stops, with and without pytorchjob-migration's interface",
    "registry": "everything of a kind, by name",
    "specon": "SpeCon: the jobs of its experiment, and its rebalancer",
    "trainer_status": "the status file of Hugging Face's Trainer: written, and read",
    "world": "the jobs and nodes that an engine looks after",
}


def named_by(contract: dict[str, Any]) -> set[str]:
    """Modules whose imports a contract restricts, by their full names."""
    if contract["type"] != "layers":
        return set(contract.get("source_modules", ())) | set(contract.get("modules", ()))
    layers = {part.strip(" ()") for layer in contract["layers"] for part in re.split(r"[|:]", layer)}
    return {f"{container}.{layer}" for container in contract["containers"] for layer in layers}


def dotted(path: Path) -> str:
    return ".".join(("sterna", *path.relative_to(PACKAGE).with_suffix("").parts))


def test_every_package_stands_in_an_import_contract():
    named = set().union(*(named_by(contract) for contract in CONTRACTS))
    packages = [dotted(folder) for folder in FOLDERS if folder != PACKAGE]
    outside = [package for package in packages if not any(f"{package}.".startswith(f"{name}.") for name in named)]
    assert outside == []


@pytest.mark.parametrize("package", ["", "engines", "interfaces"])
def test_a_new_module_cannot_stand_beside_the_layers(package):
    """Import Linter itself refuses one that no layer names, as long as the contract says so."""
    container = "sterna" if not package else f"sterna.{package}"
    [contract] = [one for one in CONTRACTS if one["type"] == "layers" and one["containers"] == [container]]
    assert contract["exhaustive"] is True
    assert "exhaustive_ignores" not in contract


def test_no_contract_has_exceptions():
    assert [one["name"] for one in CONTRACTS if "ignore_imports" in one] == []


def test_indirect_imports_count_everywhere_but_where_compose_is_the_way():
    indirect = [one["name"] for one in CONTRACTS if one.get("allow_indirect_imports")]
    assert indirect == ["Only compose constructs an engine: interfaces know none by name"]


def test_nothing_but_compose_constructs_an_engine():
    """Each of these is an engine with all its parts, or runs one; inside, it builds its own."""
    engines = {"LocalScheduler", "Life", "Operator", "ClusterScheduler", "Simulation", "simulate"}
    found = {
        (path.relative_to(PACKAGE).parts[0], node.func.id)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in engines
    }
    assert found == {("compose", engine) for engine in engines}


def test_no_folder_is_large_without_a_reason():
    large = {
        str(folder.relative_to(PACKAGE))
        for folder in FOLDERS
        if sum(path.parent == folder for path in MODULES) > MODULES_MAX
        and not REASON.search(ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "")
    }
    assert large == set(), f"more than {MODULES_MAX} modules, and no `one file a ...` in its docstring"


def test_a_stem_means_one_thing():
    places: defaultdict[str, set[str]] = defaultdict(set)
    for path in MODULES:
        if not is_command(path):
            where = str(path.relative_to(PACKAGE))
            places[path.stem].add(re.sub(r"^(engines/(kubernetes|local)/\w+|lifecycle)/", "life of a job/", where))
    shared = {stem for stem, where in places.items() if len(where) > 1}
    unknown = {stem: sorted(places[stem]) for stem in shared - ONE_MEANING.keys()}
    assert unknown == {}, "rename one of them, or say in the table what they mean in common"
    assert ONE_MEANING.keys() - shared == set(), "used once now: take them out of the table"


def is_command(path: Path) -> bool:
    """Commands are called as what they do: `simulate`, `nodes`, `monitor`."""
    return path.parent == PACKAGE / "interfaces" / "cli" and "def add_to(" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["Phase", "Place", "Places", "Seat"])
def test_a_seat_a_phase_and_a_place_are_one_type_each(name):
    assert len(defining(name)) <= 1, "rename one of them for what it is a phase, a place or a seat of"


def defining(name: str) -> set[str]:
    """Modules that define a type of this name: a class, or a name for one."""
    return {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if (isinstance(node, ast.ClassDef) and node.name == name)
        or (isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets))
    }
