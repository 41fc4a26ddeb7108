"""Operators that are killed, replaced, or not alone."""

import asyncio
import copy
from collections.abc import Callable
from typing import Any

from sterna.engines.kubernetes.apiserver.port import Api, Refused, Resource
from tests.cluster.requests import until
from tests.engines.kubernetes.operator.lab import ELECTION, Lab, elastic_job, same, state_of, tf_job


def test_an_operator_that_is_killed_and_started_again_goes_on_with_what_is(lab: Lab):
    lab.nodes.add(2, gpus=2)
    lab.nodes.habits.hold_starts = True
    names = ["job1-ps-0", *(f"job1-worker-{n}" for n in range(4))]
    first = lab.operator()
    lab.create(tf_job("job1", workers=2, low=1, high=4))
    until(lambda: len(lab.pods()) >= 2, "some pods are there", story=lab.story)
    first.kill()
    before = lab.pods()
    enqueued = lab.job("TFJob", "job1")["status"]["enqueueTime"]
    lab.nodes.habits.hold_starts = False
    with lab.operator():
        for name in before:
            lab.nodes.start(name)
        after = lab.until_pods(*names)
        assert same(list(before), before, after)
        assert lab.until_state("TFJob", "job1", "Running")["status"]["enqueueTime"] == enqueued


def test_a_finished_job_is_not_run_again_by_a_new_operator(lab: Lab):
    lab.nodes.add(1, gpus=2)
    with lab.operator():
        lab.create(tf_job("done", workers=1, low=1, high=1, ps=0))
        lab.until_pods("done-worker-0")
        lab.nodes.exit("done-worker-0", 0)
        lab.until_condition("TFJob", "done", "Succeeded")
    before = lab.job("TFJob", "done")["status"]
    with lab.operator() as second:
        second.until_leads()
        lab.create(elastic_job("next", low=1, high=1))
        until(lambda: "next-worker-0" in lab.pods(), "the next one starts", story=lab.story)
        until(lambda: second.operator.at_rest, "nothing is left to do")
    assert lab.job("TFJob", "done")["status"] == before
    assert lab.pods().keys() <= {"done-worker-0", "next-worker-0"}


def test_a_gang_that_is_killed_in_the_middle_of_a_resize_comes_back_at_its_new_size(lab: Lab):
    lab.nodes.add(1, gpus=2)
    lab.nodes.habits.on_stop = lambda _: None  # pods that are told to go stay until somebody lets them
    first = lab.operator()
    lab.create(elastic_job("old", low=1, high=2))
    lab.until_pods("old-worker-0", "old-worker-1")
    lab.create(elastic_job("new", low=1, high=1))
    until(lambda: all("deletionTimestamp" in pod["metadata"] for pod in lab.pods().values()), "all are told to go")
    first.kill()
    with lab.operator():
        for name in ("old-worker-0", "old-worker-1"):
            lab.nodes.let_go(name)
        lab.until_pods("old-worker-0", "new-worker-0")
        lab.until_state("ElasticJob", "old", "Running")


def test_a_policy_remembers_through_a_restart(lab: Lab):
    lab.nodes.add(1, gpus=1)
    with lab.operator(policy="tiresias") as first:
        lab.create(elastic_job("job", low=1, high=1))
        lab.until_pods("job-worker-0")
        until(lambda: first.operator.at_rest, "nothing is left to do")
        remembered = first.ask(lambda found: found.engine.memory)
    assert remembered.last_action_s is not None
    with lab.operator(policy="tiresias") as second:
        second.until_leads()
        assert second.ask(lambda found: found.engine.memory).last_action_s == remembered.last_action_s


