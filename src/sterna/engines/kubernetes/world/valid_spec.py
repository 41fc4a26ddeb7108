"""The last spec of a job that made sense, and what of an edit that does not is followed all the same. Pure.

A field of an invalid edit is followed if it stands alone and says one thing, whatever the others say: `suspend`. An
owner who wants a job to let go of its room must get that although another field is wrong.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from sterna.model.workload import Workload


class ValidSpec(NamedTuple):
    workload: Workload
    spec: msgspec.Raw  # what the workload was read from: pods are made from its templates
    text: str  # as it is kept (`status/kept_spec.py`). Empty: it is too large

    @property
    def main_container(self) -> str:
        return str(msgspec.json.decode(self.spec).get("mainContainer") or "")


def followed(valid: ValidSpec, edit: Mapping[str, Any]) -> Workload:
    """The workload while the spec is `edit`, which is not valid."""
    policy = edit.get("runPolicy")
    suspend = policy.get("suspend") if isinstance(policy, Mapping) else None
    workload = valid.workload
    if not isinstance(suspend, bool) or suspend is workload.run_policy.suspend:
        return workload
    return replace(workload, run_policy=replace(workload.run_policy, suspend=suspend))
