"""The headless service of one replica, by whose name the others reach it. Pure."""

from sterna.engines.contracts.naming import labels_of, port_name, port_of
from sterna.engines.kubernetes.apiserver.objects import Body
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.lifecycle.gang_roles import Place
from sterna.model.jobs import Role
from sterna.model.workload import Workload

CHIEF_PORT = "chief-port"


def service_body(view: JobView, workload: Workload, place: Place, *, name: str) -> Body:
    """It outlives the pod it leads to: the next pod in that place is found under the same name."""
    labels = labels_of(workload, *place)
    port = port_of(workload)
    ports = [{"name": port_name(workload), "port": port}]
    if place[0] is Role.PS and dict(workload.details).get("chiefInPs") == "true":
        ports.append({"name": CHIEF_PORT, "port": port + 1})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": view.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(view)],
        },
        "spec": {
            "clusterIP": "None",
            # Peers look for each other while they start, before any of them is ready.
            "publishNotReadyAddresses": True,
            "selector": labels,
            "ports": ports,
        },
    }


def owner_reference(view: JobView) -> Body:
    """What makes the cluster take an object away together with its job."""
    return {
        "apiVersion": view.api_version,
        "kind": view.kind,
        "name": view.name,
        "uid": view.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def host_of(service: str, namespace: str, *, cluster_domain: str) -> str:
    """`job1-worker-0.default.svc`, and the domain behind it where the operator was given one."""
    host = f"{service}.{namespace}.svc"
    return f"{host}.{cluster_domain}" if cluster_domain else host
