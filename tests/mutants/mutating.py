"""Reads the list of mutations, and makes a copy of the sources with one of them in it."""

import shutil
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sterna"
CATALOGUE = Path(__file__).parent / "catalogue.txt"


class Mutant(NamedTuple):
    """One change of one line. `before` stands in the file exactly once."""

    path: str  # below the package
    before: str
    after: str
    tests: tuple[str, ...]  # of which one fails

    @property
    def name(self) -> str:
        return f"{self.path}: {' '.join(self.before.split())} -> {' '.join(self.after.split())}"


def mutants(text: str) -> list[Mutant]:
    found = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            path, before, after, tests = line.split(" | ")
            found.append(Mutant(path, before.replace("\\n", "\n"), after.replace("\\n", "\n"), tuple(tests.split())))
    return found


def mutated(mutant: Mutant) -> str:
    """The text of the file with the mutation in it."""
    text = (SOURCE / mutant.path).read_text(encoding="utf-8")
    count = text.count(mutant.before)
    if count != 1:
        raise ValueError(f"{mutant.name}: stands there {count} times, not once")
    return text.replace(mutant.before, mutant.after)


def mutated_tree(mutant: Mutant, place: Path) -> Path:
    """A checkout in `place` in which the tests run against the mutation; everything else is linked to."""
    shutil.copytree(SOURCE, place / "src" / "sterna", ignore=shutil.ignore_patterns("__pycache__"))
    for entry in ROOT.iterdir():
        if entry.name not in ("src", ".git", "out"):
            (place / entry.name).symlink_to(entry)
    (place / "src" / "sterna" / mutant.path).write_text(mutated(mutant), encoding="utf-8")
    return place
