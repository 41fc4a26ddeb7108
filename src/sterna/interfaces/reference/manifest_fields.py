"""What becomes of each field of a manifest, as tables: of pods from the reader's own lines, of the kinds from their
shapes and what `kubectl explain` says of them.
"""

from collections.abc import Iterable, Mapping

from sterna.interfaces.reference.blocks import table
from sterna.wire.crds.kinds import MPIJobSpec
from sterna.wire.crds.words import words_about
from sterna.wire.manifests.elasticjob import ElasticJobSpec, FixedRoleBody, Sizes
from sterna.wire.manifests.field_uses import FIELD_USES, FieldUse, Treatment
from sterna.wire.manifests.job_shapes import Replica, RunPolicyBody, SchedulingPolicy
from sterna.wire.manifests.pytorchjob import ElasticPolicy, PyTorchJobSpec
from sterna.wire.manifests.shapes import Shape
from sterna.wire.manifests.tfjob import TFJobSpec

POD_TABLES: Mapping[str, str] = {  # the table, and what it stands in
    "PodSpec": "",
    "Affinity": "affinity.",
    "NodeAffinity": "affinity.nodeAffinity.",
    "PodAffinity": "affinity.pod[Anti]Affinity.",
    "SpreadConstraint": "topologySpreadConstraints[].",
    "PodToleration": "tolerations[].",
    "Container": "containers[].",
    "ContainerResources": "containers[].resources.",
    "ContainerPort": "containers[].ports[].",
    "Volume": "volumes[].",
    "PodMetadata": "metadata.",
}
KIND_SHAPES: Mapping[str, type[Shape]] = {
    "TFJob `spec`": TFJobSpec,
    "PyTorchJob `spec`": PyTorchJobSpec,
    "... `elasticPolicy`": ElasticPolicy,
    "MPIJob `spec`": MPIJobSpec,
    "ElasticJob `spec`": ElasticJobSpec,
    "... `workers`": Sizes,
    "... `roles.*`": FixedRoleBody,
    "A role of the other kinds": Replica,
    "`runPolicy`": RunPolicyBody,
    "... `schedulingPolicy`": SchedulingPolicy,
}


def pod_fields_block() -> str:
    """Of every field that Kubernetes knows there: what becomes of it."""
    rows = [row for name, before in POD_TABLES.items() for row in _rows(FIELD_USES[name], before)]
    return table(("field of the pod template", "", "what that means"), rows)


def job_fields_block() -> str:
    """Of every field of the kinds themselves, other keys being mistakes."""
    rows = [
        (where if not number else "", f"`{key}`", words_about(shape, key) or "")
        for where, shape in KIND_SHAPES.items()
        for number, key in enumerate(shape.keys)
    ]
    return table(("of", "field", "what it does"), rows)


def _rows(uses: Mapping[str, FieldUse], before: str) -> Iterable[tuple[str, ...]]:
    """Those about which there is nothing to add stand together, last."""
    plain = [key for key, use in sorted(uses.items()) if use.treatment is Treatment.PASSED and not use.words]
    for key, use in sorted(uses.items()):
        if key not in plain:
            yield f"`{before}{key}`", use.treatment.value, use.words.removeprefix(f"{use.treatment.value}: ")
    if plain:
        yield ", ".join(f"`{before if not number else ''}{key}`" for number, key in enumerate(plain)), "passed on", ""
