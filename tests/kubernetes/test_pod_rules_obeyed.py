"""Rules between pods, obeyed by the operator before a real API server: anti-affinity, affinity, spread, host ports."""

import yaml

from tests.cluster.requests import Body
from tests.kubernetes.lab import Lab

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"
OWN = {"matchLabels": {"sterna.dev/job-name": "apart"}}
PORT = {"containerPort": 80, "hostPort": 8080}


def ruled(
    name: str,
    *,
    workers: tuple[int, int] = (2, 2),
    labels: Body | None = None,
    ports: list[Body] | None = None,
    **spec: object,
) -> str:
    """A job whose workers' pods have these fields."""
    container: Body = {"name": "main", "image": "localhost/none:1", "command": ["train"], "ports": ports or []}
    container["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    pod = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    template = {"metadata": {"labels": labels or {}}, "spec": pod}
    return yaml.safe_dump(
        {
            "apiVersion": "sterna.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": name},
            "spec": {"workers": {"min": workers[0], "max": workers[1]}, "template": template},
        }
    )


def term(key: str, **labels: str) -> Body:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def apart(*terms: Body) -> Body:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def zones(lab: Lab, **gpus_in: int) -> None:
    for zone, gpus in gpus_in.items():
        name = f"node-{len(lab.nodes.names)}"
        lab.nodes.add(gpus=gpus, labels={"zone": zone, HOSTNAME: name})


def where(lab: Lab, job: str, count: int) -> list[str]:
    pods = lab.until_pods(job, *(f"{job}-worker-{number}" for number in range(count)))
    return sorted(pod["spec"]["nodeName"] for pod in pods.values())


def guest(lab: Lab, name: str, node: str, labels: Body, **spec: object) -> None:
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], **spec},
    }
    lab.api.create(f"/api/v1/namespaces/{lab.namespace}/pods", body)


def test_each_rule_between_pods_is_obeyed_and_a_job_that_one_keeps_waiting_is_told_which(lab: Lab):
    zones(lab, x=8, y=8)
    guest(lab, "cache", "node-1", {"app": "cache"})
    guest(lab, "hermit", "node-0", {}, affinity=apart(term(HOSTNAME, app="shunned")))
    lab.start()
    lab.submit(ruled("apart", affinity=apart({"topologyKey": HOSTNAME, "labelSelector": OWN})))
    assert where(lab, "apart", 2) == ["node-0", "node-1"]
    lab.submit(ruled("near", affinity={"podAffinity": {REQUIRED: [term("zone", app="cache")]}}))
    assert where(lab, "near", 2) == ["node-1", "node-1"]
    lab.submit(ruled("shunned", labels={"app": "shunned"}))
    assert where(lab, "shunned", 2) == ["node-1", "node-1"]
    lab.submit(ruled("ported", ports=[PORT]))
    assert where(lab, "ported", 2) == ["node-0", "node-1"]
    spread = {**term("zone", app="even"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    lab.submit(ruled("even", labels={"app": "even"}, topologySpreadConstraints=[spread]))
    assert where(lab, "even", 2) == ["node-0", "node-1"]
    lab.submit(ruled("again", workers=(1, 1), ports=[PORT]))
    told = lab.until(lambda: _ruled_out(lab, "again"), "it is told why it waits")
    assert "host port 8080" in told
    lab.delete("ElasticJob", "ported")
    assert len(where(lab, "again", 1)) == 1


def _ruled_out(lab: Lab, job: str) -> str | None:
    """What it is told, once a rule between pods is what keeps it waiting."""
    scheduling = lab.job("ElasticJob", job).get("status", {}).get("scheduling", {})
    return str(scheduling) if scheduling.get("reason") == "RuledOut" else None
