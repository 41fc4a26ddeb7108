"""Manifests of small jobs, in the shapes that users of each kind write."""

from typing import Any

import yaml


def tfjob(
    name: str,
    *,
    workers: tuple[int, int, int] = (1, 1, 1),  # min-instances, replicas, max-instances
    ps: int = 1,
    gpus: int = 1,
    cpu: str = "",
    policy: str = "OnFailure",
    clean: str = "All",
    more: str = "",
    image: str = "localhost/none:1",
    grace_s: int = 0,
) -> str:
    """In DRAGON's flat shape, with limits only."""
    limits = ", ".join([*([f"cpu: {cpu}"] if cpu else []), *([f"nvidia.com/gpu: {gpus}"] if gpus else [])])
    served = f"""
    PS:
      replicas: {ps}
      restartPolicy: {policy}
      template: {{spec: {{terminationGracePeriodSeconds: {grace_s}, containers: [{{name: tensorflow, image: {image},
        resources: {{limits: {{{f"cpu: {cpu}" if cpu else ""}}}}}}}]}}}}"""
    return f"""
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {{name: {name}}}
spec:
  min-instances: {workers[0]}
  max-instances: {workers[2]}
  cleanPodPolicy: {clean}
  {more}
  tfReplicaSpecs:{served if ps else ""}
    Worker:
      replicas: {workers[1]}
      restartPolicy: {policy}
      template: {{spec: {{terminationGracePeriodSeconds: {grace_s}, containers: [{{name: tensorflow, image: {image},
        resources: {{limits: {{{limits}}}}}}}]}}}}
"""


def elasticjob(
    name: str, *, workers: tuple[int, int] = (1, 1), gpus: int = 1, policy: str = "OnFailure", grace_s: int = 0
) -> str:
    """A gang that nobody survives a change of."""
    return f"""
apiVersion: sterna.dev/v1alpha1
kind: ElasticJob
metadata: {{name: {name}}}
spec:
  workers: {{min: {workers[0]}, max: {workers[1]}}}
  restartPolicy: {policy}
  terminationGracePeriodSeconds: {grace_s}
  image: localhost/none:1
  command: [train]
  resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}
"""


def mpijob(name: str, *, workers: tuple[int, int, int] = (1, 1, 1), gpus: int = 1, grace_s: int = 0) -> str:
    """With Voda's numbers in the launcher's environment."""
    low, asked, high = workers
    return f"""
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {{name: {name}}}
spec:
  slotsPerWorker: 1
  cleanPodPolicy: Running
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      restartPolicy: OnFailure
      template: {{spec: {{terminationGracePeriodSeconds: {grace_s}, containers: [{{name: mpi, image: localhost/none:1,
        command: [horovodrun], env: [{{name: NUM_PROC, value: "{asked}"}}, {{name: MIN_NUM_PROC, value: "{low}"}},
          {{name: MAX_NUM_PROC, value: "{high}"}}, {{name: EPOCHS, value: "3"}}]}}]}}}}
    Worker:
      replicas: {asked}
      template: {{spec: {{terminationGracePeriodSeconds: {grace_s}, containers: [{{name: mpi, image: localhost/none:1,
        resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]}}}}
"""


def pytorchjob(name: str, *, workers: tuple[int, int] | None = None, replicas: int = 1, gpus: int = 1) -> str:
    """Elastic by torchrun where `workers` says so, else a gang of a fixed size."""
    elastic = (
        f"elasticPolicy: {{minReplicas: {workers[0]}, maxReplicas: {workers[1]}, rdzvBackend: c10d}}" if workers else ""
    )
    return f"""
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: {name}}}
spec:
  {elastic}
  pytorchReplicaSpecs:
    Worker:
      replicas: {replicas}
      restartPolicy: OnFailure
      template: {{spec: {{terminationGracePeriodSeconds: 0, containers: [{{name: pytorch, image: localhost/none:1,
        command: [torchrun, train.py], resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]}}}}
"""


def job_of(name: str, *, workers: tuple[int, int] = (1, 1), claim: str = "", **pod: Any) -> str:
    """An ElasticJob with a whole template, whose pod has these fields."""
    body: dict[str, Any] = yaml.safe_load(elasticjob(name, workers=workers))
    spec = body["spec"]
    container = {"name": "main", **{key: spec.pop(key) for key in ("image", "command", "resources")}}
    inside: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 0, **pod}
    if claim:
        inside["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    for key in ("terminationGracePeriodSeconds", "restartPolicy"):
        spec.pop(key)
    return yaml.safe_dump({**body, "spec": {**spec, "template": {"spec": inside}}})
