"""`sterna scenario`: experiments that others published, run again with one command."""

from enum import StrEnum
from typing import Annotated

import typer

from sterna.interfaces.cli.terminal import progress, strong, write_file

_EPILOG = """\b
Examples:
  sterna scenario
  sterna scenario specon-50 --figure specon.svg
  sterna scenario specon-50-uneven --seeds 20
  sterna scenario container-migration-a -o json
\b
Every job starts on the same node in all arms: arms differ in what was moved, and in nothing else.
"""


class ScenarioOutput(StrEnum):
    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


def scenario(
    name: Annotated[str | None, typer.Argument(help="Which one. Without a name, all are listed.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Draw the jobs anew instead of taking the shipped ones.")
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=0, max=1000, help="Also run on so many draws, seeds 1, 2, ...")
    ] = 0,
    output: Annotated[ScenarioOutput, typer.Option("--output", "-o", help="What to print.")] = ScenarioOutput.TABLE,
    figure: Annotated[
        str | None, typer.Option("--figure", metavar="FILE", help="Also write an SVG picture of all jobs.")
    ] = None,
    distribution: Annotated[
        str | None,
        typer.Option("--distribution", metavar="FILE", help="Also write what the second arm's rebalancer looked at."),
    ] = None,
) -> None:
    """Run a published experiment again, all arms side by side.

    Prints how much sooner jobs are done in each arm than in the first, for whom, and who pays for it.
    """
    from sterna.interfaces.scenarios.scenario_catalogue import SCENARIOS, scenario_named

    if name is None:
        width = max(len(one.name) for one in SCENARIOS)
        for one in SCENARIOS:
            typer.echo(f"{strong(one.name.ljust(width))}  {one.says}")
        return
    from sterna.interfaces.plots.arms import changes_plot
    from sterna.interfaces.reports.simulation_tables import distribution_csv
    from sterna.interfaces.scenarios.scenario_runs import run_scenario
    from sterna.interfaces.scenarios.scenario_text import (
        arms_markdown,
        arms_table,
        losers_text,
        scenario_json,
        seeds_table,
    )

    chosen = scenario_named(name)
    with progress("draws done") as on_progress:
        outcomes = run_scenario(chosen, seed=seed)
        draws = []
        for number in range(1, seeds + 1):
            draws.append(run_scenario(chosen, seed=number))
            on_progress(number, seeds)
    match output:
        case ScenarioOutput.TABLE:
            typer.echo(f"{chosen.says}\n\n{arms_table(outcomes, strong=strong)}\n\n{losers_text(outcomes)}")
            if draws:
                typer.echo(f"\nmean and standard deviation over draws:\n{seeds_table(draws, strong=strong)}")
        case ScenarioOutput.JSON:
            typer.echo(scenario_json(chosen, outcomes, draws))
        case ScenarioOutput.MARKDOWN:
            typer.echo(arms_markdown(outcomes))
    if figure:
        arms = [(one.arm.name, [job.after_s for job in one.jobs]) for one in outcomes]
        write_file(figure, changes_plot(arms, title=chosen.says))
    if distribution:
        write_file(distribution, distribution_csv(outcomes[1].result.considered))


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(scenario)
