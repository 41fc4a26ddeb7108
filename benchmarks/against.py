"""Is this checkout slower than an earlier commit? Both run the same benchmarks side by side, in one run.

    python -m benchmarks.against REV [--quick] [--only decision,simulator,kubernetes] [--pairs N] [--out FILE]

REV is checked out into a temporary worktree. The two take turns (A B, B A, A B, ...), each with its own benchmarks and
sources and in processes of its own, so that a machine that slows down slows down both. Of each measure, the ratio of
now to then is taken within each pair; told are the median of these ratios and its noise, which is twice the standard
error of that median as the pairs themselves show it. Ends with 1 when a benchmark as a whole, or one of its measures,
is slower by more than 5 % and by more than 5 % plus its noise.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reference_rows import traces_directory

ROOT = Path(__file__).parents[1]
SLOWER_MAX = 1.05
WHOLE = "all together"
_ERROR_OF_MEDIAN = 1.2533  # of normal noise, in standard deviations over the root of the number of samples
PAIRS_MIN = 3  # fewer do not show how much they differ by chance
Measures = Mapping[str, float]  # what is less is better


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...]
    measures: Callable[[Any], Measures]


@dataclass(frozen=True, slots=True)
class Verdict:
    benchmark: str
    measure: str
    ratio: float  # now to then: above 1 is slower
    noise: float  # as a share
    pairs: int

    @property
    def slower(self) -> bool:
        return self.ratio > SLOWER_MAX + self.noise

    def __str__(self) -> str:
        words = "  SLOWER" if self.slower else ""
        return f"{self.benchmark:12}{self.measure:44}{self.ratio:7.3f}  ± {self.noise:.3f}{words}"


def decision_measures(report: Any) -> Measures:
    return {
        f"{row['policy']} {row['nodes']}x{row['running'] + row['queued']} {kind}": row[f"{kind}_p50_ms"]
        for row in report["rows"]
        for kind in ("full", "event")
    }


def simulator_measures(report: Any) -> Measures:
    return {row["case"]: row["simulate_s"] for row in report["rows"]}


def kubernetes_measures(report: Any) -> Measures:
    return {"a pod placed": 1 / report["sterna_per_s"], "first decision": report["first_decision_s"]}


BENCHMARKS = {
    "decision": Benchmark(
        arguments=("--quick", "--repeats", "9"),
        quick=("--quick", "--policies", "elastic-fifo,srjf,afs-l,elastic-tiresias"),
        measures=decision_measures,
    ),
    "simulator": Benchmark(arguments=("--quick",), quick=("--quick", "--only", "AFS"), measures=simulator_measures),
    "kubernetes": Benchmark(
        arguments=("--pods", "2000", "--nodes", "200", "--idle", "1"),
        quick=("--pods", "500", "--nodes", "50", "--idle", "1"),
        measures=kubernetes_measures,
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rev", metavar="REV", help="the commit to compare with")
    parser.add_argument("--quick", action="store_true", help="smaller worlds and fewer pairs")
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="which benchmarks")
    parser.add_argument("--pairs", type=int, default=None, help="runs of each side. Default: 7, or 3 with --quick")
    parser.add_argument("--out", metavar="FILE", help="write verdicts and all measures there as JSON")
    given = parser.parse_args()
    names = given.only.split(",")
    if unknown := [name for name in names if name not in BENCHMARKS]:
        parser.error(f"--only {unknown[0]}: expected one of {', '.join(BENCHMARKS)}")
    pairs = given.pairs or (3 if given.quick else 7)
    if pairs < PAIRS_MIN:
        parser.error(f"--pairs {pairs}: expected {PAIRS_MIN} or more, which show how much pairs differ by chance")
    with tempfile.TemporaryDirectory(prefix="sterna-against-") as directory, _checkout(given.rev, directory) as then:
        runs = {name: _measured(name, then, pairs, given.quick) for name in names}
    found = [verdict for name, sides in runs.items() for verdict in verdicts(name, *sides)]
    print(f"{'benchmark':12}{'measure':44}{'now/then':>8} noise, {pairs} pairs against {given.rev}")
    for verdict in found:
        print(verdict)
    if given.out:
        told = [{**_fields(verdict), "slower": verdict.slower} for verdict in found]
        measured = {name: {"then": before, "now": after} for name, (before, after) in runs.items()}
        document = {"against": given.rev, "verdicts": told, "measures": measured}
        Path(given.out).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    slower = [verdict for verdict in found if verdict.slower]
    print(f"{len(slower)} slower by more than {SLOWER_MAX - 1:.0%} and the noise" if slower else "nothing is slower")
    return 1 if slower else 0


def verdicts(benchmark: str, then: Sequence[Measures], now: Sequence[Measures]) -> list[Verdict]:
    """The benchmark as a whole first, then each of its measures. Measures that only one side has are left out."""
    names = [name for name in then[0] if all(name in one for one in (*then, *now))]
    ratios = {name: [after[name] / before[name] for before, after in zip(then, now, strict=True)] for name in names}
    whole = [statistics.geometric_mean(pair) for pair in zip(*ratios.values(), strict=True)]
    return [_verdict(benchmark, name, values) for name, values in {WHOLE: whole, **ratios}.items() if values]


def _verdict(benchmark: str, measure: str, ratios: Sequence[float]) -> Verdict:
    middle = statistics.median(ratios)
    deviation = (
        statistics.stdev(ratios) if len(ratios) >= PAIRS_MIN else math.inf
    )  # of three, robust ones say too little
    return Verdict(benchmark, measure, middle, 2 * _ERROR_OF_MEDIAN * deviation / math.sqrt(len(ratios)), len(ratios))


def _fields(verdict: Verdict) -> dict[str, Any]:
    return {name: getattr(verdict, name) for name in Verdict.__slots__}


@contextmanager
def _checkout(rev: str, directory: str) -> Iterator[Path]:
    """The commit in a worktree of its own, for as long as it is needed."""
    place = Path(directory) / "then"
    subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(place), rev], check=True)
    try:
        yield place
    finally:
        subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(place)], check=False)


def _measured(name: str, then: Path, pairs: int, quick: bool) -> tuple[list[Measures], list[Measures]]:
    """Both sides, pair by pair; which one goes first alternates."""
    found: dict[Path, list[Measures]] = {then: [], ROOT: []}
    for pair in range(pairs):
        for checkout in (then, ROOT) if pair % 2 == 0 else (ROOT, then):
            side = "now" if checkout is ROOT else "then"
            print(f"-- {name}, pair {pair + 1} of {pairs}, {side}", file=sys.stderr, flush=True)
            found[checkout].append(_run(name, checkout, quick))
    return found[then], found[ROOT]


def _run(name: str, checkout: Path, quick: bool) -> Measures:
    benchmark = BENCHMARKS[name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(checkout)])}
    if (traces := traces_directory()) is not None:
        environment["STERNA_TRACES"] = str(traces.absolute())
    with tempfile.NamedTemporaryFile(prefix=f"sterna-{name}-", suffix=".json") as report:
        arguments = benchmark.quick if quick else benchmark.arguments
        command = [sys.executable, "-m", f"benchmarks.{name}", *arguments, "--json", report.name]
        subprocess.run(command, cwd=checkout, env=environment, check=True, stdout=subprocess.DEVNULL)
        return benchmark.measures(json.load(report))


if __name__ == "__main__":
    sys.exit(main())
