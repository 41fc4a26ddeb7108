"""Profiled training, as in the simulators of Pollux and Sia: a profile to check by hand, and the real ones."""

import pytest

from sterna.engines.simulator.models.catalogue import make_jobs, performance_model
from sterna.engines.simulator.models.pollux import RESTART_S
from sterna.engines.simulator.models.profiled import (
    ProfiledTraining,
    goodput,
    iterating,
    predicted_curve,
    run_lengths,
    split,
)
from sterna.engines.simulator.models.profiles import Epochs, Measured, Profile, read_profile
from sterna.model.curves import SpeedupCurve
from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.trace import TraceRow
from sterna.wire.traces.trace_reading import read_trace
from tests.traces import trace_path
from tests.worlds import node


def on(*nodes: str) -> tuple[Worker, ...]:
    return tuple(Worker(Role.WORKER, index, NodeId(name)) for index, name in enumerate(nodes))


def profile() -> Profile:
    """Batch sizes 10 and 30, two epochs; no noise at batch 10, so that goodput there is one over the step time."""
    placements = [
        ("1", Measured(1, 1, 5, 0.6, 0.1)), ("1", Measured(1, 1, 15, 1.0, 0.1)),
        ("2", Measured(1, 2, 5, 0.7, 0.2)), ("2", Measured(1, 2, 15, 1.1, 0.2)),
        ("11", Measured(2, 2, 5, 1.6, 1.1)), ("11", Measured(2, 2, 15, 2.0, 1.1)),
        ("12", Measured(2, 3, 5, 1.8, 1.3)), ("12", Measured(2, 3, 15, 2.2, 1.3)),
    ]  # fmt: skip
    scalability = [Measured(4, 4, 5, 2.4, 1.9), Measured(4, 4, 15, 2.8, 1.9), Measured(4, 16, 5, 3.0, 2.5)]
    validation = {
        10: Epochs((100.0, 200.0), (100.0, 200.0), (1.0, 1.0), (0.0, 0.0)),
        30: Epochs((110.0, 190.0), (40.0, 80.0), (1.0, 1.0), (6.0, 6.0)),
    }
    return Profile(placements, scalability, validation)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param("", (), id="no workers"),
        pytest.param("aaab", (3, 1), id="runs of equal nodes"),
        pytest.param("aba", (1, 1, 1), id="a node that comes again counts again"),
    ],
)
def test_placement_is_run_lengths(nodes, expected):
    assert run_lengths(on(*nodes)) == expected


@pytest.mark.parametrize(
    ("placement", "local", "expected"),
    [
        pytest.param((1,), 10, (0.8, 0.1), id="between two measured batches"),
        pytest.param((1,), 3, (0.6, 0.1), id="below all of them, the smallest"),
        pytest.param((1,), 99, (1.0, 0.1), id="above all of them, the largest"),
        pytest.param((2, 1), 5, (1.8, 1.3), id="a rotation of what was measured"),
        pytest.param((1, 1, 1, 1), 10, (2.6, 1.9), id="a placement nobody measured lies between those that were"),
        pytest.param(
            (12,), 5, (3.0, 2.5), id="twelve on a node are not one and two: the nearest measurement stands in"
        ),
    ],
)
def test_step_times(placement, local, expected):
    assert profile().step_time(placement, local) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("batch", "replicas", "accumulates", "expected"),
    [
        pytest.param(10, 1, False, (10, 0, 10), id="all of it on one worker"),
        pytest.param(30, 1, False, (15, 1, 30), id="too much for one step is accumulated"),
        pytest.param(10, 1, True, (5, 1, 10), id="a single worker may have to accumulate"),
        pytest.param(10, 3, True, (4, 0, 12), id="shares are rounded up, so that a batch grows a little"),
        pytest.param(30, 8, True, (3, 0, 24), id="but never beyond the largest batch"),
    ],
)
def test_splitting_a_batch(batch, replicas, accumulates, expected):
    assert split(profile(), batch, replicas, accumulates=accumulates) == expected


