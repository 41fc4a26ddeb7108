"""Jobs whose programs earn a verdict that is known beforehand: whatever happens to the machine, that is how they end.

A program that is killed is tried again as often as it takes; one that fails by itself fails whenever it is tried.
"""

import random
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.up import manifest, toy

STEADY: dict[str, Any] = {"runPolicy": {"backoffLimit": 1000}}  # being killed is nobody's failure here


class Errand(NamedTuple):
    name: str
    text: str  # its manifest
    earns: str  # the phase that its program earns
    steps: int = 0  # that its trace must have. 0: it trains nothing


def drawn(chance: random.Random, number: int, place: Path) -> Errand:
    """Half of them are over at once, a quarter train, a quarter fail."""
    kind = chance.choices(("brief", "fails", "trains", "stretches"), (50, 25, 15, 10))[0]
    name = f"{kind}-{number}"
    match kind:
        case "brief":
            pause_s = chance.uniform(0.0, 0.05)
            return Errand(name, manifest(name, "sleep", f"{pause_s:.3f}", **STEADY), "Succeeded")
        case "fails":
            policy = {"backoffLimit": chance.choice((0, 0, 1))}
            return Errand(name, manifest(name, "sh", "-c", "exit 3", runPolicy=policy), "Failed")
        case _:
            steps = chance.randrange(20, 120)
            workers = (1, chance.choice((2, 3))) if kind == "stretches" else (1, 1)
            text = toy(name, place, steps=steps, step_s=0.05, workers=workers, **STEADY)
            return Errand(name, text, "Succeeded", steps)


def complaint(errand: Errand, phase: str, trace: Path) -> str | None:
    """What is wrong with how it ended; None if nothing is."""
    if phase != errand.earns:
        return f"{errand.name} earned {errand.earns} and is {phase}"
    if errand.steps and (missing := set(range(errand.steps)) - _steps_in(trace)):
        return f"{errand.name} left out steps {sorted(missing)[:5]}"
    return None


def _steps_in(trace: Path) -> set[int]:
    """A step may stand there twice: a killed worker trains again from its checkpoint. A last line may be cut off."""
    lines = [line.split() for line in trace.read_text().splitlines()] if trace.exists() else []
    return {int(words[3]) for words in lines if len(words) == 4}
