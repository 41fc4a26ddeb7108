"""Every row of ours against theirs, written as a page: `python -m benchmarks.validate docs/validation.md`.

Exits with 1 if a row does not hold, or if the published traces are not there (then the page is left alone). Nothing in
the page depends on the machine, so that two runs write the same bytes and a test can look for lines in it.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks.reference_rows import ROWS, ReferenceRow, traces_directory
from benchmarks.validation_page import page
from benchmarks.voda_testbed import POLICIES, SEEDS, agreement, as_voda, as_voda_words, measured, replayed, simulated
from sterna.compose.simulation import run_simulation

NAMES = {
    "jct_avg_s": "average JCT, s",
    "jct_p99_s": "99th percentile, s",
    "makespan_s": "makespan, s",
    "preemptions": "preemptions",
    "restarts": "restarts",
}
REPLAY_WITHIN = {"average JCT, s": 0.0505, "makespan, s": 0.03}  # 5 %, to the one digit of the published replay
RANK_WITHIN = 0.10
SAME_SHARE = 0.9
COMPARED = ("ElasticFIFO", "FfDLOptimizer")  # the others look at progress, which the logs do not hold
LOADS = {  # published means over eight workloads, by policy's row and load
    "P10": {"0.5": 2091.5, "1.0": 4038.2, "1.5": 6182.4, "2.0": 10_039.5},
    "P11": {"0.5": 2395.4, "1.0": 5681.9, "1.5": 7234.6, "2.0": 9721.0},
}
MEANS_WITHIN = {"P10": 0.02, "P11": 0.03}
LOADS_WITHIN = 0.05
YES, NO = "yes", "**no**"


class Line(NamedTuple):
    """One number of ours beside one of theirs."""

    row: str
    what: str
    measure: str
    theirs: float
    ours: float
    tolerance: str
    holds: bool
    remark: str = ""  # beside a plain yes or no

    @property
    def verdict(self) -> str:
        plain = YES if self.holds else NO
        return f"{plain}; {self.remark}" if self.remark else plain

    @property
    def cells(self) -> tuple[str, ...]:
        digits = 0 if self.measure in ("preemptions", "restarts", "decisions") else 1
        return (
            self.row, self.what, self.measure, f"{self.theirs:,.{digits}f}", f"{self.ours:,.{digits}f}",
            f"{self.off:+.2%}".replace("%", " %"), self.tolerance, self.verdict,
        )  # fmt: skip

    @property
    def off(self) -> float:
        """The relative difference, without a minus before nothing."""
        return round(self.ours / self.theirs - 1, 4) + 0.0


def reference_lines(row: ReferenceRow, traces: Path) -> list[Line]:
    """P1 to P11: one simulation, one line for each number that was published."""
    summary = run_simulation(row.request(traces)).result.summary()
    found = {name: getattr(summary, name, 0.0) for name in row.expected}
    found["restarts"] = summary.resizes + summary.migrations + summary.preemptions
    tolerance = _percent(row.within) if row.within else ("exact" if row.digits else "exact, no digits published")
    return [
        Line(row.id, row.what, NAMES[name], theirs, found[name], tolerance, row.holds(name, found[name]))
        for name, theirs in row.expected.items()
    ]


def load_lines(traces: Path) -> Iterator[Line]:
    """P12 and B3: the mean over eight workloads of Pollux, at four loads."""
    for row in ROWS:
        for load, theirs in LOADS.get(row.id, {}).items():
            ours = fmean(
                run_simulation(_at_load(row, load, number).request(traces)).result.summary().jct_avg_s
                for number in range(1, 9)
            )
            usual = load == "1.0"
            within = MEANS_WITHIN[row.id] if usual else LOADS_WITHIN
            what = f"{row.policy} in Pollux' simulator, mean of 8 workloads" + ("" if usual else f", {load} x the load")
            holds = abs(ours / theirs - 1) <= within
            yield Line("P12" if usual else "B3", what, NAMES["jct_avg_s"], theirs, ours, _percent(within), holds)


def _at_load(row: ReferenceRow, load: str, number: int) -> ReferenceRow:
    directory = "workloads" if load == "1.0" else f"workloads-{load}"
    return replace(row, trace=f"pollux/{directory}/workload-{number}.csv")


def voda_lines(directory: Path) -> Iterator[Line]:
    """P15, B1 and B2."""
    for name in POLICIES:
        ours, theirs = replayed(directory, name), measured(directory, name)
        for measure, value, was in (
            ("average JCT, s", ours.jct_avg_s, theirs.jct_avg_s),
            ("makespan, s", ours.makespan_s, theirs.makespan_s),
        ):
            within = REPLAY_WITHIN[measure]
            what = f"{name}: its recorded decisions on our execution model"
            yield Line("P15", what, measure, was, value, _percent(within), abs(value / was - 1) <= within)
    for name in POLICIES:
        value, was = as_voda(directory, name).jct_mean_s, measured(directory, name).jct_avg_s
        what = f"{name}: our policy in its place, with Voda's defects; mean of {SEEDS} seeds"
        yield Line("B1", what, NAMES["jct_avg_s"], was, value, "10 %", abs(value / was - 1) <= RANK_WITHIN)
    for name in COMPARED:
        found = agreement(directory, name)
        enough = found.share >= SAME_SHARE
        yield Line(
            "B2", f"{name}: decisions that are the same", "decisions", found.decisions, found.same,
            "90 %, else documented", enough or not found.worse, remark="" if enough else "documented below",
        )  # fmt: skip


def ranking_holds(directory: Path) -> bool:
    """B1's order, with Voda's defects and without."""
    with_defects = {name: as_voda(directory, name).jct_mean_s for name in POLICIES}
    without = {name: simulated(directory, name).jct_avg_s for name in POLICIES}
    return ranked_as_measured(with_defects) and ranked_as_measured(without)


def ranked_as_measured(jct: Mapping[str, float]) -> bool:
    """AFS-L first, FfDL and elastic FIFO about alike, elastic Tiresias last."""
    middle = (jct["FfDLOptimizer"], jct["ElasticFIFO"])
    return jct["AFS-L"] < min(middle) and max(middle) < 1.05 * min(middle) and max(middle) < jct["ElasticTiresias"]


def voda_table(directory: Path) -> list[tuple[str, ...]]:
    """The four policies four ways: measured, replayed, ours with Voda's defects, and ours as they are."""
    rows: list[tuple[str, ...]] = []
    for name in POLICIES:
        was, replay = measured(directory, name), replayed(directory, name)
        lots, ours = as_voda(directory, name), simulated(directory, name)
        rows.append((
            name, f"{was.jct_avg_s:,.0f}",
            _against(replay.jct_avg_s, was.jct_avg_s), str(replay.migrations), str(replay.resizes),
            f"{_against(lots.jct_mean_s, was.jct_avg_s)} (± {lots.jct_deviation_s / was.jct_avg_s * 100:.1f} %)",
            f"{lots.migrations:.0f}", f"{lots.resizes:.0f}",
            _against(ours.jct_avg_s, was.jct_avg_s), str(ours.migrations), str(ours.resizes),
        ))  # fmt: skip
    return rows


