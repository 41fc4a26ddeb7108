"""What the page about progress says is so."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from sterna.model.growth import Category
from sterna.model.judging import Judge, Judged
from sterna.model.judging.categories import TRANSITIONS, Sign
from sterna.model.options import shown

PAGE = Path(__file__).parents[3] / "docs" / "progress.md"


def rows_under(heading: str) -> Iterator[list[str]]:
    """Cells of the last table under a heading, without its two header lines."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip().strip("`") for cell in line.strip("|").split("|")]


def test_the_table_of_categories_is_the_one_that_is_used():
    drawn = {
        (Category(row[0]), sign): Category(cell)
        for row in rows_under("How it is judged")
        for sign, cell in zip(Sign, row[1:], strict=True)
    }
    assert drawn == TRANSITIONS


def test_every_option_is_there_with_its_default():
    written = [tuple(row) for row in rows_under("What can be set")]
    assert written == [
        (entry.name.replace("_", "-"), shown(entry.default), entry.metadata["doc"]) for entry in fields(Judge)
    ]


def test_the_example_is_what_happens():
    judged, seen = Judged.fresh(Judge()), 0
    for at, value, _, score, efficiency, category in rows_under("An example"):
        judged, seen = judged.seen(float(at.removesuffix(" s")), float(value), 2000), seen + 1
        growth = judged.growth
        assert growth.category == category
        if growth.score is None or growth.efficiency is None:
            assert (seen, score, efficiency) == (1, "", "")
            continue
        assert growth.score == pytest.approx(float(score), abs=0.00051)
        assert growth.efficiency == pytest.approx(float(efficiency), abs=0.00051)
    assert seen == 9
