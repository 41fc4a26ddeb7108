"""The ConfigMap of an MPIJob: the workers that are ready, as a host file and as the script that Horovod asks. Pure."""

import hashlib
import json

from sterna.engines.contracts.members import Member
from sterna.engines.contracts.mpi import DISCOVER_HOSTS, FILES_DIR, HOSTFILE, mpi_files
from sterna.engines.contracts.naming import port_of
from sterna.engines.kubernetes.apiserver.objects import Body
from sterna.engines.kubernetes.bodies.own_names import config_name, service_names
from sterna.engines.kubernetes.bodies.service_body import host_of, owner_reference
from sterna.engines.kubernetes.reconcile.job_view import JobView, Options
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.model.workload import Workload

NUDGE = "sterna.dev/nudge"  # annotation of a launcher; another value makes its kubelet look at its volumes
VOLUME = "sterna-mpi-config"


def has_config(workload: Workload) -> bool:
    return workload.kind == "MPIJob"


def config_data(look: Look, options: Options) -> dict[str, str]:
    """Of the workers that are ready in their seats now, in the order of their ordinals."""
    workload = look.workload
    ready = sorted(place for place, seen in look.current.items() if seen.ready)
    port = port_of(workload)
    name_of = service_names(look.view, workload)
    domain = options.cluster_domain
    members = [
        Member(*place, host_of(name_of(place), workload.namespace, cluster_domain=domain), port) for place in ready
    ]
    return mpi_files(workload, members)


def config_body(view: JobView, workload: Workload, data: dict[str, str]) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": config_name(view),
            "namespace": view.namespace,
            "labels": config_labels(workload),
            "ownerReferences": [owner_reference(view)],
        },
        "data": data,
    }


def config_labels(workload: Workload) -> dict[str, str]:
    return {"app": workload.name, "app.kubernetes.io/managed-by": "sterna"}  # by which ours are watched


def config_volume(view: JobView) -> Body:
    items = [
        {"key": HOSTFILE, "path": HOSTFILE, "mode": 0o444},
        {"key": DISCOVER_HOSTS, "path": DISCOVER_HOSTS, "mode": 0o555},
    ]
    return {"name": VOLUME, "configMap": {"name": config_name(view), "items": items}}


def config_mount() -> Body:
    return {"name": VOLUME, "mountPath": FILES_DIR}


def digest_of(data: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
