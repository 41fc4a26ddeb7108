"""Snapshot files: the world that `sterna decide` is asked about, and what a journal keeps of every decision.

Reading accepts JSON and YAML and finds all problems at once; writing leaves out what reading would fill in anyway.
What was written reads back as exactly the same snapshot, so a decision made in production can be made again anywhere.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, ValidationError

from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Role
from sterna.model.nodes import Node
from sterna.model.resources import WHOLE_GPU_MILLI
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory
from sterna.wire.document_limits import SNAPSHOT_BYTES_MAX, read_document
from sterna.wire.fields import Moment, Name, Number, WholeNumber
from sterna.wire.job_shape import JobBody
from sterna.wire.node_shape import DeviceBody, GuestBody, NodeBody, ResourcesBody
from sterna.wire.problems import Body, InvalidDocument, Problem, problems_of
from sterna.wire.snapshot_text import API_VERSION, snapshot_record, written

GPUS_MAX = 1_000_000  # in all; cards are told apart one by one, so a typing error must not ask for billions


class MemoryBody(Body):
    """What the policy carries from one cycle to the next; the numbers are the policy's own."""

    jobs: dict[Name, dict[str, Number]] = Field(default_factory=dict)
    values: dict[str, Number] = Field(default_factory=dict)
    last_action_seconds: Moment | None = Field(
        default=None, description="when a plan last changed anything; null: never"
    )

    def to_model(self) -> PolicyMemory:
        jobs = {JobId(job_id): dict(numbers) for job_id, numbers in self.jobs.items()}
        return PolicyMemory(jobs, dict(self.values), self.last_action_seconds)


class SnapshotBody(Body):
    """The world as one decision sees it: nodes, jobs, and what each job holds right now."""

    api_version: Literal["sterna.dev/v1alpha1"]
    kind: Literal["Snapshot"]
    revision: WholeNumber = Field(default=0, description="a plan names the revision it was made from")
    now_seconds: Moment = Field(description="the only clock a decision sees")
    nodes: list[NodeBody]
    jobs: list[JobBody] = Field(default_factory=list)
    serving: list[GuestBody] = Field(
        default_factory=list, description="serving pods that have no node yet, oldest first"
    )
    memory: MemoryBody = MemoryBody()
    reserved_milli: WholeNumber | None = Field(
        default=None,
        description="room that the policy must leave alone, in milli-GPU or -CPU; null: what the serving pods ask for",
    )
    seed: int = Field(default=0, description="the only source of chance for a policy that needs any")
    usage: dict[Name, ResourcesBody] = Field(
        default_factory=dict, description="measured on nodes, by their id, guests included"
    )


def load_snapshot(text: str | bytes) -> Snapshot:
    """The snapshot that a file says, or `InvalidRequest` with every problem's path."""
    return snapshot_of(read_document(text, name="snapshot", bytes_max=SNAPSHOT_BYTES_MAX))


def snapshot_of(document: Any) -> Snapshot:
    """The same from plain values, as a journal keeps them."""
    try:
        body = SnapshotBody.model_validate(document)
    except ValidationError as error:
        raise InvalidDocument(problems_of(error)) from None
    nodes, jobs = [node.to_model() for node in body.nodes], list[Job]()
    problems = [*_twice("nodes", body.nodes), *_twice("jobs", body.jobs), *_too_many_gpus(nodes)]
    for index, node in enumerate(body.nodes):
        problems += _twice(f"nodes[{index}].devices", node.devices)
    for index, job in enumerate(body.jobs):
        problems += _muddled_workers(f"jobs[{index}]", job)
        try:
            jobs.append(job.to_model(now_s=body.now_seconds))
        except InvalidRequest as error:
            problems.append(_as_in_file(f"jobs[{index}].spec", error))
    if problems:
        raise InvalidDocument(problems)
    view = Snapshot.of(
        now_s=body.now_seconds,
        nodes=nodes,
        jobs=jobs,
        revision=body.revision,
        serving=[guest.to_model() for guest in body.serving],
        memory=body.memory.to_model(),
        seed=body.seed,
        usage={NodeId(node_id): used.to_model() for node_id, used in body.usage.items()},
    )
    return view if body.reserved_milli is None else replace(view, reserved=body.reserved_milli)


def dump_snapshot(view: Snapshot) -> str:
    """The file of a snapshot, one job or node to a line so that two of them can be compared."""
    return written(snapshot_document(view))


def snapshot_document(view: Snapshot) -> dict[str, Any]:
    """The same as plain values, as a journal keeps them."""
    return {"apiVersion": API_VERSION, "kind": "Snapshot", **snapshot_record(view)}


def snapshot_schema() -> dict[str, Any]:
    """JSON Schema of the file: what `sterna decide --schema` prints."""
    schema = SnapshotBody.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Sterna snapshot"}


def _twice(where: str, things: Iterable[NodeBody | JobBody | DeviceBody]) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, thing in enumerate(things):
        if thing.id in seen:
            yield Problem(f"{where}[{index}].id", thing.id, "each id once")
        seen.add(thing.id)


def _too_many_gpus(nodes: Iterable[Node]) -> Iterator[Problem]:
    gpus = sum(node.allocatable.whole_gpus for node in nodes)
    if gpus > GPUS_MAX:
        yield Problem("nodes", f"{gpus} GPUs", f"at most {GPUS_MAX} in all")


def _muddled_workers(where: str, job: JobBody) -> Iterator[Problem]:
    """Workers are told apart by role and ordinal, and a role stands once: anything else no engine could have seen."""
    roles = [fixed.role for fixed in job.spec.fixed]
    for index, role in enumerate(roles):
        if role in roles[:index]:
            yield Problem(f"{where}.spec.fixed[{index}].role", str(role), "each role once; replicas say how many")
    seen: set[tuple[Role, int]] = set()
    for index, worker in enumerate(job.state.workers):
        if (worker.role, worker.ordinal) in seen:
            path = f"{where}.state.workers[{index}].ordinal"
            yield Problem(path, worker.ordinal, f"each ordinal once among those of role {worker.role}")
        seen.add((worker.role, worker.ordinal))


def _as_in_file(where: str, error: InvalidRequest) -> Problem:
    """`job a: request.gpu_milli` is what the model calls it; in a file it has another place and unit."""
    name = error.field.partition(": ")[2] or error.field
    if name == "request.gpu_milli" and isinstance(error.value, int):
        expected = "a share of one GPU below 1, or whole GPUs"
        return Problem(f"{where}.workers.request.gpu", error.value / WHOLE_GPU_MILLI, expected)
    return Problem(f"{where}.{name}", error.value, error.expected)