def test_goodput_is_gain_over_iteration_time():
    assert goodput(profile(), iterating(profile(), (1,), 10), 0) == pytest.approx(1 / 0.8)
    # Batch 30 on two: 15 each, 1.1 s; the gain is (6 + 1) / (6 / 3 + 1).
    assert goodput(profile(), iterating(profile(), (2,), 30), 0) == pytest.approx((7 / 3) / 1.1)
    # Batch 20, halfway between: a variance of 3, and 10 on each of two workers.
    assert goodput(profile(), iterating(profile(), (2,), 20), 0) == pytest.approx((4 / 2.5) / 0.9)


def training(batch: int = 10, *, whole_epochs: bool = True) -> ProfiledTraining:
    return ProfiledTraining(profile(), batch, curve=SpeedupCurve.flat(), whole_epochs=whole_epochs)


def test_epochs_end_at_the_earliest_boundary_on_whole_seconds():
    job = training()
    assert profile().boundaries == (0.0, 100.0, 190.0)
    # 80 s and 72 s at 1.25 a second.
    assert job.advance(on("a"), 7.0, 67.0) is None
    assert job.advance(on("a"), 67.0, 127.0) is None
    assert job.advance(on("a"), 127.0, 187.0) == 159.0
    assert job.units_left == 0
    assert job.advance(on("a"), 187.0, 247.0) is None  # it finishes once


def test_a_slower_placement_takes_longer():
    near, far = training(whole_epochs=False), training(whole_epochs=False)
    near.advance(on("a", "a"), 0.0, 60.0)
    far.advance(on("a", "b"), 0.0, 60.0)
    assert near.units_left < far.units_left


def test_work_left_is_told_in_whole_epochs_or_exactly():
    rough, exact = training(), training(whole_epochs=False)
    assert (rough.units_left, exact.units_left) == (100, 200)
    for job in (rough, exact):
        job.advance(on("a"), 0.0, 40.0)
    assert [rough.units_left, exact.units_left] == pytest.approx([100, 150])
    for job in (rough, exact):
        job.advance(on("a"), 40.0, 100.0)
    assert [rough.units_left, exact.units_left] == pytest.approx([1, 100 * (1 - 25 / 90)])


def test_lost_training_goes_back_over_epochs_but_not_before_the_start():
    job = training(whole_epochs=False)
    job.advance(on("a"), 0.0, 100.0)
    before = job.units_left
    job.rewind(on("a"), 60.0)
    assert job.units_left == pytest.approx(150)
    job.advance(on("a"), 0.0, 60.0)
    assert job.units_left == pytest.approx(before)
    job.rewind(on("a"), 1e6)
    assert job.units_left == 200
    job.rewind((), 5.0)
    assert (job.units_left, job.advance((), 0.0, 60.0), job.finish_s(on("a"), 0.0)) == (200, None, None)


def test_the_predicted_curve_packs_nodes_and_accumulates_on_a_single_worker():
    curve = predicted_curve(profile(), 10, workers_max=3, gpus_per_node=2)
    assert curve.unit_s(1) == pytest.approx(0.6 + 0.5)  # 5 in each of two steps
    assert curve.unit_s(2) == pytest.approx(0.7)
    assert curve.unit_s(3) == pytest.approx(1.8)  # 4 each, below what was measured


@pytest.mark.parametrize(
    ("application", "local", "speedups"),
    [
        ("cifar10", 182, (1.80, 1.76, 3.75, 2.92, 3.15, 4.89, 12.4)),
        ("ncf", 1025, (1.60, 0.85, 2.59, 1.34, 1.67, 2.17, 4.6)),
        ("deepspeech2", 28, (2.01, 1.84, 3.57, 2.89, 3.35, 4.64, 10.6)),
        ("bert", 8, (1.97, 1.01, 3.80, 1.34, 2.15, 2.22, 6.4)),
        ("yolov3", 8, (1.83, 0.81, 2.60, 1.05, 1.67, 1.59, 4.4)),
        ("imagenet", 81, (1.97, 1.96, 3.75, 3.05, 3.86, 5.87, 12.6)),
    ],
)
def test_what_crossing_nodes_costs_each_application(application, local, speedups):
    """Weak scaling on T4 nodes: BERT on two nodes is no faster than on one GPU, ResNet50 does not mind."""
    measured = read_profile(trace_path(f"pollux/profiles/{application}"))
    alone_s = measured.step_time((1,), local).step_s
    placements = ((2,), (1, 1), (4,), (2, 2), (1, 1, 1, 1), (4, 4), (4, 4, 4, 4))
    found = [sum(placement) * alone_s / measured.step_time(placement, local).step_s for placement in placements]
    assert found == pytest.approx(speedups, rel=0.01)


