"""`sterna simulate`: one policy on one trace."""

import time
from contextlib import nullcontext
from typing import Annotated

import typer

from sterna.interfaces.cli.choices import PolicyChoice, settings
from sterna.interfaces.cli.options import Output, PolicyName, RunOptions, Settings, taking
from sterna.interfaces.cli.terminal import open_sink, progress, strong, tell_problems, tell_unfinished, write_file

_EPILOG = """\b
Examples:
  sterna simulate --trace jobs.csv --policy afs-l --nodes 16 --gpus-per-node 4
  sterna simulate --generate bursty --jobs 200 --policy elastic-fifo --rescale-cost 90s -o json
  sterna simulate --trace poisson-120 -p las --set demote=jump --placement count -o csv
  sterna simulate --trace poisson-120 --policy dragon --journal run.jsonl
  sterna simulate -t specon-50 -p fifo --nodes 4 --gpus-per-node 0 --cpus-per-node 8 --contention cpu \\
      --placement spread --rebalance specon --migrate-cost 6s --distribution distribution.csv
"""


@taking(RunOptions)
def simulate(
    policy: PolicyName,
    run: RunOptions,
    trace: Annotated[
        str | None,
        typer.Option("--trace", "-t", metavar="FILE", help="The jobs: a file, or a shipped trace by name."),
    ] = None,
    generate: Annotated[
        str | None, typer.Option("--generate", help="Make up the jobs instead: poisson, bursty, diurnal or specon.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many jobs to make up.")] = 120,
    set_: Settings = [],  # noqa: B006 - typer copies it
    output: Annotated[Output, typer.Option("--output", "-o", help="For people: table. For programs: json or csv.")] = (
        Output.TABLE
    ),
    records: Annotated[
        str | None, typer.Option("--records", metavar="FILE", help="Also write one CSV line for each job.")
    ] = None,
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE", help="Also write an HTML page with plots.")
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="FILE", help="Also write everything seen and decided, for `sterna replay`."),
    ] = None,
    save_pins: Annotated[
        str | None,
        typer.Option("--save-pins", metavar="FILE", help="Also write where every job started, for --pin."),
    ] = None,
    distribution: Annotated[
        str | None,
        typer.Option("--distribution", metavar="FILE", help="Also write what rebalancers looked at, as SpeCon does."),
    ] = None,
) -> None:
    """Replay a trace under one policy.

    Reports how long jobs took and how busy the cluster was. The real core decides, on a virtual clock.

    Times are seconds unless they carry a unit: 90, 90s, 1.5m, 2h.
    """
    from sterna.compose.decision_journals import text_journal
    from sterna.compose.simulation import pins_of, run_simulation
    from sterna.interfaces.cli.request_from_options import described, simulation_request
    from sterna.interfaces.reports.page import report_page
    from sterna.interfaces.reports.run_finding import finding, unfinished
    from sterna.interfaces.reports.simulation_tables import (
        distribution_csv,
        records_csv,
        simulation_json,
        summaries_csv,
        summary_card,
    )
    from sterna.wire.traces.pins import dump_pins

    choice = PolicyChoice(policy, tuple(settings(set_).items()))
    request = simulation_request(choice, run, trace=trace, generate=generate, jobs=jobs)
    begun_s = time.monotonic()
    with progress("jobs done") as on_progress, open_sink(journal) if journal else nullcontext() as sink:
        kept = text_journal(request.rules, sink) if sink else None
        outcome = run_simulation(request, on_progress=on_progress, journal=kept)
    result, problems = outcome.result, tuple(problem.sentence for problem in outcome.problems)
    tell_problems(problems)
    tell_unfinished(choice.label, unfinished(result))
    match output:
        case Output.TABLE:
            typer.echo(summary_card(result.summary(), strong=strong))
        case Output.JSON:
            typer.echo(simulation_json(result.summary(), result.records, problems))
        case Output.CSV:
            typer.echo(summaries_csv([result.summary()]), nl=False)
    if records:
        write_file(records, records_csv(result.records))
    if save_pins:
        write_file(save_pins, dump_pins(pins_of(result)))
    if distribution:
        write_file(distribution, distribution_csv(result.considered))
    if report:
        took_s = time.monotonic() - begun_s
        found = finding(result, name=choice.label, options=choice.options_used(), problems=problems, took_s=took_s)
        write_file(report, report_page([found], setting=described(run)))


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(simulate)
