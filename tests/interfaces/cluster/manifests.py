"""One job of every kind and shape that people write, as small as it can be and still be taken."""

from typing import NamedTuple

TF_FLAT = """apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: NAME}
spec:
  max-instances: 4
  min-instances: 1
  cleanPodPolicy: All
  tfReplicaSpecs:
    PS: {replicas: 1, template: {spec: {containers: [{name: tensorflow, image: x}]}}}
    Worker: {replicas: 4, template: {spec: {containers: [{name: tensorflow, image: x}]}}}
"""
TF_NESTED = """apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: NAME}
spec:
  runPolicy: {cleanPodPolicy: All}
  tfReplicaSpecs:
    worker: {replicas: 2, template: {spec: {containers: [{name: tensorflow, image: x}]}}}
"""
TORCH_ELASTIC = """apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: NAME}
spec:
  elasticPolicy: {minReplicas: 1, maxReplicas: 3, rdzvBackend: c10d}
  pytorchReplicaSpecs:
    Worker: {replicas: 2, template: {spec: {containers: [{name: pytorch, image: x}]}}}
"""
TORCH_RIGID = """apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: NAME}
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: {spec: {containers: [{name: pytorch, image: x}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: pytorch, image: x}]}}}
"""
TORCH_ANNOTATED = TORCH_RIGID.replace(
    "{name: NAME}", '{name: NAME, annotations: {sterna.dev/min-workers: "1", sterna.dev/max-workers: "4"}}'
)
TORCH_ALONE = """apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: NAME}
spec:
  pytorchReplicaSpecs:
    Master: {template: {spec: {containers: [{name: pytorch, image: x}]}}}
"""
MPI_VODA = """apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {name: NAME}
spec:
  slotsPerWorker: 2
  cleanPodPolicy: Running
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
            - name: mpi
              image: x
              command: [horovodrun, -np, $(NUM_PROC)]
              env:
                - {name: EPOCHS, value: "3"}
                - {name: NUM_PROC, value: "4"}
                - {name: MIN_NUM_PROC, value: "2"}
                - {name: MAX_NUM_PROC, value: "8"}
    Worker: {replicas: 2, template: {spec: {containers: [{name: mpi, image: x}]}}}
"""
MPI_PLAIN = """apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: NAME}
spec:
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: {spec: {containers: [{name: mpi, image: x}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: mpi, image: x}]}}}
"""
ELASTIC = """apiVersion: sterna.dev/v1alpha1
kind: ElasticJob
metadata: {name: NAME}
spec:
  workers: {min: 1, max: 2}
  template:
    spec:
      containers:
        - name: trainer
          image: localhost/none:1
          command: [sleep, "600"]
          resources: {limits: {nvidia.com/gpu: 1}}
"""


class Shape(NamedTuple):
    kind: str
    manifest: str
    bounds: tuple[int, int]

    def named(self, name: str) -> str:
        return self.manifest.replace("NAME}", f"{name}}}").replace("name: NAME,", f"name: {name},")


SHAPES = {
    "TFJob, flat as DRAGON writes it": Shape("TFJob", TF_FLAT, (1, 4)),
    "TFJob, as Kubeflow writes it, worker in small letters": Shape("TFJob", TF_NESTED, (2, 2)),
    "PyTorchJob with elasticPolicy": Shape("PyTorchJob", TORCH_ELASTIC, (1, 3)),
    "PyTorchJob without it": Shape("PyTorchJob", TORCH_RIGID, (2, 2)),
    "PyTorchJob with our annotations": Shape("PyTorchJob", TORCH_ANNOTATED, (1, 4)),
    "MPIJob v1 with Voda's environment": Shape("MPIJob", MPI_VODA, (1, 4)),
    "MPIJob v2beta1": Shape("MPIJob", MPI_PLAIN, (2, 2)),
    "ElasticJob": Shape("ElasticJob", ELASTIC, (1, 2)),
}


def elastic(name: str) -> str:
    return SHAPES["ElasticJob"].named(name)