def jobs_of(name: str, **settings: str):
    rows = read_trace(trace_path(name)).rows
    made = make_jobs(rows, performance_model("pollux", profiles=trace_path("pollux/profiles"), settings=settings))
    assert made.problems == ()
    return rows, made.jobs


def test_pollux_jobs_are_rigid_by_request_and_bounded_by_their_batch_otherwise():
    rows, rigid = jobs_of("pollux/workloads/workload-6.csv", sizing="request")
    assert [job.spec.workers_max for job in rigid] == [row.workers for row in rows]
    assert all(job.spec.workers_min == job.spec.workers_max for job in rigid)
    _, elastic = jobs_of("pollux/workloads/workload-6.csv")
    maxima = {job.spec.category: job.spec.workers_max for job in elastic}
    assert maxima["ncf"] == 1
    assert maxima["cifar10"] in {row.batch_size // 32 for row in rows if row.category == "cifar10" and row.batch_size}


def test_pollux_jobs_finish_in_rounds_and_goodput_stays_sane():
    rows, jobs = jobs_of("pollux/workloads/workload-6.csv", sizing="request")
    for row, job in zip(rows[:40], jobs, strict=False):
        workers = on(*(f"n{index // 4}" for index in range(row.workers)))
        finished_s, now_s = None, 0.0
        while finished_s is None and now_s < 10 * 24 * 3600:
            finished_s = job.training.advance(workers, now_s, now_s + 60)
            now_s += 60
        assert finished_s is not None
        assert finished_s == int(finished_s)
        assert finished_s >= (3600 if row.category == "imagenet" else 1)


def row(application: str) -> TraceRow:
    return TraceRow(
        id=JobId("job-000000"), line=2, submitted_s=0.0, workers=4, category=application, batch_size=384
    )  # fmt: skip


def test_sia_has_a_speed_for_each_gpu_type():
    there = [node("slow", gpus=4, accelerator="aws"), node("fast", gpus=8, accelerator="dgx-ext")]
    build = performance_model("sia", profiles=trace_path("sia/profiles"), nodes=there, settings={"told": "progress"})
    slow, fast = build(row("bert")).training, build(row("bert")).training
    slow.advance(on(*["slow"] * 4), 0.0, 600.0)
    fast.advance(on(*["fast"] * 4), 0.0, 600.0)
    assert fast.units_left < slow.units_left


def test_sia_restarts_and_slowdowns_are_options():
    profiles = trace_path("sia/profiles")
    plain = performance_model("sia", profiles=profiles, settings={"told": "progress"})(row("bert"))
    calibrated = performance_model(
        "sia", profiles=profiles, settings={"told": "progress", "own-restarts": "true", "slowdowns": "true"}
    )(row("bert"))
    assert (plain.restart_s, calibrated.restart_s) == (None, RESTART_S["bert"])
    total = plain.training.units_left
    for job in (plain, calibrated):
        job.training.advance(on("n", "n", "n", "n"), 0.0, 100.0)
    done, done_slowly = total - plain.training.units_left, total - calibrated.training.units_left
    assert done / done_slowly == pytest.approx(1.2)


def test_an_application_without_a_profile_lists_those_that_have_one():
    build = performance_model("pollux", profiles=trace_path("pollux/profiles"))
    with pytest.raises(InvalidRequest, match="bert, cifar10"):
        build(row("gpt"))


@pytest.mark.parametrize("name", ["placements.csv", "scalability.csv", "validation-10.csv"])
@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", "placement,local_bsz,step_time,sync_time\n1,x,1,1\n"])
def test_a_broken_profile_is_refused_by_name(tmp_path, name, content):
    files = {
        "placements.csv": "placement,local_bsz,step_time,sync_time\n1,5,1,0.1\n",
        "scalability.csv": "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,6,5,1,0.1\n",
        "validation-10.csv": "progress,iteration,metric,grad_sqr,grad_var\n1,1,1,1,1\n",
    } | {name: content}
    (tmp_path / "app").mkdir()
    for path, text in files.items():
        (tmp_path / "app" / path).write_text(text)
    with pytest.raises(InvalidRequest, match="profile"):
        performance_model("pollux", profiles=tmp_path)(row("app"))
