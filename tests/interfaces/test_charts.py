"""Pictures: well-formed, inside their frame, described in words, and true to the numbers."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.engines.simulator.results import Sample, SimulationResult
from sterna.interfaces.plots.bars import bar_comparison, comparison_figure
from sterna.interfaces.plots.cdf import cdf_plot
from sterna.interfaces.plots.gantt import gantt_plot, picked
from sterna.interfaces.plots.svg import PALETTE, text_width
from sterna.interfaces.plots.utilisation import busy_share, resampled, utilisation_plot
from tests.interfaces.results import record, result

NAMES = ["fifo", "elastic-tiresias", "las:thresholds-gpu-s=3250,7200", "max-min", "a<b&c", "f", "g", "h", "i", "j"]
SVG = "{http://www.w3.org/2000/svg}"


def bars_of(results: Sequence[SimulationResult]) -> str:
    return bar_comparison([(one.policy, one.summary().jct_avg_s) for one in results], title="Average", unit="s")


def first_gantt(results: Sequence[SimulationResult]) -> str:
    return gantt_plot(results[0])


CHARTS: list[Callable[[Sequence[SimulationResult]], str]] = [cdf_plot, utilisation_plot, bars_of, first_gantt]


@settings(max_examples=30, deadline=None)
@given(policies=st.integers(1, 10), jobs=st.integers(0, 40), slower=st.floats(1e-3, 1e5))
def test_every_chart_is_well_formed_and_nothing_leaves_its_frame(policies, jobs, slower):
    results = [result(name, jobs=jobs, slower=slower) for name in NAMES[:policies]]
    for chart in CHARTS:
        root = ET.fromstring(chart(results))
        width, height = (float(root.get(side) or 0) for side in ("width", "height"))
        for element in root.iter():
            for x, y in corners(element):
                assert -0.01 <= x <= width + 0.01, (element.tag, element.attrib, element.text)
                assert -0.01 <= y <= height + 0.01, (element.tag, element.attrib, element.text)


def corners(element: ET.Element) -> list[tuple[float, float]]:
    """Points that the element reaches, as far as they can be told; turned text is left out."""
    at = {name: float(value) for name, value in element.attrib.items() if re.fullmatch(r"-?[\d.]+", value)}
    if element.tag in (f"{SVG}polyline", f"{SVG}polygon"):
        points = [pair.split(",") for pair in element.attrib["points"].split()]
        return [(float(x), float(y)) for x, y in points]
    if element.tag == f"{SVG}line":
        return [(at["x1"], at["y1"]), (at["x2"], at["y2"])]
    if element.tag == f"{SVG}rect":
        return [(at["x"], at["y"]), (at["x"] + at["width"], at["y"] + at["height"])]
    if element.tag == f"{SVG}text" and "transform" not in element.attrib:
        length = text_width(element.text or "")
        before = {"end": length, "middle": length / 2}.get(element.get("text-anchor", ""), 0.0)
        return [(at["x"] - before, at["y"]), (at["x"] - before + length, at["y"])]
    return []


@pytest.mark.parametrize("chart", CHARTS)
def test_charts_describe_themselves_and_follow_a_dark_page(chart):
    text = chart([result("fifo"), result("afs-l", slower=0.5)])
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title")
    assert "fifo" in (root.findtext(f"{SVG}desc") or "")
    assert "prefers-color-scheme:dark" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("chart", CHARTS)
def test_charts_of_nothing_are_charts(chart):
    empty = SimulationResult(policy="fifo", trace="none", records=(), samples=(Sample(0, 0, 4, 0, 0),))
    ET.fromstring(chart([empty]))


def test_the_same_numbers_give_the_same_text():
    assert cdf_plot([result()]) == cdf_plot([result()])


def test_a_curve_stays_below_one_where_jobs_did_not_finish():
    half = SimulationResult(
        policy="fifo",
        trace="t",
        records=(record("a", runs=((0, 60, 1),)), record("b", runs=((0, 60, 1),), done=False)),
        samples=(Sample(0, 2, 4, 2, 0),),
    )
    line = next(element for element in ET.fromstring(cdf_plot([half])).iter(f"{SVG}polyline"))
    heights = [float(pair.split(",")[1]) for pair in line.attrib["points"].split()]
    top, bottom = 34.0, 340.0 - 44.0
    assert min(heights) == pytest.approx((top + bottom) / 2)


def test_more_lines_than_colours_are_told_apart_by_their_stroke():
    chart = ET.fromstring(cdf_plot([result(f"p{number}") for number in range(12)]))
    looks = {(line.get("class"), line.get("stroke-dasharray")) for line in chart.iter(f"{SVG}polyline")}
    assert len(looks) == 12 > len(PALETTE)


def test_utilisation_is_the_mean_over_each_stretch_of_time():
    samples = (Sample(0, 4, 4, 1, 0), Sample(25, 0, 4, 0, 0), Sample(50, 2, 4, 1, 0))
    half_busy = SimulationResult(policy="p", trace="t", records=(), samples=samples)
    assert busy_share(half_busy, 100, bins=2) == pytest.approx([0.5, 0.5])
    assert busy_share(half_busy, 100, bins=4) == pytest.approx([1.0, 0.0, 0.5, 0.5])


@given(
    steps=st.lists(st.tuples(st.floats(0.1, 50), st.integers(0, 8)), min_size=1, max_size=40), bins=st.integers(1, 50)
)
def test_resampling_keeps_the_area(steps, bins):
    at_s, samples = 0.0, []
    for length, used in steps:
        samples.append(Sample(at_s, used, 8, 0, 0))
        at_s += length
    area = sum(length * used for length, used in steps)
    coarse = resampled(samples, at_s, bins=bins)
    assert sum(sample.gpus_used for sample in coarse) * at_s / bins == pytest.approx(area, abs=1e-6)


def test_a_gantt_of_many_jobs_shows_an_even_choice_and_says_so():
    many = result(jobs=1000)
    shown = picked(many.records)
    assert len(shown) == 200
    assert [one.id for one in shown[:3]] == ["job-000", "job-005", "job-010"]
    assert "200 of 1000 jobs" in gantt_plot(many)


def test_a_gantt_does_not_depend_on_the_order_of_records():
    jobs = result(jobs=5)
    turned = SimulationResult(policy="fifo", trace="tiny", records=jobs.records[::-1], samples=jobs.samples)
    assert gantt_plot(jobs) == gantt_plot(turned)


def test_bars_that_nobody_could_see_are_joined():
    flicker = tuple((number * 1e-3, (number + 1) * 1e-3, 1 + number % 2) for number in range(500))
    busy = SimulationResult(policy="p", trace="t", records=(record("a", runs=(*flicker, (1, 1000, 1))),), samples=())
    bars = [one for one in ET.fromstring(gantt_plot(busy)).iter(f"{SVG}rect") if one.get("class") == "f0"]
    assert len(bars) < 10


def test_the_figure_for_a_readme_holds_both_charts():
    figure = ET.fromstring(comparison_figure([result("fifo"), result("afs-l")], title="Two policies"))
    assert len(list(figure.iter(f"{SVG}svg"))) == 3
