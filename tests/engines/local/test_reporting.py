"""Jobs that tell of themselves by other ways than the mailbox: HTTP, what they print, a file with a row per epoch."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId
from sterna.policies.registry import policy
from sterna.protocol.reports import Batch, Report
from sterna.protocol.tokens import TokenOwner
from tests.engines.local.lab import Lab, config, fresh_home, lab, manifest, running, swept

SECRET = "a secret of an installation, long enough"
QUICKLY = {"judge.check-interval-s": "0.3"}
PYTHON = [sys.executable, "-c"]
REST = "import time\ndef rest(): time.sleep(0.1)\n"  # between two steps

POSTING = (
    REST
    + """
import json, math, os, urllib.error, urllib.request
def post(pod, value):
    headers = {"Authorization": "Bearer " + os.environ["STERNA_MONITOR_TOKEN"]}
    body = json.dumps({"pod": pod, "value": value}).encode()
    request = urllib.request.Request(os.environ["STERNA_MONITOR_URL"] + "/monitor", body, headers)
    try:
        return urllib.request.urlopen(request, timeout=10).read().decode()
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None  # the engine is away
print("stranger", post("other-worker-0", 1.0), flush=True)
for step in range(100000):
    answer = post(os.environ["STERNA_POD"], 1 + math.exp(-0.3 * step))
    if step == 0: print("first", answer, flush=True)
    rest()
"""
)
PRINTING = (
    REST
    + """
import math
for step in range(100000):
    print(f"step {step} loss={1 + math.exp(-0.3 * step):.6f}", flush=True)
    rest()
"""
)
EPOCHS = (
    REST
    + """
import datetime, sys
with open("epochs.csv", "w", buffering=1) as out:
    out.write("epoch,epoch_time_sec,loss,start_time,step_time_sec,workers\\n")
    for epoch in range(100000):
        out.write(f"{epoch},0.2,{9 - 0.01 * epoch},{datetime.datetime.now()},0.01,1\\n")
        rest()