def command(row: ReferenceRow) -> str:
    """The command line that repeats the row; `$STERNA_TRACES` stands for where the traces are."""
    return _command(row.trace, row.policy, row.settings, (row.nodes, row.gpus_per_node), row.more)


def voda_command(name: str) -> str:
    """The command line of one of B1's runs: that of seed 0."""
    words = {**as_voda_words(Path(), name), "seed": 0}
    more = {key: words[key] for key in _TESTBED_OPTIONS}
    shape = (words["nodes"], words["gpus_per_node"])
    return _command(f"voda-testbed/{words['trace']}", words["policy"], words["settings"], shape, more)


def _command(
    trace: str, policy: str, settings: Mapping[str, str], shape: tuple[int, int], more: Mapping[str, object]
) -> str:
    words = [f"sterna simulate --trace $STERNA_TRACES/{trace} --policy {policy}"]
    words += [f"--set {name}={value}" for name, value in settings.items()]
    words.append(f"--nodes {shape[0]} --gpus-per-node {shape[1]}")
    words += [_option(name, value) for name, value in more.items()]
    return " ".join(words)


_TESTBED_OPTIONS = (
    "model", "sizing", "placement", "start_cost_s", "rescale_cost_s", "migrate_cost_s", "rate_limit_s", "seed",
)  # fmt: skip
_OPTIONS: Mapping[str, str] = {
    "foretells_again": "foretell-again",
    "start_cost_s": "start-cost",
    "rescale_cost_s": "rescale-cost",
    "migrate_cost_s": "migrate-cost",
    "interval_s": "interval",
    "rate_limit_s": "rate-limit",
}


def _option(name: str, value: object) -> str:
    option = "--" + _OPTIONS.get(name, name.replace("_", "-"))
    if value is True:
        return option
    if name == "profiles":
        return f"{option} $STERNA_TRACES/{value}"
    return f"{option} {value:g}s" if isinstance(value, float) else f"{option} {value}"


def _against(ours: float, theirs: float) -> str:
    return f"{ours / theirs - 1:+.1%}".replace("%", " %")


def _percent(share: float) -> str:
    return f"{share * 100:g} %"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m benchmarks.validate PAGE", file=sys.stderr)
        return 2
    traces = traces_directory()
    if traces is None:
        print(f"No published traces (set STERNA_TRACES): {arguments[0]} stays as it is.", file=sys.stderr)
        return 1
    lines: list[Line] = []
    for found in _all_lines(traces):
        lines.append(found)
        print("  ".join(found.cells), flush=True)
    testbed = traces / "voda-testbed"
    ranked = ranking_holds(testbed)
    commands = {f"{row.id}, {row.what}": command(row) for row in ROWS}
    commands |= {f"B1, {name}, seed 0": voda_command(name) for name in POLICIES}
    differences = agreement(testbed, "FfDLOptimizer").differences
    words = page([line.cells for line in lines], commands, voda_table(testbed), differences, ranked=ranked)
    Path(arguments[0]).write_text(words)
    failed = [line for line in lines if not line.holds]
    unexplained = [line for line in failed if not line.remark]
    print(
        f"{len(lines) - len(failed)} of {len(lines)} numbers hold; the testbed's order {'holds' if ranked else 'FAILS'}"
    )
    return 1 if unexplained or not ranked else 0


def _all_lines(traces: Path) -> Iterator[Line]:
    for row in ROWS:
        yield from reference_lines(row, traces)
    yield from load_lines(traces)
    yield from voda_lines(traces / "voda-testbed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
