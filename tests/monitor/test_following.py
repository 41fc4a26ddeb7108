"""Values out of logs and training logs of programs that nobody changed, with real files and a real matcher."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from sterna.model.errors import InvalidRequest
from sterna.monitor import Pattern, Watched
from sterna.monitor.matcher import Matcher
from sterna.monitor.matching import GROUPS, fault_of
from sterna.monitor.running import pattern_of
from sterna.protocol.reports import Report
from tests.httpd.wires import bounded
from tests.monitor.stage import NOW_S, staged

POD = "team/train-worker-0"
PATTERN = r"epoch (?P<epoch>\d+) step (?P<step>\d+): (?P<metric>\w+) (?P<value>\S+)"
CATASTROPHE = r"(?P<value>(a+)+)$"


def say(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def test_a_pattern_finds_values_in_plain_output(tmp_path):
    log = tmp_path / "output.log"

    async def scene():
        async with staged() as stage:
            stage.monitor.watch(Watched(POD, job_uid="u1", log=log, pattern=PATTERN))
            say(log, "starting", "epoch 0 step 10: loss 2.5", "warning: epoch", "epoch 0 step 20: loss 1,000.5")
            await stage.monitor.follow()
            say(log, "epoch 1 step 30: loss nan", "epoch 1 step 40: loss 0.5")
            stage.wall.now_s += 5
            await stage.monitor.follow()
            return stage

    reports = bounded(scene).scheduler.reports
    assert [(report.value, report.metric, report.step, report.epoch, report.at_s) for report in reports] == [
        (2.5, "loss", 10, 0, NOW_S),
        (1000.5, "loss", 20, 0, NOW_S),
        (0.5, "loss", 40, 1, NOW_S + 5),
    ]
    assert {(report.pod, report.job_uid) for report in reports} == {(POD, "u1")}


def test_a_program_without_a_value_still_tells_how_far_it_is(tmp_path):
    log = tmp_path / "output.log"

    async def scene():
        async with staged() as stage:
            stage.monitor.watch(Watched(POD, log=log, pattern=r"(?P<units_done>\d+)/(?P<units_total>\d+)"))
            say(log, "[12/500]")
            await stage.monitor.follow()
            return stage

    (report,) = bounded(scene).scheduler.reports
    assert (report.value, report.units_done, report.units_total) == (None, 12, 500)


def test_a_pods_log_is_followed_over_restarts_of_its_container_with_the_times_it_says(tmp_path):
    directory = tmp_path / f"team_train-worker-0_{'0' * 8}-0000-0000-0000-{'0' * 12}"
    for container in ("main", "sidecar"):
        (directory / container).mkdir(parents=True)

    def line(second: int, text: str) -> str:
        return f"2023-11-14T22:13:{second:02d}.5Z stdout F {text}"

    async def scene():
        async with staged(log_root=tmp_path, patterns=(Pattern("team/*", r"acc (?P<value>\S+)"),)) as stage:
            say(directory / "main" / "0.log", line(20, "acc 0.1"), line(24, "acc 0.3"))
            say(directory / "sidecar" / "0.log", line(22, "acc 0.2"))
            await stage.monitor.follow()
            say(directory / "main" / "0.log", line(25, "acc 0.4"))
            say(directory / "main" / "1.log", line(30, "acc 0.5"))
            await stage.monitor.follow()
            await stage.monitor.follow()
            return stage

    first = bounded(scene).scheduler.reports
    assert [(report.value, report.at_s - NOW_S) for report in first] == [
        (0.1, 0.5), (0.2, 2.5), (0.3, 4.5), (0.4, 5.5), (0.5, 10.5)
    ]  # fmt: skip

    async def again():
        async with staged(log_root=tmp_path, patterns=(Pattern("*", r"acc (?P<value>\S+)"),)) as stage:
            await stage.monitor.follow()
            return stage

    second = bounded(
        again
    ).scheduler.reports  # what another monitor finds has the numbers it had: told twice, taken once
    assert {report.seq for report in second} <= {report.seq for report in first}
    assert second


def test_the_scheduler_says_whose_log_to_follow(tmp_path):
    directory = tmp_path / f"team_train-worker-0_{'0' * 8}-0000-0000-0000-{'0' * 12}" / "main"
    directory.mkdir(parents=True)
    say(directory / "0.log", "2023-11-14T22:13:20Z stdout F score=7")

    async def scene():
        async with staged(log_root=tmp_path) as stage:
            await stage.monitor.measure()
            await stage.monitor.follow()
            assert stage.scheduler.values() == []
            stage.scheduler.follow = {POD: r"score=(?P<value>\d+)"}
            await stage.monitor.forwarding.send_all()
            await stage.monitor.follow()
            return stage

    assert bounded(scene).scheduler.values() == [7.0]


def test_vodas_training_log_is_told_row_by_row_about_the_job(tmp_path):
    path = tmp_path / "train.csv"
    header = "epoch,epoch_time_sec,loss,start_time,step_time_sec,total_epochs,workers"

    async def scene():
        async with staged(epochs_dir=tmp_path, epochs_namespace="team") as stage:
            say(path, header, "0,10.5,2.5,2023-11-14 22:00:00.250000,0.1,3,2")
            stage.monitor.look_around()
            await stage.monitor.follow()
            with path.open("a") as file:
                file.write("1,9.5,1.5,2023-11-14 22:01:00,0.1,3")  # cut short, for now
            await stage.monitor.follow()
            say(path, ",4", header, "2,NA,1.0,2023-11-14 22:02:00,0.1,3,4", "2,8,1.0,2023-11-14 22:02:00,0.1,3,4")
            await stage.monitor.follow()
            return stage

    reports = bounded(scene).scheduler.reports
    assert [
        (report.pod, report.epoch, report.workers, report.epoch_s, report.value, report.metric) for report in reports
    ] == [
        ("team/train", 0, 2, 10.5, 2.5, "loss"),
        ("team/train", 1, 4, 9.5, 1.5, "loss"),
        ("team/train", 2, 4, 8.0, 1.0, "loss"),
    ]
    assert [(report.units_done, report.units_total, report.step_s) for report in reports] == [
        (1, 3, 0.1), (2, 3, 0.1), (3, 3, 0.1)
    ]  # fmt: skip
    assert reports[0].at_s == NOW_S - 800 + 10.75  # 22:00:00.25 and the time it took


def test_a_training_log_that_is_read_twice_says_nothing_twice(tmp_path):
    path = tmp_path / "train.csv"
    say(path, "epoch,epoch_time_sec,start_time,workers", "0,10,2023-11-14 22:00:00,1", "1,10,2023-11-14 22:00:10,1")

    async def scene():
        async with staged(epochs_dir=tmp_path, epochs_namespace="team") as stage:
            await stage.monitor.follow()
            return [report.seq for report in stage.monitor.windows.unsent()]

    assert bounded(scene) == bounded(scene)


def test_a_catastrophic_pattern_is_given_up_and_the_others_go_on():
    async def scene():
        matcher = Matcher(budget_s=0.2)
        try:
            bad = await matcher.found(CATASTROPHE, ["a" * 60 + "b"])
            good = await matcher.found(r"(?P<value>\d+)", ["a" * 60, "value 5"])
            again = await matcher.found(CATASTROPHE, ["a"])
            return bad, good, again, matcher.faults
        finally:
            await matcher.stop()

    bad, good, again, faults = bounded(scene)
    assert (bad, good, again) == ([], [(1, {"value": "5"})], [])
    assert "longer than 0.2 s" in faults[CATASTROPHE]


def test_the_monitor_answers_while_a_pattern_runs_away(tmp_path):
    log = tmp_path / "output.log"

    async def scene():
        async with staged() as stage:
            stage.monitor.watch(Watched(POD, log=log, pattern=CATASTROPHE))
            say(log, "a" * 60 + "b")
            following = asyncio.create_task(stage.monitor.follow())
            answer = await stage.post("/monitor", {"pod": "train-worker-0", "value": 0.5})
            waited = not following.done()
            await following
            return answer.status, waited

    assert bounded(scene) == (200, True)


def test_a_matcher_that_hangs_or_dies_is_replaced():
    async def scene():
        matcher = Matcher(deadline_s=20.0)
        try:
            first = await matcher.found(r"(?P<value>\d+)", ["1"])
            assert matcher._process is not None
            os.kill(matcher._process.pid, signal.SIGKILL)
            await matcher._process.wait()
            second = await matcher.found(r"(?P<value>\d+)", ["2"])
            os.kill(matcher._process.pid, signal.SIGSTOP)
            matcher._deadline_s = 0.3
            hung = await matcher.found(r"(?P<value>\d)", ["3"])
            matcher._deadline_s = 20.0
            third = await matcher.found(r"(?P<value>\d+)", ["4"])
            return first, second, hung, third
        finally:
            await matcher.stop()

    first, second, hung, third = bounded(scene)
    assert [found[0][1]["value"] for found in (first, second, third)] == ["1", "2", "4"]
    assert hung == []


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "not a regular expression"),
        ("loss", "no group"),
        (r"(?P<loss>\d+)", "unknown group loss"),
        (r"(?P<metric>\w+)", "no group"),
        ("(?P<value>x)" + "y" * 1000, "longer than"),
    ],
)
def test_a_pattern_that_cannot_be_meant_is_refused_with_what_would_do(pattern, words):
    fault = fault_of(pattern)
    assert fault is not None
    assert words in fault
    with pytest.raises(InvalidRequest, match="--log-pattern"):
        pattern_of(pattern)


def test_every_group_is_a_field_of_a_report():
    assert set(GROUPS) <= set(Report._fields)


@pytest.mark.parametrize(
    ("text", "pods", "expression"),
    [
        (r"loss=(?P<value>\S+)", "*", r"loss=(?P<value>\S+)"),
        (r"team-a/*=loss=(?P<value>\S+)", "team-a/*", r"loss=(?P<value>\S+)"),
        (r"(?P<step>\d+)/(?P<units_total>\d+) a=b", "*", r"(?P<step>\d+)/(?P<units_total>\d+) a=b"),
    ],
)
def test_a_pattern_may_say_whose_logs_it_is_for(text, pods, expression):
    assert pattern_of(text) == Pattern(pods, expression)


def test_a_pod_that_is_no_longer_watched_is_no_longer_read(tmp_path):
    log = tmp_path / "output.log"

    async def scene():
        async with staged() as stage:
            stage.monitor.watch(Watched(POD, log=log, pattern=PATTERN))
            stage.monitor.unwatch(POD)
            say(log, "epoch 0 step 10: loss 2.5")
            await stage.monitor.follow()
            return stage

    assert bounded(scene).scheduler.values() == []
