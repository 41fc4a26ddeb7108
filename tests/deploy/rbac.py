"""Rights: what the shipped roles grant, what an operator asked for according to the audit log, and how the two compare.

granted = granted_verbs(roles_of(objects(render())))
used = used_verbs(control_plane.audited(), user)
assert granted - used <= REASONED.keys()

`python -m tests.deploy.rbac` prints the table of docs/install.md, which is made from the comments in the chart.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from tests.deploy.rendering import Body, objects, of_kind, render

JOB_KINDS = (("kubeflow.org", "tfjobs"), ("kubeflow.org", "pytorchjobs"), ("kubeflow.org", "mpijobs"))
OWN_KINDS = (("sterna.dev", "elasticjobs"),)
# Values that grant something more than the default does.
EVERYTHING: dict[str, object] = {"binding": "binding", "nudge": True, "kubeshare": True, "monitor.enabled": True}
BINDINGS = ("ClusterRoleBinding", "RoleBinding")


class Right(NamedTuple):
    group: str  # empty: the core group
    resource: str
    subresource: str  # empty: the object itself
    verb: str

    def __str__(self) -> str:
        name = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {name}" + (f".{self.group}" if self.group else "")


_OWNERS = (
    "asked of whoever creates a pod that holds up the deletion of its owner, by an admission plugin that OpenShift has "
    "and a plain API server has not; it is never a request of its own, so no audit log shows it"
)

_NEWER = "asked only when a status is written over a job that somebody else wrote meanwhile, and the watch is late"
_THERE = "asked only when a create finds its object there: after a crash, or a lost answer, between write and watch"

# Rights that are granted and may stay unused in the suite, and why they are granted all the same.
REASONED: dict[Right, str] = {
    **{Right(group, resource, "finalizers", "update"): _OWNERS for group, resource in (*JOB_KINDS, *OWN_KINDS)},
    **{Right(group, resource, "", "get"): _NEWER for group, resource in (*JOB_KINDS, *OWN_KINDS)},
    Right(
        "kubeshare.nthu", "sharepods", "", "get"
    ): "asked only when somebody else writes a SharePod that is being placed",
    **{Right("", resource, "", "get"): _THERE for resource in ("pods", "services", "configmaps")},
    Right(
        "sterna.dev", "migrations", "", "delete"
    ): "asked only when a wish that came in by the door was refused, and comes again",
    Right("", "events", "", "get"): "asked only when an event that was written before a restart is said again",
}


def granted_verbs(roles: Iterable[Body]) -> set[Right]:
    """What ClusterRoles and Roles grant, whatever namespace and names they are limited to."""
    return {
        Right(group, *_split(resource), verb)
        for role in roles
        for rule in role.get("rules") or ()
        for group in rule.get("apiGroups", [])
        for resource in rule.get("resources", [])
        for verb in rule["verbs"]
    }


def used_verbs(audit_log_lines: Iterable[str | Mapping[str, Any]], user: str) -> set[Right]:
    """What `user` asked for and was allowed: lines of an audit log, or the events that are in them."""
    return {_right(event) for event in _of(audit_log_lines, user) if _decision(event) == "allow"}


def refused_verbs(audit_log_lines: Iterable[str | Mapping[str, Any]], user: str) -> set[Right]:
    """What `user` asked for and had no right to: what the roles lack, or the code should not try."""
    return {_right(event) for event in _of(audit_log_lines, user) if _decision(event) == "forbid"}


def roles_of(bodies: list[Body], account: str = "sterna") -> list[Body]:
    """Of a rendered chart the roles that are bound to the operator's account; those for people are not among them."""
    bound = {
        (binding["roleRef"]["kind"], binding["metadata"].get("namespace"), binding["roleRef"]["name"])
        for binding in of_kind(bodies, *BINDINGS)
        for subject in binding["subjects"]
        if (subject["kind"], subject["name"]) == ("ServiceAccount", account)
    }
    return [
        role
        for role in of_kind(bodies, "ClusterRole", "Role")
        if (role["kind"], role["metadata"].get("namespace"), role["metadata"]["name"]) in bound
    ]


def reasons(text: str) -> Iterator[tuple[str, Body]]:
    """Each rule of a manifest with the comment above it, in order; a rule without one has an empty reason."""
    why = ""
    rule: list[str] = []
    for line in [*text.splitlines(), "---"]:
        if rule and not re.match(r"^ {4}\S", line):
            yield why, yaml.safe_load("\n".join(rule))[0]
            why, rule = "", []
        if comment := re.match(r"^ +# (.*)$", line):
            why = comment[1]
        elif line.startswith("  - apiGroups:") or rule:
            rule.append(line)


def table(text: str) -> str:
    """The rights in a rendered chart that are bound to the operator, for people."""
    lines = ["| where | what | may | why |", "|---|---|---|---|"]
    documents = [document for document in text.split("\n---\n") if re.search(r"^kind: (Cluster)?Role", document, re.M)]
    bindings = [body for document in documents for body in of_kind(objects(document), *BINDINGS)]
    for document in documents:
        if not (roles := roles_of([*objects(document), *bindings])):
            continue
        where = f"namespace `{roles[0]['metadata']['namespace']}`" if roles[0]["kind"] == "Role" else "everywhere"
        for why, rule in reasons(document):
            what = ", ".join(f"`{name}`" for name in rule["resources"])
            what += f" named {', '.join(rule['resourceNames'])}" if "resourceNames" in rule else ""
            group = "".join(f" of {name}" for name in rule["apiGroups"] if name)
            lines.append(f"| {where} | {what}{group} | {', '.join(rule['verbs'])} | {why} |")
    return "\n".join(lines) + "\n"


def _of(lines: Iterable[str | Mapping[str, Any]], user: str) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        event = json.loads(line) if isinstance(line, str) else line
        if event["user"].get("username") == user and event.get("objectRef", {}).get("resource"):
            yield event


def _right(event: Mapping[str, Any]) -> Right:
    about = event["objectRef"]
    return Right(about.get("apiGroup", ""), about["resource"], about.get("subresource", ""), event["verb"])


def _decision(event: Mapping[str, Any]) -> str:
    return str(event.get("annotations", {}).get("authorization.k8s.io/decision", ""))


def _split(resource: str) -> tuple[str, str]:
    name, _, subresource = resource.partition("/")
    return name, subresource


if __name__ == "__main__":
    sys.stdout.write(table(render(EVERYTHING)))
