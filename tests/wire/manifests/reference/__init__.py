"""The manifests of the five systems that came before, and what is to become of each.

Their documents show some of them; of others they name the file and describe it. They are written down anew here, as far
as they matter. `shown` says which it is.
"""

from pathlib import Path
from typing import NamedTuple


class Example(NamedTuple):
    name: str  # of the file beside this one
    document: str
    shown: str  # where the document has it, or what it says of it
    expected: str  # in a sentence
    kind: str = ""  # of ours. Empty: Kubernetes' own, which Sterna does not read as a job
    sizes: tuple[int, int, int] = (0, 0, 0)  # least, first and largest number of workers

    @property
    def path(self) -> Path:
        return Path(__file__).parent / f"{self.name}.yaml"


EXAMPLES = (
    Example(
        "e-dragon-cpu",
        "E-DRAGON",
        "TFJobs: shown",
        "one server and four workers of 4 CPUs and 8 GiB each, between one and four workers",
        "TFJob",
        (1, 4, 4),
    ),
    Example(
        "e-dragon-gpu",
        "E-DRAGON",
        "Using native GPUs: shown",
        "the same with one GPU for every worker and none for the server",
        "TFJob",
        (1, 4, 4),
    ),
    Example(
        "e-dragon-kubeshare",
        "E-DRAGON",
        "Using portion GPUs: shown",
        "the same with 0.5 of a GPU and its memory for every worker",
        "TFJob",
        (1, 4, 4),
    ),
    Example(
        "e-dragon-serving-deployment",
        "E-DRAGON",
        "Note: shown in part",
        "Kubernetes runs it; its pods go before training",
    ),
    Example(
        "e-dragon-serving-pod",
        "E-DRAGON",
        "Note: shown in part, as apps/v1",
        "Kubernetes runs it as v1; it goes before training",
    ),
    Example(
        "container-migration-job",
        "container-migration",
        "Preemptible Job: described",
        "the chief beside the server is worker 0 of TF_CONFIG; node-1 is tried first",
        "TFJob",
        (2, 2, 2),
    ),
    Example("specon-volume", "SpeCon", "Specon-configuration: shown", "Kubernetes keeps it; jobs may mount it"),
    Example("specon-claim", "SpeCon", "Specon-configuration: shown", "Kubernetes keeps it; jobs may mount it"),
    Example("specon-role", "SpeCon", "Specon-configuration: shown in part", "not needed: Sterna has a role of its own"),
    Example("specon-system", "SpeCon", "Specon-system: shown in part", "not needed: Sterna watches jobs by itself"),
    Example(
        "voda-mnist",
        "Voda",
        "Submitting a training job: named, its conventions described",
        "elastic between one and four workers in one pool, ten epochs",
        "MPIJob",
        (1, 1, 4),
    ),
    Example(
        "pytorchjob-migration-mnist",
        "pytorchjob-migration",
        "Example: named, its pods shown",
        "one master and three workers on the node that the affinity names",
        "PyTorchJob",
        (3, 3, 3),
    ),
)
JOBS = tuple(example for example in EXAMPLES if example.kind)
