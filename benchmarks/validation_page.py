"""The words of `docs/validation.md`: what was compared, how, and why some of it differs. Computes nothing."""

from collections.abc import Iterable, Mapping, Sequence

HEADS = ("row", "what", "number", "published", "ours", "difference", "tolerance", "holds")
TESTBED_HEADS = (
    "policy", "measured, s", "replay", "moves", "ours", "ours to replay", "moves", "ties by lot", "moves",
)  # fmt: skip

OPENING = """# Validation

Our numbers beside those of published simulators and of a real testbed. `make validate` writes this page, and fails if a
row does not hold that is not explained here; it needs the published traces (see [Simulator](simulator.md)). Most rows
run in every `make test`.

"Exact" means equal to the last digit that was published. JCT is the time from a job's submission to its end.
"""

COMMANDS = """## The commands

Each row of P1 to P11 is one command; P12 and B3 are P10's and P11's with other workloads. Add `-o json` for all digits.
`STERNA_TRACES` is the directory of the published traces.
"""

CONSERVATION = """## Conservation (S1)

S1 asks that no GPU is used twice, that no job is faster than it could be alone, and that moving a job neither makes nor
loses work. It is checked by `tests/simulation/test_conservation.py` for every policy.
"""

TESTBED = """## Voda's testbed

24 jobs on 3 nodes with 4 real GPUs each, under four schedulers; what is known of it comes from their logs. P15 replays
the recorded decisions and placements, so it tests our execution model alone: work, speed-ups, 84 s for a start and
103 s for any other change. Its tolerance is 5 %, to the digit that the replay we compare with was published with: that
one is 5.0 % short for elastic Tiresias, as is ours. B1 puts our policies and our placement (`--placement repack`) in
Voda's place.
"""

ORDER = {
    True: "The order is the testbed's: AFS-L, then FfDL and elastic FIFO about alike, then elastic Tiresias.",
    False: "The order is **not** the testbed's: AFS-L, then FfDL and elastic FIFO about alike, then elastic Tiresias.",
}

WHY = """"Replay" and "ours" are average JCTs against the measured one, "ours to replay" compares two runs on the same
execution model. "Moves" counts migrations at an unchanged size.

**Why ours are faster: fewer moves.** Voda packs jobs in order of size and leaves jobs of one size in the order in which
Go walks a map, which is another one each time. So jobs change partners, and with them nodes, after decisions that had
nothing to do with them; each move costs 103 s. Ours breaks ties by the job's id and binds a packing so that the fewest
workers move. With ties broken by lot (mean and deviation of 40 seeds), elastic FIFO, FfDL and AFS-L move somewhat more
often than on the testbed and come within 4 % of what was measured. So that one defect is enough to explain the
difference, and is worth 6 to 10 %.

**Elastic Tiresias is further off,** and beyond the 10 % that B1 asks for. Three things add up:

- The replay of its own recorded decisions is 5.0 % short of the measured time already. That part is the execution
  model's, not the policy's.
- Fewer changes of size: 15 against 35, at 103 s each. Moves are about as many (45 against 47).
- A threshold that sits on a knife's edge. A VGG16 or ResNet50 job on two GPUs takes about 765 s with its start and
  leaves the first queue after 900 s. One move too many, or a slow start, and it is stopped shortly before its end and
  waits 2,300 to 2,500 s more: that happened to 4 of the 12 such jobs on the testbed. In our runs with ties by lot each
  job that this happens to adds about 100 s (2 %) to the average of all 24, and their number varies from 0 to 8. Hence a
  deviation three times that of the other policies.

Two defects of Voda's that we corrected were put back to see whether they explain it. Ordering a queue by submission (in
that version first starts were never recorded) changes nothing at all on this trace. Promotion that also acts on
running jobs, by the wait before their last start, gives single runs between 5 and 15 % short, depending on no more than
how the 5 s between two looks are rounded; over 40 runs with ties by lot and looks as Voda's it is 8.5 % (± 3.7 %) short
against 9.7 % (± 3.6 %) without. So neither is an option of the policy: it would make the row hold by luck.

**FfDL's decisions** agree in 21 of 26 cases. It looked at speed-ups learned by then, which the logs do not hold. Where
the two differ, theirs never has the greater sum of speed-ups by the curves that were measured afterwards. In each line,
by job: theirs, ours.
"""


def page(
    lines: Iterable[Sequence[str]],
    commands: Mapping[str, str],
    testbed: Iterable[Sequence[str]],
    differences: Iterable[str],
    *,
    ranked: bool,
) -> str:
    parts = [
        OPENING,
        "## Ours against theirs\n",
        table(HEADS, lines, left=3),
        CONSERVATION,
        TESTBED,
        table(TESTBED_HEADS, testbed, left=1),
        ORDER[ranked] + "\n",
        WHY,
        "".join(f"- {difference}\n" for difference in differences),
        COMMANDS,
        "```sh\n" + "\n".join(f"# {name}\n{words}" for name, words in commands.items()) + "\n```\n",
    ]
    return "\n".join(parts)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int) -> str:
    """The first `left` columns are words, the others numbers."""
    rule = ["---"] * left + ["---:"] * (len(heads) - left)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, rule, *rows))
