"""A week of a cluster in an hour: jobs come and are cancelled while operator, kubelets, API server and workers die.

Nodes are real kubelets with containers, the operator is a process of its own. What must hold is read from the API
server and from what the trainers wrote.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.cluster.requests import ApiError, Body
from tests.e2e.kubernetes.stage import TRAINERS, Stage, seen
from tests.soak.week import Week

ARRIVAL_S = 2.0  # between two jobs, on average
TROUBLE_S = 4.0  # between two troubles, on average
OPEN_MAX = 12  # jobs that are not over
KILLS_A_JOB = 3  # each doubles the wait before the next try
KIND = "ElasticJob"
GPU = {"nvidia.com/gpu": 1}


class Errand(NamedTuple):
    name: str
    body: Body
    earns: str  # the condition that its program earns
    checkpoints: Path | None = None  # of those that train
    steps: int = 0


class ClusterWeek(Week):
    def __init__(self, stage: Stage, seed: int) -> None:
        super().__init__(seed, arrival_s=ARRIVAL_S, trouble_s=TROUBLE_S)
        self._stage = stage
        self._open: dict[str, Errand] = {}
        self._killed: dict[str, int] = {}
        self._down: set[str] = set()  # nodes without a kubelet

    def live(self, for_s: float) -> None:
        self._stage.start_operator()
        super().live(for_s)

    def mend(self) -> None:
        for node in sorted(self._down):
            self._mend(node)

    # -- jobs

    def come_or_go(self) -> None:
        over = [name for name in self._open if self._verdict(name)]
        waiting = len(self._open) - len(over)
        if self._open and (waiting >= OPEN_MAX or self.chance.random() < 0.1):
            name = self.chance.choice(sorted(self._open))
            del self._open[name]
            self._stage.delete(KIND, name)
        elif waiting < OPEN_MAX:
            self.jobs += 1
            errand = self._drawn(self.jobs)
            self._stage.put(errand.body)
            self._open[errand.name] = errand

    def _drawn(self, number: int) -> Errand:
        """Half of them are over at once, a quarter train, a quarter fail."""
        kind = self.chance.choices(("brief", "fails", "trains"), (50, 25, 25))[0]
        name = f"{kind}-{number}"
        if kind == "brief":
            return Errand(name, self._body(name, 1000, "sleep", f"{self.chance.uniform(0.0, 0.3):.2f}"), "Succeeded")
        if kind == "fails":
            return Errand(name, self._body(name, self.chance.choice((0, 1)), "sh", "-c", "exit 3"), "Failed")
        steps, checkpoints = self.chance.randrange(20, 100), self._stage.shared / name
        checkpoints.mkdir()
        trainer = (sys.executable, "-u", str(TRAINERS / "toy_trainer.py"), "--steps", str(steps), "--save-max-s", "4")
        body = self._body(name, 1000, *trainer, workers=(1, self.chance.choice((1, 2))))
        body["metadata"]["annotations"] = {"sterna.dev/checkpoint-dir": str(checkpoints)}
        return Errand(name, body, "Succeeded", checkpoints, steps)

    def _body(self, name: str, tries: int, *command: str, workers: tuple[int, int] = (1, 1)) -> Body:
        template = self._stage.template("main", *command, limits=GPU, terminationGracePeriodSeconds=5)
        return {
            "apiVersion": "sterna.dev/v1alpha1",
            "kind": KIND,
            "metadata": {"name": name},
            "spec": {
                "workers": {"min": workers[0], "max": workers[1]},
                "runPolicy": {"backoffLimit": tries},
                "template": template,
            },
        }

    # -- troubles

    def troubles(self) -> dict[Callable[[], None], int]:
        return {
            self._kill_operator: 4,
            self._kill_worker: 4,
            self._kill_kubelet: 2,
            self._kill_api_server: 1,
        }

    def _kill_operator(self) -> None:
        self._stage.kill_operator()
        self.wait(self.chance.choice((0.0, 2.0)))
        self._stage.start_operator()

    def _kill_kubelet(self) -> None:
        """At most one node is without one; the next time it comes back."""
        if self._down:
            self._mend(next(iter(self._down)))
            return
        node = self.chance.choice(self._stage.cluster.names)
        self._stage.cluster.stop_kubelet(node)
        self._down.add(node)

    def _mend(self, node: str) -> None:
        self._stage.cluster.start_kubelet(node)
        self._stage.cluster.until_ready(node)
        self._down.discard(node)

    def _kill_api_server(self) -> None:
        self._stage.plane.stop_apiserver()
        self.wait(self.chance.choice((0.0, 2.0)))
        self._stage.plane.start_apiserver()

    def _kill_worker(self) -> None:
        names = [name for name, errand in self._open.items() if errand.steps]
        trainers = [(pid, name) for name in names if self._killed.get(name, 0) < KILLS_A_JOB for pid in _trainers(name)]
        if trainers:
            pid, name = self.chance.choice(trainers)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self._killed[name] = self._killed.get(name, 0) + 1

    # -- what must hold

    def _verdict(self, name: str) -> str | None:
        found = self._stage.job(KIND, name).get("status", {}).get("conditions", [])
        held = [each["type"] for each in found if each["status"] == "True"]
        return next((each for each in ("Succeeded", "Failed") if each in held), None)

    def settle(self) -> None:
        """Every job is over as its program earned, the cancelled ones are gone, and no pod is left over."""
        stage = self._stage
        stage.until(lambda: all(self._verdict(name) for name in self._open), "every job is over")
        wrong = [f"{name} earned {e.earns}" for name, e in self._open.items() if self._verdict(name) != e.earns]
        assert not wrong, f"{wrong}\n{stage.story()}"
        for errand in self._open.values():
            if errand.checkpoints is not None:
                trace = next(errand.checkpoints.rglob("trace.txt")).read_text()
                assert set(seen(trace, "step")) == set(range(1, errand.steps + 1)), f"{errand.name} left out a step"
                assert errand.steps in seen(trace, "finished")
        known = set(self._open)
        stage.until(lambda: {_owner(pod) for pod in stage.all_pods()} <= known, "cancelled jobs have no pods")
        stage.until(
            lambda: not [pod for pod in stage.all_pods() if _is_alive(pod)], "nothing runs for a job that is over"
        )
        for name in sorted(known):
            stage.delete(KIND, name)
        stage.until(lambda: not stage.all_pods(), "pods go with their jobs")


def _owner(pod: Body) -> str:
    return next((str(owner["name"]) for owner in pod["metadata"].get("ownerReferences", [])), "")


def _is_alive(pod: Body) -> bool:
    return pod["status"].get("phase") in ("Pending", "Running")


def _trainers(job: str) -> list[int]:
    """Processes that train for this job, by the directory that they were told."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError, ApiError):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            if f"/{job}\0".encode() in environment and b"toy_trainer" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return found
