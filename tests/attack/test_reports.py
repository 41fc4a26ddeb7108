"""Reports as an attacker sends them: poison, replays, patterns, and whatever hypothesis thinks of. The monitor is a
real process or listens on a real socket, and behind it is a real engine; the attacker's neighbours notice nothing."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sterna.engines.door.following import FOLLOW_BYTES_MAX
from sterna.httpd import call
from sterna.model.errors import InvalidRequest
from sterna.monitor import Watched, matching
from sterna.monitor.matcher import Matcher
from sterna.protocol.reports import PATTERN_CHARACTERS_MAX, SEQ_MAX, SEQ_SENT_MAX, Answer, Batch, Report
from sterna.protocol.tokens import bearer, job_token
from tests.attack.tenants import Tenant
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.fixtures import install_crds
from tests.cluster.requests import Body
from tests.engines.local import lab as local
from tests.httpd.wires import bounded
from tests.kubernetes.jobs import tfjob
from tests.kubernetes.lab import Lab
from tests.kubernetes.rights import grant_shipped_rights
from tests.kubernetes.visiting import SECRET, Visitor
from tests.monitor.stage import staged
from tests.monitor.test_process import Process
from tests.monitor.test_process import started as monitor_started
from tests.needs import seeds

SLOW = "(?i)(?P<value>x)" + "[ -\U0010ffff]" * 190  # 966 characters; Python takes seconds to compile it
ENDLESS = r"(?P<value>(a+)+)$"  # takes for ever to be matched
LOSS = r"loss=(?P<value>[0-9.]+)"
ATTACKS = len(seeds(12))  # that hypothesis thinks of


# -- a real monitor process before a real operator --------------------------------------------------------------------


@pytest.fixture
def lab(control_plane: ControlPlane, fake_nodes: FakeNodes, namespace: str) -> Iterator[Lab]:
    install_crds(control_plane)
    grant_shipped_rights(control_plane)
    found = Lab(control_plane, fake_nodes, namespace)
    found.nodes.add(1, gpus=0, cpu="8")
    yield found
    found.close()


@pytest.fixture
def alice(lab: Lab) -> Iterator[Tenant]:
    found = Tenant(lab, "alice")
    yield found
    found.close()


@contextmanager
def stood(lab: Lab, alice: Tenant, tmp_path: Path) -> Iterator[tuple[Visitor, Process]]:
    secret = tmp_path / "token"
    secret.write_text(SECRET)
    running = lab.start(watch=(lab.namespace, alice.namespace), door_port=0, token_file=secret)
    lab.until(lambda: running.operator.door_port and running.operator.leads, "the door is open")
    port = running.operator.door_port
    assert port is not None
    with monitor_started(tmp_path, port, "--node", lab.nodes.names[0], secret=SECRET) as process:
        yield Visitor(lab, running), process


def submitted(tenant: Lab | Tenant, name: str, **annotations: str) -> Body:
    body = yaml.safe_load(tfjob(name, gpus=0, cpu="1", ps=0))
    body["metadata"]["annotations"] = annotations
    if isinstance(tenant, Lab):
        return tenant.submit(yaml.safe_dump(body))[0]
    return tenant.api.create(tenant.kind("TFJob"), body)


def token_of(job: Body) -> str:
    meta = job["metadata"]
    return job_token(SECRET, namespace=meta["namespace"], job=meta["name"], uid=meta["uid"])


def post(process: Process, rows: Any, *, token: str) -> tuple[int, Any]:
    async def scene() -> Any:
        headers = {"Authorization": bearer(token)}
        url = f"http://127.0.0.1:{process.port}/reports"
        return await call("POST", url, body=json.dumps(rows).encode(), headers=headers)

    answer = bounded(scene)
    return answer.status, json.loads(answer.body)


def reasons(tenant: Tenant, name: str) -> set[str]:
    return {event["reason"] for event in tenant.events(name)}


def is_at(lab: Lab, job: Body, units: float) -> bool:
    return done(lab, job) == units


def done(lab: Lab, job: Body) -> float | None:
    """How far the operator believes the job to be."""
    told = lab.operators[-1].operator.world.lessons.told.get(job["metadata"]["uid"])
    return None if told is None else told.units_done


def test_s1_a_poisoned_number_does_not_silence_the_neighbours(lab: Lab, alice: Tenant, tmp_path: Path):
    with stood(lab, alice, tmp_path) as (_, process):
        hers, victim = submitted(alice, "evil"), submitted(lab, "job1")
        lab.until_pods("job1", "job1-worker-0")
        lab.until(lambda: alice.api.items(alice.path("pods")), "her pod is there")
        status, said = post(process, {"pod": "evil-worker-0", "seq": SEQ_MAX, "value": 1.0}, token=token_of(hers))
        assert (status, said["field"]) == (422, "seq")
        assert str(SEQ_SENT_MAX) in said["detail"]
        rows = [{"pod": "evil-worker-0", "seq": seq, "value": 1.0} for seq in (SEQ_MAX, SEQ_MAX - 1, SEQ_SENT_MAX)]
        status, said = post(
            process, {"reports": [*rows, {"pod": "evil-worker-0", "units_done": 7}]}, token=token_of(hers)
        )
        assert (status, said["accepted"], [row["place"] for row in said["refused"]]) == (200, 2, [0, 1])
        for units in (1, 2, 3):
            said = {"pod": "job1-worker-0", "value": 0.5, "units_done": units}
            assert post(process, said, token=token_of(victim))[0] == 200
        lab.until(lambda: done(lab, victim) == 3, "the victim's reports arrive")
        lab.until(lambda: done(lab, hers) == 7, "and so does what was right of hers")


def test_s1_a_batch_with_a_poisoned_report_is_taken_without_it_and_its_job_alone_is_told(
    lab: Lab, alice: Tenant, tmp_path: Path
):
    with stood(lab, alice, tmp_path) as (visitor, _):
        submitted(alice, "evil")
        victim = submitted(lab, "job1")
        node = lab.until_pods("job1", "job1-worker-0")["job1-worker-0"]["spec"]["nodeName"]
        lab.until(lambda: alice.api.items(alice.path("pods")), "her pod is there")
        lab.until_rest()
        good = [Report(f"{lab.namespace}/job1-worker-0", seq, 1.0, units_done=seq).to_body() for seq in (1, 2, 3)]
        evil = {"pod": f"{alice.namespace}/evil-worker-0", "seq": 2**63, "at_s": 1.0, "value": 1.0}
        for _ in range(3):
            rows = [good[0], evil, good[1], {**evil, "seq": 5, "value": 1e300}, good[2]]
            said = visitor.asks("POST", "/reports", {"reports": rows, "monitor": "m", "node": node})
            assert said.status == 200
            assert sorted(Answer.from_json(said.body).refused) == [1, 3]
        assert done(lab, victim) == 3
        lab.until(lambda: "ReportRefused" in reasons(alice, "evil"), "she is told")
        (event,) = [event for event in alice.events("evil") if event["reason"] == "ReportRefused"]
        assert "seq" in event["message"] or "value" in event["message"]
        assert event.get("count", 1) == 1, "six were refused within the minute, and one event says so"
        assert "ReportRefused" not in lab.reasons("job1")


def test_s1_annotations_of_one_tenant_do_not_fill_the_answer_for_all(lab: Lab, alice: Tenant, tmp_path: Path):
    with stood(lab, alice, tmp_path) as (visitor, _):
        submitted(lab, "job1", **{"sterna.dev/log-pattern": LOSS})
        pod = lab.until_pods("job1", "job1-worker-0")["job1-worker-0"]
        for number in range(5):
            submitted(alice, f"evil{number}", **{"sterna.dev/log-pattern": "x" * 250_000})
        lab.until(lambda: len(alice.api.items(alice.path("pods"))) == 5, "her pods are there")
        lab.until_rest()
        batch = Batch((), monitor="m", node=pod["spec"]["nodeName"]).to_json()
        answer = visitor.asks("POST", "/reports", batch)
        assert len(answer.body) < 2 * FOLLOW_BYTES_MAX
        assert Answer.from_json(answer.body).follow == {f"{lab.namespace}/job1-worker-0": LOSS}
        names = [f"evil{number}" for number in range(5)]
        lab.until(lambda: all("LogPatternRefused" in reasons(alice, name) for name in names), "she is told")
        assert "LogPatternRefused" not in lab.reasons("job1")


def test_s1_the_token_of_an_earlier_job_does_not_speak_for_the_present_one(lab: Lab, alice: Tenant, tmp_path: Path):
    with stood(lab, alice, tmp_path) as (_, process):
        earlier = submitted(lab, "job1")
        lab.until_pods("job1", "job1-worker-0")
        lab.delete("TFJob", "job1")
        lab.until(lambda: lab.gone("TFJob", "job1") and not lab.all_pods("job1"), "it is gone")
        present = submitted(lab, "job1")
        lab.until_pods("job1", "job1-worker-0")
        assert earlier["metadata"]["uid"] != present["metadata"]["uid"]
        for seq in (1, 2, 3):
            stale = {"pod": "job1-worker-0", "seq": seq + 10**15, "units_done": 99}
            assert post(process, stale, token=token_of(earlier))[0] == 200
            said = {"pod": "job1-worker-0", "seq": seq, "units_done": seq}
            assert post(process, said, token=token_of(present))[0] == 200
            lab.until(partial(is_at, lab, present, seq), "the present one is heard")
        told = lab.operators[-1].operator.world.lessons.told
        assert set(told) == {present["metadata"]["uid"]}


# -- anything at all, before a real engine ----------------------------------------------------------------------------

numbers = st.sampled_from([0, -1, 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 10**400, 1e308, -1e308, 1e-320, 0.1])
anything = st.none() | st.booleans() | numbers | st.text(max_size=8) | st.lists(numbers, max_size=2)
FIELDS = [name for name in Report._fields if name != "pod"]
rows = st.fixed_dictionaries(
    {
        "pod": st.sampled_from(
            ["evil-worker-0", "evil", "default/evil-worker-0", "job1-worker-0", "default/job1", "../x"]
        )
    },
    optional=dict.fromkeys(FIELDS, anything),
)
bodies = st.lists(st.fixed_dictionaries({"reports": st.lists(rows | anything, max_size=6)}) | rows, max_size=8)


def test_s1_whatever_one_job_reports_its_neighbour_is_heard():
    """Hypothesis thinks of reports that a job sends of itself, in its neighbour's name too. After each round the
    neighbour reports, and that arrives."""
    heard = []

    async def story(engine: local.Lab, attack: list[Any]) -> None:
        url = (await engine.scheduler.health())["monitor"]
        records = {name: await engine.job(name) for name in ("evil", "job1")}
        tokens = {
            name: bearer(job_token(SECRET, namespace="default", job=name, uid=record["uid"]))
            for name, record in records.items()
        }
        for body in attack:
            sent = json.dumps(body).encode()
            answer = await call("POST", f"{url}/reports", body=sent, headers={"Authorization": tokens["evil"]})
            assert answer.status in (200, 400, 403, 404, 409, 422), answer
        before = (records["job1"]["growth"] or {}).get("evaluations", 0)
        value = 1.0 + 1.0 / (before + 1)
        said = json.dumps({"pod": "job1-worker-0", "value": value}).encode()
        answer = await call("POST", f"{url}/monitor", body=said, headers={"Authorization": tokens["job1"]})
        assert answer.status == 200

        async def arrived() -> bool:
            growth = (await engine.job("job1"))["growth"]
            return growth is not None and (growth["evaluations"], growth["value"]) == (before + 1, value)

        await engine.until(arrived, "the neighbour is heard")
        heard.append(value)

    with asyncio.Runner() as runner:

        async def begun() -> Any:
            manager = local.lab(monitor_secret=SECRET, gpus=2)
            engine = await manager.__aenter__()
            for name in ("evil", "job1"):
                wish = {"sterna.dev/monitor": "true"}
                await engine.submit(local.manifest(name, ["sleep", "600"], annotations=wish))
                await engine.until_workers(name, 1)
            return manager, engine

        manager, engine = runner.run(begun())
        try:

            @settings(max_examples=ATTACKS)
            @given(attack=bodies)
            @example(
                attack=[{"pod": "job1-worker-0", "value": 7.0}, {"reports": [{"pod": "default/job1", "value": 7.0}]}]
            )
            @example(
                attack=[{"pod": "evil-worker-0", "seq": SEQ_MAX, "value": 1.0}, {"pod": "evil-worker-0", "value": 1.0}]
            )
            def attacked(attack: list[Any]) -> None:
                runner.run(story(engine, attack))

            attacked()
        finally:
            runner.run(manager.__aexit__(None, None, None))
    assert len(heard) >= ATTACKS


# -- patterns ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def nothing_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a pattern is compiled, this process does nothing else: that is for another one."""

    def refused(*_: Any) -> None:
        raise AssertionError("a user's pattern is compiled on the event loop")

    monkeypatch.setattr(matching, "fault_of", refused)
    monkeypatch.setattr(matching, "found_in", refused)