"""
)


async def growth_of(engine: Lab, name: str, category: str | None = None, *, at_least: int = 3) -> dict[str, object]:
    async def holds() -> bool:
        growth = (await engine.job(name))["growth"]
        return growth is not None and growth["evaluations"] >= at_least and category in (None, growth["category"])

    await engine.until(holds, f"{name} is judged: {category}")
    return dict((await engine.job(name))["growth"])


def test_a_program_that_posts_its_values_is_judged_and_speaks_for_nobody_else():
    async def story() -> None:
        async with lab(monitor_secret=SECRET, rebalance=[], rebalance_settings=QUICKLY) as engine:
            assert (await engine.scheduler.health())["monitor"] is None, "nobody needs it yet"
            wish = {"sterna.dev/monitor": "true"}
            await engine.submit(manifest("a", [*PYTHON, POSTING], annotations=wish))
            growth = await growth_of(engine, "a", "Converged")
            assert growth["metric"] == "value"
            assert (await engine.scheduler.health())["monitor"].startswith("http://127.0.0.1:")
            (log,) = await engine.scheduler.logs("a", None)
            assert log.path.read_text().splitlines()[:2] == ["stranger 403", "first Ok"]

    asyncio.run(story())


def test_the_monitor_is_found_again_after_the_engine_was_away():
    async def story() -> None:
        home = fresh_home()
        settings: dict[str, Any] = {"monitor_secret": SECRET, "rebalance": [], "rebalance_settings": QUICKLY}
        try:
            async with running(config(home, **settings), stop_jobs=False) as engine:
                await engine.submit(manifest("a", [*PYTHON, POSTING], annotations={"sterna.dev/monitor": "true"}))
                seen = await growth_of(engine, "a")
                url = (await engine.scheduler.health())["monitor"]
            async with running(config(home, **settings)) as engine:
                assert (await engine.scheduler.health())["monitor"] == url
                again = await growth_of(engine, "a", at_least=int(str(seen["evaluations"])) + 3)
                assert again["category"] in ("Progressing", "Watching", "Converged")
        finally:
            await swept(home)

    asyncio.run(story())


def test_what_a_program_prints_is_judged_where_its_manifest_says_how_to_read_it():
    async def story() -> None:
        async with lab(monitor_secret=SECRET, rebalance=[], rebalance_settings=QUICKLY) as engine:
            pattern = r"step (?P<step>\d+) loss=(?P<value>[0-9.]+)"
            wish = {"sterna.dev/log-pattern": pattern, "sterna.dev/metric": "loss"}
            await engine.submit(manifest("a", [*PYTHON, PRINTING], annotations=wish))
            assert (await growth_of(engine, "a", "Converged"))["metric"] == "loss"
            assert (await engine.job("a"))["step"] > 3

    asyncio.run(story())


def test_a_training_log_with_a_row_per_epoch_tells_value_speed_and_progress():
    async def story() -> None:
        async with lab(monitor_secret=SECRET, rebalance=[], rebalance_settings=QUICKLY) as engine:
            wish = {"sterna.dev/epoch-csv": "epochs.csv", "sterna.dev/epochs": "100000", "sterna.dev/metric": "loss"}
            await engine.submit(manifest("a", [*PYTHON, EPOCHS], annotations=wish))
            growth = await growth_of(engine, "a", at_least=5)
            assert (growth["metric"], growth["category"]) == ("loss", "Progressing")
            job = await engine.job("a")
            assert job["epoch"] >= 4
            value = engine.scheduler._life.engine.snapshot().by_id[JobId("default/a")]
            assert value.curve.unit_s(1) == pytest.approx(0.2, rel=0.01)
            assert value.units_left == pytest.approx(100_000 - job["epoch"] - 1, abs=50)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("annotations", "match"),
    [
        ({"sterna.dev/log-pattern": "loss=([0-9.]+"}, "regular expression"),
        ({"sterna.dev/log-pattern": "loss=([0-9.]+)"}, "value"),
        ({"sterna.dev/monitor": "maybe"}, "true"),
        ({"sterna.dev/epoch-csv": ""}, "path"),
        ({"sterna.dev/log-patern": "x"}, "log-pattern"),
    ],
)
def test_annotations_that_cannot_be_meant_are_refused_at_submission(annotations, match):
    async def story() -> None:
        async with lab(monitor_secret=SECRET) as engine:
            with pytest.raises(InvalidRequest, match=match):
                await engine.submit(manifest("a", ["true"], annotations=annotations))
            assert await engine.scheduler.jobs() == []

    asyncio.run(story())


def test_without_a_monitor_a_job_that_needs_one_is_warned_and_runs():
    async def story() -> None:
        async with lab() as engine:
            wish, command = {"sterna.dev/monitor": "true"}, ["sh", "-c", "env | grep -c STERNA_MONITOR; true"]
            (job,) = await engine.submit(manifest("a", command, annotations=wish))
            assert ["--no-monitor" in warning for warning in job["warnings"]] == [True]
            await engine.until_phase("a", "Succeeded")
            (log,) = await engine.scheduler.logs("a", None)
            assert log.path.read_text() == "0\n"

    asyncio.run(story())


def report(pod: str, seq: int, **said: object) -> Report:
    return Report(pod, seq, 1000.0 + seq, **said)  # type: ignore[arg-type]


def test_reports_count_once_and_only_for_jobs_that_are_here():
    async def story() -> None:
        async with lab() as engine:
            await engine.submit(manifest("a", ["sleep", "600"]))
            await engine.until_workers("a", 1)
            (worker,) = (await engine.job("a"))["workerDetails"]
            household = engine.scheduler.household
            uid = (await engine.job("a"))["uid"]
            names = ["default/a", "default/a-worker-0", f"default/{worker['name']}"]
            first = [report(pod, number, value=5.0 - number) for number, pod in enumerate(names, start=1)]
            assert household.take_reports(Batch(tuple(first))).new == 3
            assert household.take_reports(Batch(tuple(first))).new == 0, "told again"
            strangers = ("default/b", "other/a", "default/a-worker-x", "default/a-ps-0")
            assert household.take_reports(Batch(tuple(report(pod, 9, value=1.0) for pod in strangers))).new == 0
            assert household.take_reports(Batch((report("default/a", 10, value=1.0, job_uid="another"),))).new == 0
            assert household.take_reports(Batch((report("default/a", 10, value=1.5, job_uid=uid),))).new == 1
            growth = (await engine.job("a"))["growth"]
            assert (growth["metric"], growth["value"], growth["evaluations"]) == ("value", 1.5, 4)

    asyncio.run(story())


def test_s1_who_speaks_for_one_node_is_heard_about_jobs_on_it_and_told_of_their_tokens():
    async def story() -> None:
        async with lab(nodes=2, gpus=1) as engine:
            for name in ("a", "b"):
                await engine.submit(manifest(name, ["sleep", "600"], workers=(1, 1)))
                await engine.until_workers(name, 1)
            homes = {name: (await engine.job(name))["workerDetails"][0]["node"] for name in ("a", "b")}
            assert homes["a"] != homes["b"]
            household = engine.scheduler.household
            for number, (name, node) in enumerate(homes.items(), start=1):
                said = tuple(report(f"default/{job}", number, value=1.0) for job in homes)
                assert household.take_reports(Batch(said, node=node), only_here=True).new == 1
                uid = (await engine.job(name))["uid"]
                assert [*household.tenants(node)] == [TokenOwner("default", name, uid)]
            everybody = tuple(report(f"default/{job}", 9, value=1.0) for job in homes)
            assert household.take_reports(Batch(everybody, node="nowhere"), only_here=True).new == 0
            assert household.take_reports(Batch(everybody, node="nowhere")).new == 2

    asyncio.run(story())


@pytest.mark.parametrize("name", ["afs-l", "ffdl", "elastic-tiresias"])
def test_learned_speed_decides_who_gets_more_workers(name):
    """One job trains the faster the more workers it has, the other does not: both were measured."""

    async def story() -> None:
        async with lab(nodes=1, gpus=8, policy="elastic-fifo") as engine:
            for job in ("scales", "stuck"):
                await engine.submit(manifest(job, ["sleep", "600"], workers=(1, 8)))
            await engine.until_workers("scales", 4)
            await engine.until_workers("stuck", 4)
            taught = []
            for number, workers in enumerate([1] * 6 + [2] * 6 + [4] * 6 + [8] * 6, start=1):
                told = {"epoch": number, "workers": workers, "units_total": 1000.0}
                taught.append(report("default/scales", number, epoch_s=8.0 / workers, **told))
                taught.append(report("default/stuck", number, epoch_s=8.0, **told))
            engine.scheduler.household.take_reports(Batch(tuple(taught)))
            view = engine.scheduler._life.engine.snapshot()
            scales, stuck = view.by_id[JobId("default/scales")], view.by_id[JobId("default/stuck")]
            assert scales.curve.unit_s(8) == pytest.approx(1.0, rel=0.05)
            assert stuck.curve.unit_s(8) == pytest.approx(8.0, rel=0.05)
            granted = policy(name)(view).workers_by_job()
            assert granted[scales.id] > granted.get(stuck.id, 0)

    asyncio.run(story())


def test_learned_speed_and_progress_decide_which_job_is_the_shortest():
    """`srjf` takes the job that has more epochs left, because its epochs are measured to be so much shorter."""

    async def story() -> None:
        async with lab(nodes=1, gpus=2, policy="fifo") as engine:
            for job in ("slow", "quick"):
                await engine.submit(manifest(job, ["sleep", "600"]))
                await engine.until_workers(job, 1)
            said = [
                report("default/slow", 1, epoch=9, epoch_s=60.0, workers=1, units_total=20.0),
                report("default/quick", 2, epoch=9, epoch_s=0.5, workers=1, units_total=100.0),
            ]
            engine.scheduler.household.take_reports(Batch(tuple(said)))
            view = engine.scheduler._life.engine.snapshot()
            slow, quick = view.by_id[JobId("default/slow")], view.by_id[JobId("default/quick")]
            assert (slow.units_left, quick.units_left) == (10.0, 90.0)
            assert quick.remaining_s(1, view.now_s) < slow.remaining_s(1, view.now_s)
            assert next(iter(policy("srjf")(view).grants)) == quick.id

    asyncio.run(story())


def test_what_workers_use_is_measured_and_reaches_the_core():
    async def story() -> None:
        async with lab(nodes=2, gpus=1) as engine:
            await engine.submit(manifest("a", [*PYTHON, "while True: pass"]))
            await engine.until_workers("a", 1)
            (node,) = (await engine.job("a"))["nodes"]

            async def measured() -> bool:
                found = {each["name"]: each["measured"] for each in await engine.scheduler.nodes()}
                return found[node] is not None and found[node]["cpuMilli"] > 20

            await engine.until(measured, "its use is measured")
            usage = engine.scheduler._life.engine.snapshot().usage
            assert set(usage) == {node}
            assert usage[node].memory_bytes > 1 << 20

    asyncio.run(story())


def test_the_path_of_a_training_log_may_be_absolute(tmp_path):
    async def story() -> None:
        async with lab(monitor_secret=SECRET) as engine:
            path = Path(tmp_path) / "log.csv"
            path.write_text("epoch,epoch_time_sec,loss,workers\n0,1.5,2.5,1\n1,1.5,2.0,1\n")
            wish = {"sterna.dev/epoch-csv": str(path), "sterna.dev/metric": "loss"}
            await engine.submit(manifest("a", ["sleep", "600"], annotations=wish))
            growth = await growth_of(engine, "a", at_least=1)
            assert growth["metric"] == "loss"

    asyncio.run(story())
