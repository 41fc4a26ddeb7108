"""Numbers as text, CSV, JSON and Markdown."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from sterna.engines.simulator.results import Summary
from sterna.interfaces.reports.grid import aligned
from sterna.interfaces.reports.run_finding import finding
from sterna.interfaces.reports.simulation_tables import (
    markdown_table,
    records_csv,
    simulation_json,
    summaries_csv,
    summary_card,
    summary_table,
)
from sterna.interfaces.reports.summary_columns import COLUMNS
from tests.interfaces.results import record, result

FAST, SLOW = result("afs-l", slower=1).summary(), result("fifo", slower=2).summary()


def test_every_number_of_a_summary_is_reported():
    assert [column.name for column in COLUMNS] == list(Summary.__dataclass_fields__)


def test_columns_line_up_under_their_heads():
    lines = aligned(("policy", "n"), [("a", "1,000"), ("longer-name", "2")]).splitlines()
    assert lines == ["policy           n", "a            1,000", "longer-name      2"]


def test_a_card_has_units_and_says_long_times_twice():
    card = summary_card(SLOW)
    assert re.search(r"completion time, average +238\.0 s  \(3 min 58 s\)", card)
    assert re.search(r"GPU time in use +50\.0%", card)


def test_a_table_is_grouped_by_trace():
    text = summary_table([FAST, SLOW, result("fifo", "other").summary()])
    assert text.count("times in seconds") == 2
    assert text.index("tiny: 3 jobs") < text.index("afs-l") < text.index("other: 3 jobs")


def test_a_table_fits_its_width_and_says_what_it_leaves_out():
    long = [replace(run, jct_avg_s=1e6, waiting_avg_s=1e7, makespan_s=1e7, preemptions=99_999) for run in (FAST, SLOW)]
    for width in (80, 100, 120):
        text = summary_table(long, width=width)
        assert max(len(line) for line in text.splitlines()) <= width, width
        assert "makespan" in text
    left_out = summary_table(long, width=100).splitlines()[-1]
    assert left_out == "with -o wide: p90, lost GPU-h, decide p99 ms"
    assert "decide p99 ms" in summary_table(long).splitlines()[1]


def test_markdown_of_several_traces_names_each_and_marks_the_best_of_each():
    others = [result(policy, "other", slower=factor).summary() for policy, factor in (("afs-l", 3), ("fifo", 4))]
    text = markdown_table([FAST, SLOW, *others])
    tiny, other = text.split("**other**")
    assert tiny.startswith("**tiny**, 3 jobs\n\n| policy |")
    assert ("**119.0**" in tiny, "**357.0**" in other) == (True, True)
    assert "**" not in tiny.splitlines()[-2], "fifo is the slower one there"


def test_markdown_marks_the_best_where_there_is_a_better():
    lines = markdown_table([FAST, SLOW]).splitlines()
    assert lines[1].startswith("|---|---:|")
    assert "**119.0**" in lines[2]
    assert "**" not in lines[3]


def test_csv_keeps_every_digit():
    rows = list(csv.DictReader(io.StringIO(summaries_csv([FAST]))))
    assert float(rows[0]["jct_avg_s"]) == FAST.jct_avg_s
    assert rows[0]["policy"] == "afs-l"


def test_a_job_that_never_ran_has_empty_cells():
    rows = list(csv.DictReader(io.StringIO(records_csv([record("a, b", refused="too big")]))))
    assert rows[0]["id"] == "a, b"
    assert rows[0]["jct_s"] == rows[0]["first_started_s"] == ""
    assert rows[0]["refused"] == "too big"


def test_json_has_summary_jobs_and_problems():
    answer = json.loads(simulation_json(FAST, result().records, ["line 3: workers: 'x' is not valid"]))
    assert answer["summary"]["jct_avg_s"] == FAST.jct_avg_s
    assert answer["jobs"][0]["segments"] == [{"from_s": 0, "to_s": 60, "workers": 2, "nodes": ["node-000"]}]
    assert len(answer["problems"]) == 1


@pytest.mark.parametrize("jobs", [3, 300])
def test_a_finding_is_cut_down_without_changing_its_numbers(jobs):
    whole = result(jobs=jobs)
    cut = finding(whole, name="fifo:size=max")
    assert cut.summary.policy == cut.result.policy == "fifo:size=max"
    assert cut.summary.jct_p99_s == whole.summary().jct_p99_s
    assert cut.result.utilisation() == pytest.approx(whole.utilisation())
    assert sum(bool(one.segments) for one in cut.result.records) == min(jobs, 200)


def test_many_samples_are_thinned_without_changing_utilisation():
    whole = result(jobs=5000)
    cut = finding(whole, name="fifo")
    assert len(cut.result.samples) < len(whole.samples)
    assert cut.result.utilisation() == pytest.approx(whole.utilisation())