@pytest.mark.parametrize(("pattern", "line"), [(SLOW, "x"), (ENDLESS, "a" * 60 + "b"), ("(" * 999, "x"), ("[", "x")])
def test_s1_a_users_pattern_costs_the_monitor_a_bounded_time_and_its_neighbours_nothing(
    nothing_is_compiled_here: None, tmp_path: Path, pattern: str, line: str
):
    logs = {name: tmp_path / name for name in ("evil", "job1")}

    async def scene() -> Any:
        async with staged() as stage:
            for log in logs.values():
                log.write_text("")
            stage.monitor.watch(Watched("team-a/evil-worker-0", log=logs["evil"], pattern=pattern))
            stage.monitor.watch(Watched("team-b/job1-worker-0", log=logs["job1"], pattern=LOSS))
            logs["evil"].write_text(f"{line}\n")
            logs["job1"].write_text("loss=0.5\n")
            await stage.monitor.follow()
            await stage.monitor.forwarding.send_all()
            logs["evil"].write_text(f"{line}\n{line}\n")
            logs["job1"].write_text("loss=0.5\nloss=0.25\n")
            await stage.monitor.follow()
            await stage.monitor.forwarding.send_all()
            return stage.scheduler

    scheduler = bounded(scene)
    assert scheduler.values("team-b/job1-worker-0") == [0.5, 0.25]
    told = [pod for batch in scheduler.batches for pod in batch.faults]
    assert told == ["team-a/evil-worker-0"], "its job is told, once"


