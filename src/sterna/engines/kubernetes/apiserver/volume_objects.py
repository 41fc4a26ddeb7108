"""Claims, volumes and storage classes as far as placing pods depends on them: partial shapes, for reading alone."""

from sterna.engines.kubernetes.apiserver.objects import KubeObject, Shape


class Expression(Shape, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Term(Shape, frozen=True):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(Shape, frozen=True):
    node_selector_terms: list[Term] | None = None


class VolumeNodeAffinity(Shape, frozen=True):
    required: NodeSelector | None = None


class VolumeSpec(Shape, frozen=True):
    node_affinity: VolumeNodeAffinity | None = None


class VolumeObject(KubeObject, frozen=True):
    """A PersistentVolume."""

    spec: VolumeSpec = VolumeSpec()


class ClaimSpec(Shape, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] | None = None


class ClaimStatus(Shape, frozen=True):
    phase: str = ""


class ClaimObject(KubeObject, frozen=True):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class StorageClassObject(KubeObject, frozen=True):
    volume_binding_mode: str | None = None
