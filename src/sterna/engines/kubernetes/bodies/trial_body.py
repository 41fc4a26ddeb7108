"""A pod that is never made: what the API server is asked about a role before the job has a seat. Pure."""

from dataclasses import replace

from sterna.engines.kubernetes.apiserver.objects import Body
from sterna.engines.kubernetes.bodies.pod_body import members_of, pod_body
from sterna.engines.kubernetes.reconcile.job_view import JobView, Options
from sterna.engines.kubernetes.status.standing import Seat
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.workload import Workload

GENERATE_NAME = "sterna-trial-"  # the names that the job will use may be taken, which would be the answer


def trial_body(view: JobView, workload: Workload, role: Role, options: Options) -> Body:
    """The very pod that the first of this role would have, but for its name and node."""
    seat = Seat(Worker(role, 0, NodeId("")), "")
    standing = replace(view.standing, seats=(seat,))
    members = members_of(view, workload, standing, options)
    body = pod_body(view, workload, standing, seat, options, hosts={}, members=members, name="")
    del body["metadata"]["name"]
    body["metadata"]["generateName"] = GENERATE_NAME
    body["spec"].pop("nodeName", None)
    return body
