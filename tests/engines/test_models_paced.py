"""Models in which work is so many units at a pace: fixed, linear, Amdahl, AFS, Voda, Gavel."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.engines.simulator.models.catalogue import ENTRIES, default_model, make_jobs, model_entry, performance_model
from sterna.engines.simulator.models.paced import PacedTraining
from sterna.engines.simulator.training import SimulatedJob
from sterna.model.curves import SpeedupCurve
from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.trace import TraceRow
from sterna.wire.traces.clusters import uniform_nodes
from sterna.wire.traces.formats import FORMATS
from sterna.wire.traces.trace_reading import read_trace
from tests.traces import trace_path
from tests.worlds import node


def row(**fields: object) -> TraceRow:
    known: dict[str, object] = {"submitted_s": 0.0, "workers": 4, "duration_s": 100.0}
    return TraceRow(id=JobId("job-000000"), line=2, **(known | fields))  # type: ignore[arg-type]


def on(*nodes: str) -> tuple[Worker, ...]:
    return tuple(Worker(Role.WORKER, index, NodeId(name)) for index, name in enumerate(nodes))


def bounds(job: SimulatedJob) -> tuple[int, int, int]:
    return job.spec.workers_min, job.spec.workers_initial, job.spec.workers_max


@pytest.mark.parametrize(
    ("model", "settings", "fields", "expected"),
    [
        pytest.param("fixed", {}, {}, (4, 4, 4), id="fixed jobs have one size"),
        pytest.param("fixed", {}, {"workers_min": 1, "workers_max": 8}, (4, 4, 4), id="whatever the trace allows"),
        pytest.param("linear", {}, {}, (1, 4, 8), id="linear jobs shrink to one and grow to twice their request"),
        pytest.param("linear", {"stretch": "3"}, {}, (1, 4, 12), id="or as far as one says"),
        pytest.param("linear", {}, {"workers_min": 2, "workers_max": 5}, (2, 4, 5), id="bounds of the trace win"),
        pytest.param("linear", {"sizing": "request"}, {}, (4, 4, 4), id="sizing by request makes them rigid"),
        pytest.param("amdahl", {}, {"workers": 3}, (1, 3, 6), id="amdahl sizes as linear does"),
        pytest.param("voda", {}, {"category": "vgg16", "workers": 2}, (1, 2, 4), id="voda was measured to four"),
        pytest.param("voda", {"sizing": "request"}, {"category": "VGG16", "workers": 2}, (2, 2, 2), id="voda, rigid"),
    ],
)
def test_sizes_a_job_may_have(model, settings, fields, expected):
    assert bounds(performance_model(model, settings=settings)(row(**fields))) == expected


@pytest.mark.parametrize(
    ("model", "settings", "nodes", "expected_s"),
    [
        pytest.param("fixed", {}, "aaaa", 100, id="fixed: its duration"),
        pytest.param("linear", {}, "aaaa", 100, id="linear: its duration at its request"),
        pytest.param("linear", {}, "aa", 200, id="linear: twice as long with half the workers"),
        pytest.param("linear", {}, "aaaaaaaa", 50, id="linear: half as long with twice the workers"),
        pytest.param("linear", {"crossing": "0.5"}, "aabb", 150, id="a second node costs half as much again"),
        pytest.param("linear", {"crossing": "0.5"}, "abcd", 250, id="and so do a third and a fourth"),
        pytest.param("amdahl", {"serial": "0"}, "aaaaaaaa", 50, id="amdahl without a serial part is linear"),
        pytest.param("amdahl", {"serial": "1"}, "aaaaaaaa", 100, id="amdahl that is all serial never gets faster"),
        pytest.param("amdahl", {"serial": "0.2"}, "a", 250, id="amdahl: 1 / (0.2 + 0.8 / 4) = 2.5 times as long alone"),
    ],
)
def test_how_long_a_job_takes_on_some_workers(model, settings, nodes, expected_s):
    training = performance_model(model, settings=settings)(row()).training
    assert training.finish_s(on(*nodes), 1000.0) == pytest.approx(1000 + expected_s)


def test_a_serial_fraction_in_the_trace_goes_before_the_option():
    training = performance_model("amdahl", settings={"serial": "0.9"})(row(serial_fraction=0.0)).training
    assert training.finish_s(on("a"), 0.0) == pytest.approx(400)


@given(
    units=st.floats(0.01, 1e6),
    paces=st.lists(st.floats(0.001, 100), min_size=1, max_size=8),
    stops=st.lists(st.tuples(st.integers(0, 8), st.floats(0, 1e4)), max_size=12),
)
@settings(max_examples=80, deadline=None)
def test_s1_work_is_conserved_however_training_is_cut_up(units, paces, stops):
    training = PacedTraining(units, SpeedupCurve(tuple(paces)))
    now_s = done = 0.0
    for workers, seconds in stops:
        finished_s = training.advance(on(*"n" * workers), now_s, now_s + seconds)
        if finished_s is not None:
            assert now_s <= finished_s <= now_s + seconds
            done += (finished_s - now_s) / training.curve.unit_s(workers)
            assert training.units_left == 0
            break
        done += seconds / training.curve.unit_s(workers)
        now_s += seconds
        assert 0 <= training.units_left <= units
    assert done + training.units_left == pytest.approx(units, rel=1e-6, abs=1e-6)


@given(units=st.floats(0.001, 1e9), pace=st.floats(0.001, 1e3), from_s=st.floats(0, 1e9))
@settings(max_examples=80, deadline=None)
def test_a_job_finishes_at_the_very_moment_that_was_announced(units, pace, from_s):
    training = PacedTraining(units, SpeedupCurve((pace,)))
    announced_s = training.finish_s(on("n"), from_s)
    assert announced_s is not None
    assert training.advance(on("n"), from_s, announced_s) == announced_s


def test_lost_training_is_done_again_but_never_more_than_all_of_it():
    training = PacedTraining(10.0, SpeedupCurve.flat(2.0))
    training.advance(on("a"), 0.0, 8.0)
    assert training.units_left == 6
    training.rewind(on("a"), 4.0)
    assert training.units_left == 8
    training.rewind(on("a"), 400.0)
    assert training.units_left == 10


def test_nothing_happens_without_workers():
    training = PacedTraining(10.0, SpeedupCurve.flat())
    assert training.advance((), 0.0, 100.0) is None
    assert training.finish_s((), 0.0) is None
    training.rewind((), 5.0)
    assert training.units_left == 10


def test_voda_work_and_speed_are_those_of_the_testbed():
    job = performance_model("voda")(row(category="inceptionv3", workers=2, workers_min=1, workers_max=4))
    assert [job.training.curve.speedup(count) for count in (1, 2, 3, 4)] == pytest.approx([1, 1.842, 2.692, 3.5])
    assert job.training.units_left == 3800


def test_voda_numbers_may_come_from_files():
    model = performance_model("voda", profiles=trace_path("voda-testbed"))
    jobs, problems = make_jobs(read_trace(trace_path("voda-testbed/workload_run_1.csv")).rows, model)
    assert (len(jobs), problems) == (24, ())
    assert jobs[0].training.units_left == 3908
    assert bounds(jobs[0]) == (1, 2, 4)


def afs_file(tmp_path: Path) -> Path:
    curves = {"Net": {"time_per_iter_s": [2.0, 1.25, 1.0], "max_gpus": 3}}
    (tmp_path / "afs_scaling_curves.json").write_text(json.dumps(curves))
    return tmp_path


@pytest.mark.parametrize(("sizing", "expected"), [("request", (1, 2, 2)), ("model", (1, 2, 3))])
def test_afs_jobs_reach_to_their_request_or_as_far_as_their_model(tmp_path, sizing, expected):
    job = performance_model("afs", profiles=afs_file(tmp_path), settings={"sizing": sizing})(
        row(category="Net", units=100.0, workers=2)
    )
    assert bounds(job) == expected
    assert job.training.finish_s(on("a", "b"), 0.0) == 125
    assert job.training.finish_s(on("a", "b", "c", "d"), 0.0) == 100  # beyond the table it gets no faster


@pytest.mark.parametrize(
    ("model", "gpus", "speedup"),
    [
        ("Inception4Model256", 8, 7.8), ("Inception4Model256", 32, 22.7), ("VggnetModel256", 8, 6.6),
        ("Resnet50Model128", 8, 5.95), ("Resnet50Model128", 24, 10.4), ("DeepspeechModel64", 8, 1.8),
        ("ChatbotModel256", 4, 1.7),
    ],
)  # fmt: skip
def test_afs_curves_are_those_of_the_published_simulator(model, gpus, speedup):
    build = performance_model("afs", profiles=trace_path("afs"))
    curve = build(row(category=model, units=1.0, workers=1)).training.curve
    assert curve.speedup(gpus) == pytest.approx(speedup, rel=0.03)


def test_afs_durations_in_the_trace_follow_from_its_curves():
    rows = read_trace(trace_path("afs/tiresias240.csv")).rows
    jobs, problems = make_jobs(rows, performance_model("afs", profiles=trace_path("afs")))
    assert problems == ()
    for made, told in zip(jobs, rows, strict=True):
        assert made.training.finish_s(on(*"n" * told.workers), 0.0) == pytest.approx(told.duration_s, abs=0.01)


def gavel_file(tmp_path: Path) -> Path:
    path = tmp_path / "rates.json"
    job = "('LM (batch size 5)', {})"
    path.write_text(
        json.dumps(
            {
                "v100": {job.format(1): {"null": 10.0, "('x', 1)": [1, 2]}, job.format(4): {"null": 34.0}},
                "v100_unconsolidated": {job.format(4): {"null": 17.0}},
                "k80": {job.format(1): {"null": 1.0}, job.format(4): {"null": 0.0}},
            }
        )
    )
    return path


@pytest.mark.parametrize(
    ("nodes", "rate"),
    [
        pytest.param("a", 10, id="one worker"),
        pytest.param("aaaa", 34, id="four workers on one node"),
        pytest.param("aabb", 17, id="four workers on two nodes"),
        pytest.param("aa", 18, id="two workers, which nobody measured: between one and four"),
        pytest.param("k", 1, id="one worker on a slow GPU"),
    ],
)
def test_gavel_speed_depends_on_type_and_consolidation(tmp_path, nodes, rate):
    there = [node("a", gpus=4, accelerator="v100"), node("k", gpus=4, accelerator="k80")]
    build = performance_model("gavel", profiles=gavel_file(tmp_path), nodes=there)
    training = build(row(category="LM (batch size 5)", units=3400.0)).training
    assert training.finish_s(on(*nodes), 0.0) == pytest.approx(3400 / rate)


@pytest.mark.parametrize(("sizing", "expected"), [("request", (4, 4, 4)), ("model", (1, 4, 4))])
def test_gavel_jobs_are_rigid_unless_the_model_sizes_them(tmp_path, sizing, expected):
    build = performance_model("gavel", profiles=gavel_file(tmp_path), settings={"sizing": sizing})
    assert bounds(build(row(category="LM (batch size 5)", units=1.0))) == expected


@pytest.mark.parametrize("trace", ["gavel/traces/max_min_fairness.csv", "shockwave/shockwave_120jobs_100.csv"])
def test_every_job_of_gavel_and_shockwave_has_a_throughput(trace):
    path = trace_path(trace)
    profiles = trace_path("gavel") if "gavel" in trace else trace_path("shockwave")
    rows = read_trace(path).rows
    jobs, problems = make_jobs(rows, performance_model("gavel", profiles=profiles))
    assert (len(jobs), problems) == (len(rows), ())


def test_gavel_curves_match_the_published_speedups():
    build = performance_model("gavel", profiles=trace_path("gavel"))
    training = build(row(category="LM (batch size 80)", units=1000.0, workers=1)).training

    def speedup(nodes: str) -> float:
        alone_s, taken_s = training.finish_s(on("a"), 0.0), training.finish_s(on(*nodes), 0.0)
        assert alone_s
        assert taken_s
        return alone_s / taken_s

    together = [speedup("a" * count) for count in (2, 4, 8)]
    apart = [speedup("ab" * (count // 2)) for count in (2, 4, 8)]
    assert together == pytest.approx([2.06, 2.65, 8.2], rel=0.01)
    assert apart == pytest.approx([0.63, 0.94, 1.7], rel=0.02)


@pytest.mark.parametrize(
    ("model", "settings", "word"),
    [
        pytest.param("magic", {}, "amdahl", id="an unknown model lists those there are"),
        pytest.param("linear", {"speed": "2"}, "stretch", id="an unknown option lists those there are"),
        pytest.param(
            "linear", {"stretch": "0.5"}, "at least 1", id="nobody may shrink below the request by stretching"
        ),
        pytest.param("linear", {"stretch": "1e9"}, "at most 1000", id="nor stretch for ever"),
        pytest.param("amdahl", {"serial": "1.5"}, "0 to 1", id="more than all of the work is not serial"),
        pytest.param("afs", {}, "afs_scaling_curves", id="a model that needs files says which"),
        pytest.param("gavel", {}, "throughputs", id="gavel too"),
        pytest.param("pollux", {}, "directory of profiles", id="pollux too"),
    ],
)
def test_a_model_that_cannot_be_built_says_what_would_do(model, settings, word):
    with pytest.raises(InvalidRequest, match=word):
        performance_model(model, settings=settings)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        pytest.param("{", "a JSON file", id="no JSON"),
        pytest.param("[" * 100_000, "a JSON file", id="JSON of any depth"),
        pytest.param("[1]", "an object", id="a list"),
        pytest.param('{"Net": 3}', "Net", id="a number for a model"),
        pytest.param('{"Net": {"time_per_iter_s": []}}', "above 0", id="an empty curve"),
        pytest.param('{"Net": {"time_per_iter_s": [1, 0]}}', "above 0", id="no time at all"),
        pytest.param('{"Net": {"time_per_iter_s": [1, NaN]}}', "above 0", id="NaN"),
        pytest.param('{"Net": {"time_per_iter_s": [true]}}', "above 0", id="a truth for a number"),
    ],
)
def test_a_bad_file_of_curves_is_refused_by_name(tmp_path, content, word):
    path = tmp_path / "curves.json"
    path.write_text(content)
    with pytest.raises(InvalidRequest, match=word):
        performance_model("afs", profiles=path)


def test_rows_a_model_cannot_use_are_reported_with_their_line():
    rows = [row(), row(duration_s=None)._replace(line=7), row(gpu_milli=1500)._replace(line=8)]
    jobs, problems = make_jobs(rows, performance_model("fixed"))
    assert len(jobs) == 1
    assert [problem.line for problem in problems] == [7, 8]
    assert "duration" in problems[0].sentence
    assert "gpu_milli" in problems[1].sentence


def test_a_trace_without_one_usable_row_is_refused():
    with pytest.raises(InvalidRequest, match="no row of this trace"):
        make_jobs([row(duration_s=None)], performance_model("linear"))


def test_jobs_of_one_trace_do_not_share_their_progress():
    build = performance_model("linear")
    first, second = make_jobs([row(), row()], build).jobs
    first.training.advance(on("a"), 0.0, 10.0)
    assert first.training.units_left < second.training.units_left


def test_every_format_has_a_default_model():
    assert {default_model(known.name) for known in FORMATS} <= {entry.name for entry in ENTRIES}
    assert not model_entry(default_model("tiresias")).needs_profiles


def test_all_of_alibaba_becomes_jobs_except_pods_that_never_ran():
    rows = read_trace(trace_path("alibaba-gpu-2023/openb_pod_list_default.csv")).rows
    jobs, problems = make_jobs(rows, performance_model("fixed", nodes=uniform_nodes(2, 8)))
    assert (len(jobs), len(problems)) == (8152 - 897, 897)
    assert all(math.isfinite(job.training.units_left) for job in jobs)
