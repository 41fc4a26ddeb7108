"""The arms of a scenario as a table for people, as Markdown for documents and as JSON for programs."""

import json
from collections.abc import Callable, Sequence
from statistics import fmean, pstdev
from typing import Any

from sterna.interfaces.reports.grid import Emphasis, aligned, plainly
from sterna.interfaces.scenarios.scenario_catalogue import Scenario
from sterna.interfaces.scenarios.scenario_runs import ArmOutcome, JobChange

_LOSERS_SHOWN = 8
_HEAD = ("arm", "makespan", "mean", "best job", "worst job", "sooner", "later", "moves")


def arms_table(outcomes: Sequence[ArmOutcome], *, strong: Emphasis = plainly) -> str:
    return aligned(_HEAD, [_cells(outcome) for outcome in outcomes], strong=strong)


def arms_markdown(outcomes: Sequence[ArmOutcome]) -> str:
    lines = ["| " + " | ".join(_HEAD) + " |", "|---|" + "---:|" * (len(_HEAD) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(_cells(outcome)) + " |" for outcome in outcomes)])


def losers_text(outcomes: Sequence[ArmOutcome]) -> str:
    """Jobs that end later, arm by arm; where there are many, only those that lose most."""
    lines = []
    for outcome in outcomes[1:]:
        losers = outcome.losers
        shown = ", ".join(_loser(job) for job in losers[:_LOSERS_SHOWN])
        more = f", and {len(losers) - _LOSERS_SHOWN} more" if len(losers) > _LOSERS_SHOWN else ""
        lines.append(f"later under {outcome.arm.name}: {shown or 'no job'}{more}")
    return "\n".join(lines)


def seeds_table(draws: Sequence[Sequence[ArmOutcome]], *, strong: Emphasis = plainly) -> str:
    """Many draws of the same scenario: mean and spread of what the arms change."""
    head = ("arm", "draws", "makespan", "mean", "best job", "worst job", "moves")
    rows = []
    for arms in list(zip(*draws, strict=True))[1:]:
        cells = [_spread([value(one) for one in arms]) for value in _CHANGES]
        rows.append([arms[0].arm.name, str(len(arms)), *cells, f"{fmean(one.moves for one in arms):.1f}"])
    return aligned(head, rows, strong=strong)


def scenario_json(
    scenario: Scenario, outcomes: Sequence[ArmOutcome], draws: Sequence[Sequence[ArmOutcome]] = ()
) -> str:
    document: dict[str, Any] = {
        "scenario": scenario.name,
        "says": scenario.says,
        "arms": [_arm(outcome) for outcome in outcomes],
        "draws": [[_arm(outcome, jobs=False) for outcome in arms] for arms in draws],
    }
    return json.dumps(document, indent=2)


_CHANGES: tuple[Callable[[ArmOutcome], float], ...] = (
    lambda one: one.makespan_change,
    lambda one: one.mean_change,
    lambda one: one.best.change,
    lambda one: one.worst.change,
)


def _cells(outcome: ArmOutcome) -> list[str]:
    numbers = [f"{outcome.makespan_s:.0f} s", f"{outcome.mean_s:.0f} s"]
    if outcome.makespan_change or outcome.mean_change:
        numbers[0] += f" ({outcome.makespan_change:+.1%})"
        numbers[1] += f" ({outcome.mean_change:+.1%})"
    ends = [f"{job.change:+.1%}" for job in (outcome.best, outcome.worst)]
    return [outcome.arm.name, *numbers, *ends, str(outcome.winners), str(len(outcome.losers)), str(outcome.moves)]


def _loser(job: JobChange) -> str:
    return f"{job.job} {job.change:+.0%}"


def _spread(values: Sequence[float]) -> str:
    return f"{fmean(values):+.1%} ± {pstdev(values):.1%}"


def _arm(outcome: ArmOutcome, *, jobs: bool = True) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": outcome.arm.name,
        "says": outcome.arm.says,
        "makespan_s": outcome.makespan_s,
        "makespan_change": outcome.makespan_change,
        "mean_s": outcome.mean_s,
        "mean_change": outcome.mean_change,
        "best_change": outcome.best.change,
        "worst_change": outcome.worst.change,
        "moves": outcome.moves,
        "losers": [job.job for job in outcome.losers],
    }
    if jobs:
        record["jobs"] = [
            {
                "id": job.job,
                "category": job.category,
                "jct_s": job.after_s,
                "first_arm_jct_s": job.before_s,
                "change": job.change,
                "moves": job.moves,
            }
            for job in outcome.jobs
        ]
    return record
