"""Row 36 of dragon-family: the monitor's API. What is wrong gets a 4xx that says what, and costs nothing."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.httpd.client import Answered
from sterna.monitor import Watched
from sterna.protocol.reports import REPORTS_MAX
from sterna.protocol.tokens import job_token
from tests.httpd.wires import bounded
from tests.monitor.stage import NOW_S, SECRET, TOKEN, Stage, staged

POD = "train-worker-0"
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/train/status"


def test_dragon_36_an_evaluation_is_taken_with_ok_and_reaches_the_scheduler():
    async def scene() -> tuple[Answered, Stage]:
        async with staged() as stage:
            answer = await stage.post("/monitor", {"pod": POD, "value": 0.75})
            return answer, stage

    answer, stage = bounded(scene)  # stopping sends what is left
    assert (answer.status, answer.body) == (200, b"Ok")
    (report,) = stage.scheduler.reports
    assert (report.pod, report.value, report.at_s, report.job_uid) == ("team/train-worker-0", 0.75, NOW_S, "u1")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        pytest.param(b"", 400, "body", id="nothing"),
        pytest.param(b'{"pod": "train-worker-0", "value": 0.5', 400, "body", id="half of it"),
        pytest.param(b"pod=train-worker-0&value=0.5", 400, "body", id="a form"),
        pytest.param(b"\xff\x00\xfe", 400, "body", id="bytes that are no text"),
        pytest.param(b'["train-worker-0", 0.5]', 400, "body", id="a list"),
        pytest.param(b'{"pod": "train-worker-0", "value": NaN}', 400, "body", id="NaN"),
        pytest.param(b'{"pod": "train-worker-0", "value": -Infinity}', 400, "body", id="infinity"),
        pytest.param(b"[" * 200_000, 400, "body", id="deeper than any stack"),
        pytest.param({"pod": POD, "value": "NaN"}, 422, "value", id="NaN as text"),
        pytest.param(b'{"pod": "train-worker-0", "value": 1e999}', 422, "value", id="more than a float holds"),
        pytest.param({"pod": POD, "value": True}, 422, "value", id="true"),
        pytest.param({"pod": POD, "value": None}, 422, "value", id="null"),
        pytest.param({"pod": POD}, 422, "value", id="no value"),
        pytest.param({"value": 0.5}, 422, "pod", id="no pod"),
        pytest.param({"pod": 5, "value": 0.5}, 422, "pod", id="a pod that is a number"),
        pytest.param({"pod": "", "value": 0.5}, 422, "pod", id="an empty name"),
        pytest.param({"pod": "Train_Worker", "value": 0.5}, 422, "pod", id="a name that no pod can have"),
        pytest.param({"pod": "../secrets", "value": 0.5}, 422, "pod", id="a path"),
        pytest.param({"pod": "x" * 5000, "value": 0.5}, 422, "pod", id="an enormous name"),
        pytest.param({"pod": POD, "value": 0.5, "seq": 0}, 422, "seq", id="the monitor's own number"),
        pytest.param({"pod": POD, "value": 0.5, "at_s": NOW_S + 1000}, 422, "at_s", id="from the future"),
        pytest.param({"pod": "other-worker-0", "value": 0.5}, 403, "pod", id="a pod of another job"),
        pytest.param({"pod": "train-worker-worker-0", "value": 0.5}, 403, "pod", id="a pod of a job that begins alike"),
        pytest.param({"pod": "elsewhere/train-worker-0", "value": 0.5}, 403, "pod", id="another namespace"),
    ],
)
def test_dragon_36_what_is_no_evaluation_is_refused_and_costs_nothing(body, status, field):
    async def scene() -> tuple[Answered, bool, int]:
        async with staged() as stage:
            answer = await stage.post("/monitor", body)
            return answer, await stage.alive(), len(stage.monitor.windows)

    answer, alive, pods = bounded(scene)
    problem = json.loads(answer.body)
    assert (answer.status, problem["status"], problem["field"]) == (status, status, field)
    assert answer.headers[b"content-type"] == b"application/problem+json"
    assert problem["detail"]
    assert alive
    assert pods == 0


def test_dragon_36_an_enormous_body_is_refused_before_it_is_read():
    async def scene() -> tuple[int, bool]:
        async with staged() as stage:
            answer = await stage.post("/monitor", b" " * (2 << 20))
            return answer.status, await stage.alive()

    assert bounded(scene) == (413, True)


def test_dragon_36_an_unknown_pod_is_refused_and_a_known_one_is_not():
    async def scene() -> list[int]:
        async with staged() as stage:
            stage.monitor.watch(Watched("team/train-worker-0"))
            bodies = [{"pod": name, "value": 1.0} for name in ("train-worker-1", "train-worker-0", "train")]
            answers = [(await stage.post("/monitor", body)).status for body in bodies]
            assert len(stage.monitor.windows) == 2
            return answers

    assert bounded(scene) == [404, 200, 200]  # the job as a whole is known by its pod


@pytest.mark.parametrize(
    ("token", "status"),
    [
        pytest.param(None, 401, id="none"),
        pytest.param("", 401, id="an empty one"),
        pytest.param("guessed", 401, id="a guess"),
        pytest.param(TOKEN[:-1] + ("0" if TOKEN[-1] != "0" else "1"), 401, id="one digit off"),
        pytest.param(job_token("another installation", namespace="team", job="train", uid="u1"), 401, id="foreign"),
        pytest.param(job_token(SECRET, namespace="team", job="other", uid="u1"), 403, id="another job's"),
        pytest.param(job_token(SECRET, namespace="rest", job="train", uid="u1"), 403, id="another namespace's"),
    ],
)
@pytest.mark.parametrize("path", ["/monitor", "/reports", PATH])
def test_dragon_36_who_may_not_report_is_told_so(path, token, status):
    async def scene() -> tuple[int, int]:
        async with staged() as stage:
            body = {"pod": "team/train-worker-0", "value": 1.0, "trainerStatus": {"progressPercentage": 1}}
            answer = await stage.post(path, body, token=token)
            return answer.status, len(stage.monitor.windows)

    assert bounded(scene) == (status, 0)


def test_dragon_36_a_silent_pods_record_expires_after_60_s_and_its_last_evaluation_stays():
    async def scene():
        async with staged() as stage:
            for value in (0.5, 0.6, 0.7):
                await stage.post("/monitor", {"pod": POD, "value": value})
            await stage.monitor.forwarding.send_all()
            stage.clock.now_s += 59.9
            await stage.monitor.expire()
            before = (await stage.workers())["team/train-worker-0"]
            stage.clock.now_s += 0.1
            await stage.monitor.expire()
            after = (await stage.workers())["team/train-worker-0"]
            await stage.post("/monitor", {"pod": POD, "value": 0.8})
            again = (await stage.workers())["team/train-worker-0"]
            return before, after, again, stage

    before, after, again, stage = bounded(scene)
    assert (before["silent"], before["reports"]) == (False, 3)
    assert (after["silent"], after["reports"], after["last"]["value"]) == (True, 1, 0.7)
    assert (again["silent"], again["reports"], again["last"]["value"]) == (False, 2, 0.8)
    assert stage.scheduler.values() == [0.5, 0.6, 0.7, 0.8]  # and nothing was told twice


def test_a_replayed_report_is_refused_alone_and_passed_over_in_a_batch():
    async def scene():
        async with staged() as stage:
            report = {"pod": POD, "seq": 7, "at_s": NOW_S, "value": 0.5}
            first = await stage.post("/reports", report)
            again = await stage.post("/reports", report)
            older = await stage.post("/monitor", {**report, "seq": 6})
            batch = await stage.post("/reports", {"reports": [report, {**report, "seq": 8, "value": 0.6}]})
            return [first, again, older, batch], stage

    (first, again, older, batch), stage = bounded(scene)
    assert (first.status, again.status, older.status, batch.status) == (200, 409, 409, 200)
    assert json.loads(again.body)["last_seq"] == 7
    assert json.loads(batch.body) == {"accepted": 1, "passed_over": 1, "last_seq": 8}
    assert stage.scheduler.values() == [0.5, 0.6]


def test_another_job_under_the_same_name_starts_from_nothing():
    async def scene():
        async with staged() as stage:
            await stage.post("/reports", {"pod": POD, "seq": 900, "value": 0.9})
            successor = job_token(SECRET, namespace="team", job="train", uid="u2")
            answer = await stage.post("/reports", {"pod": POD, "seq": 1, "value": 0.1}, token=successor)
            return answer.status, (await stage.workers())["team/train-worker-0"]

    status, worker = bounded(scene)
    assert status == 200
    assert (worker["reports"], worker["last"]["value"], worker["last"]["job_uid"]) == (1, 0.1, "u2")


def test_of_a_batch_each_report_is_judged_by_itself_and_a_refusal_names_its_place():
    async def scene():
        async with staged() as stage:
            bad = [{"pod": POD, "step": "x"}, {"pod": "stranger-worker-0", "value": 1.0}]
            mixed = await stage.post("/reports", {"reports": [bad[0], {"pod": POD, "value": 1.0}, bad[1]]})
            nothing = await stage.post("/reports", {"reports": bad})
            too_many = await stage.post("/reports", {"reports": [{"pod": POD}] * (REPORTS_MAX + 1)})
            return mixed, nothing, too_many.status, await stage.workers()

    mixed, nothing, too_many, workers = bounded(scene)
    said = json.loads(mixed.body)
    assert (mixed.status, said["accepted"], said["passed_over"]) == (200, 1, 0)
    assert [(row["place"], row["status"]) for row in said["refused"]] == [(0, 422), (2, 403)]
    assert said["refused"][0]["field"] == "reports[0].step"
    assert (nothing.status, json.loads(nothing.body)["field"]) == (422, "reports[0].step"), "nothing is left of it"
    assert too_many == 422
    assert workers["team/train-worker-0"]["reports"] == 1


@pytest.mark.parametrize("seq", [2**63 - 1, 2**62 + 1])
def test_no_number_can_be_so_high_that_the_next_is_none(seq):
    async def scene():
        async with staged() as stage:
            high = await stage.post("/reports", {"pod": POD, "seq": seq, "value": 1.0})
            highest = await stage.post("/reports", {"pod": POD, "seq": 2**62, "value": 2.0})
            unnumbered = await stage.post("/monitor", {"pod": POD, "value": 3.0})
            return high, highest.status, unnumbered.status, stage

    high, highest, unnumbered, stage = bounded(scene)
    assert (high.status, json.loads(high.body)["field"], highest, unnumbered) == (422, "seq", 200, 200)
    assert stage.scheduler.values() == [2.0, 3.0], "what was taken in is good enough for the scheduler"


def test_the_token_of_an_earlier_job_touches_nothing_of_the_present_one():
    async def scene():
        async with staged() as stage:
            present = job_token(SECRET, namespace="team", job="train", uid="u2")
            await stage.post("/reports", {"pod": POD, "seq": 5, "value": 0.5}, token=present)
            stale = await stage.post("/reports", {"pod": POD, "seq": 2**62, "value": 9.0})  # u1's
            after = await stage.post("/reports", {"pod": POD, "seq": 6, "value": 0.6}, token=present)
            rows = json.loads((await stage.get("/workers", token=TOKEN)).body)["workers"]
            return stale.status, after.status, rows, stage

    stale, after, rows, stage = bounded(scene)
    assert (stale, after) == (200, 200)
    assert {row["job_uid"] for row in rows} == {"u1"}, "it sees what it said itself, and nothing else"
    said = [(report.job_uid, report.value) for report in stage.scheduler.reports]
    assert [value for uid, value in said if uid == "u2"] == [0.5, 0.6]


def test_what_a_worker_says_of_its_own_use_or_uid_is_not_believed():
    async def scene():
        async with staged() as stage:
            await stage.post("/reports", {"pod": POD, "value": 1.0, "usage": {"cpu": 0.0}, "job_uid": "forged"})
            return stage

    (report,) = bounded(scene).scheduler.reports
    assert (report.usage, report.job_uid) == (None, "u1")


def test_the_installations_token_speaks_for_any_pod_and_must_say_the_namespace():
    async def scene():
        async with staged() as stage:
            whole = await stage.post("/monitor", {"pod": "any/job-worker-0", "value": 1.0}, token=SECRET)
            bare = await stage.post("/monitor", {"pod": "job-worker-0", "value": 1.0}, token=SECRET)
            return whole.status, bare.status

    assert bounded(scene) == (200, 422)


def test_a_job_sees_its_own_workers_only():
    async def scene():
        async with staged() as stage:
            await stage.post("/monitor", {"pod": "team/train-worker-0", "value": 1.0}, token=SECRET)
            await stage.post("/monitor", {"pod": "team/other-worker-0", "value": 1.0}, token=SECRET)
            return (
                set(await stage.workers()),
                set(await stage.workers(token=TOKEN)),
                (await stage.get("/workers", token=None)).status,
            )

    assert bounded(scene) == ({"team/train-worker-0", "team/other-worker-0"}, {"team/train-worker-0"}, 401)


def test_kubeflow_trainers_push_is_a_report_about_the_job():
    async def scene():
        async with staged() as stage:
            status = {
                "progressPercentage": 45,
                "estimatedRemainingSeconds": 795,
                "metrics": [
                    {"name": "currentEpoch", "value": "2"},
                    {"name": "note", "value": "warm-up"},
                    {"name": "loss", "value": "0.2347"},
                    {"name": "accuracy", "value": "0.98"},
                ],
                "lastUpdatedTime": "2023-11-14T22:13:10Z",
            }
            answer = await stage.post(PATH, {"trainerStatus": status})
            bare = await stage.post(PATH, {"progressPercentage": 50, "metrics": [{"name": "loss", "value": "nan"}]})
            return answer.status, bare.status, stage

    status, bare, stage = bounded(scene)
    assert (status, bare) == (200, 200)
    first, second = stage.scheduler.reports
    assert (first.pod, first.metric, first.value, first.epoch) == ("team/train", "loss", 0.2347, 2)
    assert (first.units_done, first.units_total, first.remaining_s, first.at_s) == (45, 100, 795, NOW_S - 10)
    assert (second.units_done, second.value) == (50, None)


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"progressPercentage": 101}, "progressPercentage"),
        ({"progressPercentage": "half"}, "progressPercentage"),
        ({"estimatedRemainingSeconds": -1}, "estimatedRemainingSeconds"),
        ({"metrics": {}}, "metrics"),
        ({"metrics": [{"value": "1"}]}, "metrics[0]"),
        ({"metrics": [{"name": "a", "value": None}]}, "metrics[0].value"),
        ({"metrics": [{"name": "a", "value": "1"}] * 300}, "metrics"),
        ({"lastUpdatedTime": "yesterday"}, "lastUpdatedTime"),
        ({"lastUpdatedTime": 5}, "lastUpdatedTime"),
    ],
)
def test_a_push_that_makes_no_sense_is_refused(status, field):
    async def scene():
        async with staged() as stage:
            return await stage.post(PATH, {"trainerStatus": status}), len(stage.monitor.windows)

    answer, pods = bounded(scene)
    assert (answer.status, json.loads(answer.body)["field"], pods) == (422, field, 0)


def test_probes_need_no_token_and_tell_a_missing_secret():
    async def scene():
        async with staged() as stage:
            probed = [(await stage.probe(path)).status for path in ("/healthz", "/readyz", "/workers")]
            asked = [(await stage.get(path, token=None)).status for path in ("/healthz", "/readyz", "/nowhere")]
            return probed, asked, (await stage.get("/nowhere")).status

    assert bounded(scene) == ([200, 200, 404], [401, 401, 401], 404)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(bodies=st.lists(st.binary(max_size=300) | st.text(max_size=100).map(str.encode), min_size=1, max_size=5))
def test_no_body_ends_the_monitor_or_leaves_anything(bodies):
    async def scene():
        async with staged() as stage:
            answers = [(await stage.post("/reports", body)).status for body in bodies]
            return answers, await stage.alive(), len(stage.monitor.windows)

    answers, alive, pods = bounded(scene)
    assert all(400 <= status < 500 for status in answers)
    assert alive
    assert pods == 0
