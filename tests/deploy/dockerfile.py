"""A Dockerfile as far as its promises can be checked without building it: stages, what they copy, run, and run as."""

import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    name: str
    base: str  # an image, or the name of an earlier stage
    instructions: list[tuple[str, str]] = field(default_factory=list)  # word and the rest, continued lines joined

    def all(self, word: str) -> list[str]:
        return [rest for instruction, rest in self.instructions if instruction == word]


def stages(path: Path) -> dict[str, Stage]:
    """By name, in order; build arguments in FROM lines are filled in with their defaults."""
    text = re.sub(r"\\\n", " ", path.read_text())
    found: dict[str, Stage] = {}
    arguments: dict[str, str] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        if line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            match = re.fullmatch(r"(\S+) AS (\S+)", rest)
            assert match, f"every stage has a name: {line}"
            base = re.sub(r"\$\{(\w+)\}", lambda name: arguments[name[1]], match[1])
            found[match[2]] = Stage(match[2], base)
        elif not found:
            assert word == "ARG", f"nothing but arguments before the first stage: {line}"
            name, _, value = rest.partition("=")
            arguments[name] = value
        else:
            list(found.values())[-1].instructions.append((word, rest))
    return found


def lineage(found: dict[str, Stage], name: str) -> list[Stage]:
    """The stage and those it is built upon, the first one first."""
    line = [found[name]]
    while line[0].base in found:
        line.insert(0, found[line[0].base])
    return line