def test_s1_matching_has_a_limit_of_memory():
    async def scene() -> Any:
        matcher = Matcher()
        try:
            await matcher.found(r"(?P<value>\d)", ["1"])
            assert matcher._process is not None
            limits = Path(f"/proc/{matcher._process.pid}/limits").read_text()
            return next(line.split()[3] for line in limits.splitlines() if line.startswith("Max address space"))
        finally:
            await matcher.stop()

    assert int(bounded(scene)) == matching.MEMORY_BYTES_MAX


def test_s1_many_patterns_of_one_namespace_leave_time_for_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each of them is quick enough to be used; together they would take the whole round."""

    class Clocked(Matcher):
        async def found(self, pattern: str, lines: list[str]) -> Any:
            answer = await super().found(pattern, lines)
            self.took_s = 0.4 if pattern != LOSS else 0.001  # as a busy machine would measure it
            return answer

    monkeypatch.setattr("sterna.monitor.monitor.Matcher", Clocked)

    async def scene() -> Any:
        async with staged() as stage:
            names = [f"team-a/evil-worker-{number}" for number in range(9)] + ["team-b/job1-worker-0"]
            for name in names:
                log = tmp_path / name.replace("/", "_")
                log.write_text("")
                pattern = LOSS if "job1" in name else r"loss=(?P<value>\d+)"
                stage.monitor.watch(Watched(name, log=log, pattern=pattern))
                log.write_text("loss=5\n")
            await stage.monitor.follow()
            await stage.monitor.forwarding.send_all()
            return stage.scheduler

    scheduler = bounded(scene)
    assert scheduler.values("team-b/job1-worker-0") == [5.0]
    assert sum("evil" in report.pod for report in scheduler.reports) == 3, "one second's worth of them"
    faults = {pod: why for batch in scheduler.batches for pod, why in batch.faults.items()}
    assert len(faults) == 6
    assert all("namespace" in why and "evil" in pod for pod, why in faults.items())


def test_s1_a_pattern_that_takes_seconds_to_compile_is_refused_at_submission(nothing_is_compiled_here: None):
    async def story() -> None:
        async with local.lab(monitor_secret=SECRET) as engine:
            body = yaml.safe_load(local.manifest("evil", ["true"]))
            body["metadata"]["annotations"] = {"sterna.dev/log-pattern": SLOW}
            with pytest.raises(InvalidRequest, match=r"longer than 0\.5 s"):
                await engine.submit(yaml.safe_dump(body, allow_unicode=True))
            with pytest.raises(InvalidRequest, match="not a regular expression"):
                await engine.submit(local.manifest("evil", ["true"], annotations={"sterna.dev/log-pattern": "("}))
            await engine.submit(local.manifest("good", ["true"], annotations={"sterna.dev/log-pattern": LOSS}))

    asyncio.run(story())


def test_both_sides_agree_how_long_a_pattern_may_be():
    assert matching.PATTERN_CHARACTERS_MAX == PATTERN_CHARACTERS_MAX
