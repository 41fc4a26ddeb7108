"""What the operator is granted, it uses: a life in which everything happens, read from the API server's audit log."""

import base64
import json
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from sterna.engines.kubernetes.progress.monitor_tokens import AUDIENCE
from tests.cluster.requests import Body, until
from tests.cluster.volumes import Volumes
from tests.deploy.rbac import EVERYTHING, REASONED, Right, granted_verbs, refused_verbs, roles_of, used_verbs
from tests.deploy.rendering import objects, render
from tests.kubernetes.jobs import elasticjob, job_of, mpijob, pytorchjob, tfjob
from tests.kubernetes.lab import Lab
from tests.kubernetes.rights import USER
from tests.kubernetes.sharepods import SharePods, install
from tests.kubernetes.visiting import SECRET, Visitor


def short_lived(text: str) -> str:
    """To be deleted as soon as it has ended, and everything of it before."""
    body: Body = yaml.safe_load(text)
    policy = {"ttlSecondsAfterFinished": 0, "cleanPodPolicy": "All"}
    body["spec"] = {key: value for key, value in body["spec"].items() if key != "cleanPodPolicy"}
    body["spec"]["runPolicy"] = policy
    return yaml.safe_dump(body)


def _forged(lab: Lab) -> str:
    """Such as a monitor's token, but for its signature."""
    claims = {"sub": f"system:serviceaccount:{lab.namespace}:sterna-monitor", "aud": [AUDIENCE]}
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.c2lnbmVk"


def _phases(lab: Lab) -> set[str]:
    found = lab.api.items(f"/apis/sterna.dev/v1alpha1/namespaces/{lab.namespace}/migrations")
    return {str(move.get("status", {}).get("phase", "")) for move in found}


def _mount_a_claim_of_each_sort(lab: Lab) -> None:
    """Of one that is bound the volume is read, of another one the storage class."""
    with Volumes(lab.api, lab.namespace) as volumes:
        volumes.bound("bound")
        volumes.claim("unbound", storageClassName=volumes.storage_class(waits_for_pod=False))
        volumes.until_bound("bound")
        for claim in ("bound", "unbound"):
            lab.submit(job_of(f"six-{claim}", claim=claim))
        lab.until_pods("six-bound", "six-bound-worker-0")
        lab.until(lambda: "VolumesNotReady" in _told(lab, "six-unbound"), "the other one waits for its claim")
        for claim in ("bound", "unbound"):
            lab.delete("ElasticJob", f"six-{claim}")
        lab.until(lambda: not lab.all_pods("six-bound"), "it has gone")


def _told(lab: Lab, job: str) -> str:
    return " ".join(str(event["message"]) for event in lab.events(job))


def test_s4_no_right_is_granted_that_is_never_used(lab: Lab, tmp_path: Path):
    install(lab.plane)
    lab.nodes.add(2, gpus=2)
    token = tmp_path / "token"
    token.write_text(SECRET)
    everything: dict[str, Any] = {"binding": "binding", "nudge": True, "kubeshare": True, "policy": "tiresias"}
    everything |= {"elect": True, "lease_s": 3.0, "renew_s": 0.3, "door_port": 0, "token_file": token}
    everything |= {"monitor_account": f"{lab.namespace}/sterna-monitor"}
    visitor = Visitor(lab, lab.start(**everything))
    assert visitor.asks("POST", "/reports", b"{}", token=_forged(lab)).status == 401, (
        "the API server is asked whose it is"
    )
    for kind, text, leader in (
        ("TFJob", tfjob("one"), "one-worker-0"),
        ("PyTorchJob", pytorchjob("two"), "two-worker-0"),
        ("MPIJob", mpijob("three", workers=(1, 2, 2)), "three-launcher-0"),
        ("ElasticJob", elasticjob("four"), "four-worker-0"),
    ):
        name = leader.split("-")[0]
        lab.submit(short_lived(text))
        lab.until_true(kind, name, "Running")
        if kind == "MPIJob":
            lab.until_pods(name, "three-launcher-0", "three-worker-0", "three-worker-1")
            lab.nodes.ready("three-worker-1", False)  # the host list is written anew
            lab.until_rest()
        lab.nodes.exit(leader, 0)
        lab.until(partial(lab.gone, kind, name), f"{name} has gone")
    _mount_a_claim_of_each_sort(lab)
    lab.submit(tfjob("five", workers=(2, 2, 2), cpu="1"))
    lab.until_pods("five", "five-ps-0", "five-worker-0", "five-worker-1")
    first = lab.pods("five")[-1]["metadata"]
    lab.api.delete(f"/api/v1/namespaces/{lab.namespace}/pods/{first['name']}", {"gracePeriodSeconds": 0})
    lab.until(lambda: lab.pods("five")[-1]["metadata"]["uid"] != first["uid"], "it is made anew, which is told again")
    lab.until_pods("five", "five-ps-0", "five-worker-0", "five-worker-1")
    service = f"/api/v1/namespaces/{lab.namespace}/services/five-ps-0"
    lab.api.patch(service, {"metadata": {"ownerReferences": None}})
    lab.until(lambda: lab.api.get(service)["metadata"].get("ownerReferences"), "it has its owner again")
    move = {"apiVersion": "sterna.dev/v1alpha1", "kind": "Migration", "metadata": {"name": "away"}}
    lab.submit(yaml.safe_dump({**move, "spec": {"job": "no-such-job"}}))
    lab.until(lambda: lab.job("Migration", "away").get("status", {}).get("phase") == "Refused", "it is refused")
    visitor.until_asked(lab.pods("five")[-1])
    lab.until(lambda: _phases(lab) == {"Refused", "Succeeded"}, "what was asked for at the door is done")
    lab.until_pods("five", "five-ps-0", "five-worker-0", "five-worker-1")
    lab.nodes.exit("five-worker-0", 0)
    lab.until_true("TFJob", "five", "Succeeded")
    SharePods(lab).create("urgent", high=True)
    SharePods(lab).until_placed("urgent")
    granted = granted_verbs(roles_of(objects(render(EVERYTHING))))
    for running in lab.operators:
        running.kill()  # a watch is in the log once it has ended

    def asked() -> list[Body]:
        events = lab.plane.audited()
        return [event for event in events if event.get("objectRef", {}).get("namespace") in (None, lab.namespace)]

    def unused() -> set[Right]:
        return granted - used_verbs(asked(), USER) - REASONED.keys()

    until(lambda: not unused(), "every right is used", story=lambda: [str(right) for right in unused()], every_s=2)
    assert not refused_verbs(asked(), USER)
