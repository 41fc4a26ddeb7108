"""What all pods of one role of a job have in common by its kind: labels that rules select them by, and a usual port."""

from collections.abc import Mapping

_PORTS: Mapping[str, tuple[str, int]] = {
    "TFJob": ("tfjob-port", 2222),
    "PyTorchJob": ("pytorchjob-port", 23456),
    "MPIJob": ("mpijob-port", 9999),
    "ElasticJob": ("elasticjob-port", 29500),
}


def usual_port(kind: str) -> tuple[str, int]:
    """Its name and number."""
    return _PORTS[kind]


def label_domain(kind: str) -> str:
    return "sterna.dev" if kind == "ElasticJob" else "training.kubeflow.org"


def role_labels(kind: str, name: str, word: str) -> dict[str, str]:
    """Labels of every pod of this role, whatever its number."""
    if kind == "TFJob":
        return {"group-name": "kubeflow.org", "tf-job-name": name, "tf-replica-type": word}
    domain = label_domain(kind)
    return {f"{domain}/job-name": name, f"{domain}/replica-type": word}
