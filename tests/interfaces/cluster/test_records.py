"""Records of a cluster have the keys of the local engine's, so that tables and scripts work on either."""

import asyncio
from contextlib import closing

import pytest

from sterna.interfaces.client import Client
from sterna.interfaces.client.cluster import cluster_client
from sterna.model.errors import Conflict, InvalidRequest, NotFound
from tests.cluster.requests import until
from tests.engines.local.lab import lab, toy
from tests.interfaces.cluster.manifests import elastic


def shape(value):
    """Keys all the way down; of a list of records, those of the last one; values are nothing."""
    if isinstance(value, dict):
        return {key: shape(child) for key, child in value.items()}
    return [shape(value[-1])] if isinstance(value, list) and value and isinstance(value[-1], dict) else None


def keys_of(records):
    """Names that jobs choose themselves (metrics, numbers, event data) are no part of the shape."""
    free = {"metrics", "numbers", "data", "settings", "jobs"}
    return {name: _without(shape(record), free) for name, record in records.items()}


def _without(value, free):
    if isinstance(value, dict):
        return {key: None if key in free else _without(child, free) for key, child in value.items()}
    return [_without(child, free) for child in value] if isinstance(value, list) else None


async def asked(scheduler, job_id: str, node: str) -> dict[str, object]:
    return {
        "listed": next(one for one in await scheduler.jobs() if one["id"] == job_id),
        "job": await scheduler.job(job_id),
        "explanation": await scheduler.explain(job_id),
        "node": next(one for one in await scheduler.nodes() if one["name"] == node),
        "migration": (await scheduler.migrations(job_id))[-1],
        "event": (await scheduler.events(job_id))[-1],
        "policy": await scheduler.policy(),
        "health": await scheduler.health(),
    }


def local_records() -> dict[str, object]:
    async def story() -> dict[str, object]:
        async with lab(nodes=2, gpus=2) as engine:
            await engine.submit(toy("mnist", steps=100_000))
            job = await engine.until_step("mnist", 3)
            (here,) = job["nodes"]
            (there,) = {node["name"] for node in await engine.scheduler.nodes()} - {here}
            await engine.scheduler.migrate("default/mnist", worker=None, to=there)
            await engine.until_event("Migrated", "default/mnist")
            return await asked(engine.scheduler, "default/mnist", there)

    return asyncio.run(story())


class Asking:
    """A client as a scheduler is asked."""

    def __init__(self, client) -> None:
        self._client = client

    def __getattr__(self, name):
        async def ask(*arguments):
            return await asyncio.to_thread(getattr(self._client, name), *arguments)

        return ask


@pytest.mark.slow
def test_every_record_has_the_keys_of_the_local_engines(console, trained, operator_namespace):
    with closing(cluster_client(kubeconfig=str(console.kubeconfig))) as client:
        console.event("Placed", "ElasticJob", "mnist")
        ours = asyncio.run(asked(Asking(client), f"{console.namespace}/mnist", trained[0]))
    theirs = local_records()
    expected = keys_of(theirs)
    found = keys_of(ours)
    expected["job"]["checkpoint"] = expected["listed"]["checkpoint"] = None  # there or not, whatever the job did so far
    found["job"]["checkpoint"] = found["listed"]["checkpoint"] = None
    expected["job"]["growth"] = expected["listed"]["growth"] = expected["node"]["measured"] = None  # so are these
    found["node"]["labels"] = expected["node"]["labels"] = None  # whatever the cluster gives its nodes
    assert found.keys() == expected.keys()
    for name, record in found.items():
        assert record == expected[name], name


def quiet(client: Client) -> int:
    """The number of the newest change, 0 if it is another when it is asked for again: all namespaces count."""
    newest = client.changed(after=0, timeout_s=0)
    return newest if client.changed(after=newest, timeout_s=0) == newest else 0


def test_a_program_asks_a_cluster_as_it_asks_an_engine(console, trained):
    with closing(cluster_client(kubeconfig=str(console.kubeconfig))) as client:
        assert client.job("mnist")["id"] == f"{console.namespace}/mnist"
        with pytest.raises(NotFound, match="nope"):
            client.job("nope")
        with pytest.raises(InvalidRequest, match="min"):
            client.submit(elastic("a").replace("min: 1", "min: x"))
        with pytest.raises(Conflict, match="exists already"):
            client.submit(elastic("mnist"))
        with pytest.raises(InvalidRequest, match="nothing"):
            client.shutdown()
        before = until(lambda: quiet(client), "jobs of tests before this one are gone, and nothing changes")
        client.suspend("mnist")
        assert client.changed(after=before, timeout_s=60) > before
