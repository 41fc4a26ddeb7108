"""What a kubelet would write into the status of a pod. Values in, values out."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

Body = dict[str, Any]


class Ending(NamedTuple):
    """How a container ends."""

    code: int = 143  # SIGTERM, unanswered by the program
    message: str = ""  # the termination message
    reason: str = ""  # empty: Completed or Error, by the code


class Rejection(NamedTuple):
    """Why a kubelet does not run a pod, or no longer does."""

    reason: str  # OutOfcpu, NodeAffinity, UnexpectedAdmissionError, Evicted
    message: str = ""


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(containers: Sequence[str], *, address: str, ready: bool) -> Body:
    """Of a pod whose containers have all started."""
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": "10.0.0.1",
        "startTime": now(),
        "conditions": conditions(ready),
        "containerStatuses": [
            _container(name, state={"running": {"startedAt": now()}}, ready=ready) for name in containers
        ],
    }


def ended(status: Body, ending: Ending, *, policy: str, container: str | None = None) -> Body:
    """After `container`, or every one, ended for good; the phase is what the pod's restart policy makes of that."""
    containers = [
        {**each, "ready": False, "started": False, "state": {"terminated": _terminated(each, ending)}}
        if container in (None, each["name"]) and "terminated" not in each["state"]
        else each
        for each in status.get("containerStatuses", [])
    ]
    return {"phase": _phase(containers, policy), "conditions": conditions(False), "containerStatuses": containers}


def rejected(rejection: Rejection) -> Body:
    """Of a pod that was not let in: none of its containers ever was."""
    return {"phase": "Failed", "reason": rejection.reason, "message": rejection.message, "startTime": now()}


def thrown_out(status: Body, rejection: Rejection) -> Body:
    """Of a pod that ran, and was evicted by its kubelet."""
    over = ended(status, Ending(137), policy="Never")
    return {**over, "phase": "Failed", "reason": rejection.reason, "message": rejection.message}


def restarted(status: Body, ending: Ending, *, container: str | None = None) -> Body:
    """After `container`, or every one, ended and was started again in place."""
    containers = [
        {
            **each,
            "restartCount": each["restartCount"] + 1,
            "lastState": {"terminated": _terminated(each, ending)},
            "state": {"running": {"startedAt": now()}},
        }
        if container in (None, each["name"])
        else each
        for each in status["containerStatuses"]
    ]
    return {"phase": "Running", "containerStatuses": containers}


def with_readiness(status: Body, ready: bool) -> Body:
    containers = [{**each, "ready": ready} for each in status.get("containerStatuses", [])]
    return {"conditions": conditions(ready), "containerStatuses": containers}


def restarts(policy: str, code: int) -> bool:
    """Does a kubelet start the container again?"""
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def conditions(ready: bool) -> list[Body]:
    held = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    return [{"type": kind, "status": str(value), "lastTransitionTime": now()} for kind, value in held.items()]


def _container(name: str, *, state: Body, ready: bool) -> Body:
    return {
        "name": name,
        "ready": ready,
        "started": True,
        "restartCount": 0,
        "image": "localhost/fake:1",
        "imageID": "sha256:0",
        "containerID": "containerd://0",
        "state": state,
    }


def _terminated(container: Mapping[str, Any], ending: Ending) -> Body:
    began = container["state"].get("running", {}).get("startedAt", now())
    reason = ending.reason or ("Error" if ending.code else "Completed")
    said = {"message": ending.message} if ending.message else {}
    return {"exitCode": ending.code, "reason": reason, "startedAt": began, "finishedAt": now(), **said}


def _phase(containers: Sequence[Mapping[str, Any]], policy: str) -> str:
    codes = [each["state"]["terminated"]["exitCode"] for each in containers if "terminated" in each["state"]]
    if len(codes) < len(containers) or any(restarts(policy, code) for code in codes):
        return "Running"
    return "Failed" if any(codes) else "Succeeded"
