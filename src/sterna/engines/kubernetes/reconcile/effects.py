"""What a look at a job found to be done about it, as values. Carrying them out, in order, is the operator's.

Each is harmless when repeated: names are deterministic, deletions name the uid they mean, and a create that finds its
object already there (with this job as its owner) is done.
"""

from typing import NamedTuple

from sterna.engines.kubernetes.apiserver.objects import Body


class CreatePod(NamedTuple):
    name: str
    body: Body
    usual: str = ""  # the name that it would have, were that not taken. Empty: it has it


class DeletePod(NamedTuple):
    name: str
    uid: str
    grace_s: int | None  # None: its own. 0: the node that should let it go does not answer
    why: str = ""  # for people


class CreateService(NamedTuple):
    name: str
    body: Body
    usual: str = ""  # as in CreatePod


class DeleteService(NamedTuple):
    name: str
    uid: str


class WriteConfigMap(NamedTuple):
    name: str
    body: Body
    exists: bool  # as far as this look could see: then it is replaced, else created
    usual: str = ""  # as in CreatePod


class NudgePod(NamedTuple):
    """Annotate a pod so that its kubelet looks at its volumes at once."""

    name: str
    uid: str
    annotations: dict[str, str]


class AdoptPod(NamedTuple):
    """Its owner reference was removed. `version` is the one it was seen without it in."""

    name: str
    uid: str
    version: str
    owner: Body


class AdoptService(NamedTuple):
    """The same."""

    name: str
    uid: str
    version: str
    owner: Body


class BindPod(NamedTuple):
    name: str
    uid: str
    node: str


class AskAdmission(NamedTuple):
    """Would this pod be let in? Nothing is made."""

    name: str
    body: Body


class DeleteJob(NamedTuple):
    """Its time to live after the end is over."""

    name: str
    uid: str


CREATIONS = (CreatePod, CreateService, WriteConfigMap)  # what admission has a say about
Effect = (
    CreatePod
    | DeletePod
    | AdoptPod
    | CreateService
    | DeleteService
    | AdoptService
    | WriteConfigMap
    | NudgePod
    | BindPod
    | AskAdmission
    | DeleteJob
)