def test_of_two_operators_one_leads_and_the_other_takes_over_when_it_stops(lab: Lab):
    lab.nodes.add(1, gpus=2)
    one = lab.operator(identity="one", **ELECTION).until_leads()
    two = lab.operator(identity="two", **ELECTION)
    until(lambda: two.operator.health().synced, "the standby knows the cluster")
    lab.create(elastic_job("job", low=1, high=1))
    before = lab.until_pods("job-worker-0")
    assert not two.operator.leads
    one.stop()
    two.until_leads()
    assert two.operator.health().leader.startswith("two")
    lab.create(elastic_job("other", low=1, high=1))
    after = lab.until_pods("job-worker-0", "other-worker-0")
    assert same(["job-worker-0"], before, after)
    epochs = {lab.job("ElasticJob", name)["status"]["scheduling"].get("epoch") for name in ("job", "other")}
    assert max(epoch for epoch in epochs if epoch is not None) >= 2


def test_r2_a_leader_that_was_killed_is_followed_once_its_lease_has_run_out(lab: Lab):
    lab.nodes.add(1, gpus=2)
    one = lab.operator(identity="one", wrap=Mute, **ELECTION).until_leads()
    lab.create(elastic_job("job", low=1, high=1))
    before = lab.until_pods("job-worker-0")
    one.kill()
    two = lab.operator(identity="two", **ELECTION).until_leads()
    lab.create(elastic_job("other", low=1, high=1))
    assert same(["job-worker-0"], before, lab.until_pods("job-worker-0", "other-worker-0"))
    two.stop()


def test_somebody_elses_write_in_between_costs_a_look_and_nothing_else(lab: Lab):
    """Every second write of a status finds that somebody was faster."""
    lab.nodes.add(2, gpus=2)
    doors: list[Faster] = []

    def wrap(door: Api) -> Any:
        doors.append(Faster(door))
        return doors[0]

    with lab.operator(wrap=wrap):
        lab.create(tf_job("job1", workers=2, low=1, high=4))
        lab.until_pods("job1-ps-0", *(f"job1-worker-{n}" for n in range(4)))
        lab.until_state("TFJob", "job1", "Running")
    assert doors[0].conflicts >= 2
    assert state_of(lab.job("TFJob", "job1")) == "Running"


def test_one_job_whose_status_cannot_be_written_does_not_keep_room_from_the_others(lab: Lab):
    lab.nodes.add(1, gpus=2)
    lab.create(elastic_job("aaa", low=1, high=1))
    lab.create(elastic_job("bbb", low=1, high=1))
    with lab.operator(wrap=Forbidden) as operator:
        lab.until_pods("bbb-worker-0")
        lab.create(elastic_job("ccc", low=1, high=1))
        lab.until_pods("bbb-worker-0", "ccc-worker-0")
        assert operator.operator.leads


class Through:
    """A door that passes everything on."""

    def __init__(self, door: Api) -> None:
        self._door = door

    def guarded(self, gate: Callable[[], None]) -> Any:
        twin = copy.copy(self)
        twin._door = self._door.guarded(gate)
        return twin

    def __getattr__(self, name: str) -> Any:
        if name == "_door":
            raise AttributeError(name)  # of a copy that has nothing yet
        return getattr(self._door, name)


class Mute(Through):
    """A door through which no Lease is ever given back, as if the process had been shot."""

    async def patch(self, resource: Resource, name: str, body: Any, **values: Any) -> Any:
        if resource.kind == "Lease" and body["spec"]["holderIdentity"] == "":
            raise asyncio.CancelledError
        return await self._door.patch(resource, name, body, **values)


class Faster(Through):
    def __init__(self, door: Api) -> None:
        super().__init__(door)
        self.conflicts = 0
        self._writes = 0

    async def patch(self, resource: Resource, name: str, body: Any, **values: Any) -> Any:
        if values.get("subresource") == "status":
            self._writes += 1
            if self._writes % 2:
                self.conflicts += 1
                other = {"metadata": {"annotations": {"somebody": str(self._writes)}}}
                await self._door.patch(resource, name, other, namespace=values["namespace"], shape=values["shape"])
        return await self._door.patch(resource, name, body, **values)


class Forbidden(Through):
    """A door through which nobody places job aaa."""

    async def patch(self, resource: Resource, name: str, body: Any, **values: Any) -> Any:
        if name == "aaa" and body.get("status", {}).get("scheduling", {}).get("seats"):
            raise Refused("a webhook says no", code=403)
        return await self._door.patch(resource, name, body, **values)
