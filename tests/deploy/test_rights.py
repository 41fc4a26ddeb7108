"""What the operator may do: what is listed here, each with a reason; a real API server refuses the rest."""

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sterna.engines.kubernetes.process.settings import CONFIG, ENDS, KNOWLEDGE, MEMORY
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import install_crds, make_namespace
from tests.cluster.requests import Api, ApiError, until
from tests.deploy.rbac import (
    EVERYTHING,
    REASONED,
    Right,
    granted_verbs,
    reasons,
    refused_verbs,
    roles_of,
    table,
    used_verbs,
)
from tests.deploy.rendering import MANIFEST, NAMESPACE, ROOT, Body, objects, of_kind, render

# By group and resource: all that any choice of values may grant to the operator.
ALLOWED = {
    "nodes": "list watch",
    "persistentvolumes": "get",
    "storage.k8s.io/storageclasses": "get",
    "persistentvolumeclaims": "get",
    "pods": "get list watch create delete patch",
    "services": "get list watch create delete patch",
    "configmaps": "get list watch create update patch",
    "events": "get create patch",
    "coordination.k8s.io/leases": "get create patch",
    "kubeflow.org/tfjobs": "get list watch delete",
    "kubeflow.org/pytorchjobs": "get list watch delete",
    "kubeflow.org/mpijobs": "get list watch delete",
    "sterna.dev/elasticjobs": "get list watch delete",
    "sterna.dev/migrations": "list watch",
    "kubeflow.org/tfjobs/status": "patch",
    "kubeflow.org/pytorchjobs/status": "patch",
    "kubeflow.org/mpijobs/status": "patch",
    "sterna.dev/elasticjobs/status": "patch",
    "sterna.dev/migrations/status": "patch",
    "kubeflow.org/tfjobs/finalizers": "update",
    "kubeflow.org/pytorchjobs/finalizers": "update",
    "kubeflow.org/mpijobs/finalizers": "update",
    "sterna.dev/elasticjobs/finalizers": "update",
}
CLUSTER = {name: ALLOWED[name] for name in ("nodes", "persistentvolumes", "storage.k8s.io/storageclasses")}
BINDING = {"pods/binding": "create"}
MONITOR = {"sterna.dev/migrations": "create delete", "authentication.k8s.io/tokenreviews": "create"}
KUBESHARE = {"kubeshare.nthu/sharepods": "get list watch patch"}
OWN = {"configmaps", "events", "leases"}  # in its own namespace, where it looks after other ones
NAMED = {"leases": "sterna", "configmaps": "sterna-memory"}  # the only ones of their kind that it may change there


def rights(*tables: dict[str, str]) -> set[Right]:
    return {right for allowed in tables for name, verbs in allowed.items() for right in _rights_of(name, verbs)}


def _rights_of(name: str, verbs: str) -> Iterator[Right]:
    group, _, resource = name.partition("/") if "." in name else ("", "", name)
    resource, _, subresource = resource.partition("/")
    yield from (Right(group, resource, subresource, verb) for verb in verbs.split())


MPI = {right for right in rights(ALLOWED) if right.resource == "mpijobs"} | {Right("", "configmaps", "", "update")}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({}, rights(ALLOWED), id="by default"),
        pytest.param({"binding": "none"}, rights(ALLOWED), id="the cluster's own scheduler binds"),
        pytest.param({"binding": "binding"}, rights(ALLOWED, BINDING), id="binding needs one right more"),
        pytest.param({"nudge": True}, rights(ALLOWED), id="nudging needs none"),
        pytest.param({"kubeshare": True}, rights(ALLOWED, KUBESHARE), id="SharePods are seen where that is asked for"),
        pytest.param({"monitor.enabled": True}, rights(ALLOWED, MONITOR), id="whoever has a door takes requests there"),
        pytest.param({"mpiJobs": False}, rights(ALLOWED) - MPI, id="without MPIJobs no config maps but its own"),
        pytest.param({"watchNamespaces": ["research", "teaching"]}, rights(ALLOWED), id="in two namespaces"),
        pytest.param({"rbac.create": False}, set(), id="somebody else grants them"),
    ],
)
def test_s4_the_operator_is_granted_what_is_listed_and_nothing_else(values, expected):
    granted = granted_verbs(roles_of(objects(render(values))))
    assert {str(right) for right in granted ^ expected} == set()


CHOICES: dict[str, object] = {
    **EVERYTHING,
    "mpiJobs": False,
    "seeAllPods": True,
    "monitor.namespace": "watchers",
    "rbac.aggregate": False,
}
NEEDS: dict[str, dict[str, object]] = {"monitor.namespace": {"monitor.enabled": True}}  # without which it says nothing
MODES = [
    pytest.param({**mode, **choices}, id=f"{where}, {what}")
    for where, mode in {"whole cluster": {}, "two namespaces": {"watchNamespaces": ["research", "teaching"]}}.items()
    for what, choices in {
        "by default": {},
        "with everything": EVERYTHING,
        **{f"{name}={value}": {**NEEDS.get(name, {}), name: value} for name, value in CHOICES.items()},
    }.items()
]
ESCAPES = ("exec", "attach", "portforward", "proxy", "token", "ephemeralcontainers", "eviction")
UNTOUCHED = {"secrets", "serviceaccounts", "namespaces", "certificatesigningrequests"}
READ = {"nodes", "persistentvolumes", "storageclasses"}  # of the whole cluster, and no more than that
POWERS = {"impersonate", "bind", "escalate", "approve", "sign", "deletecollection"}


@pytest.mark.parametrize("values", MODES)
def test_s4_no_role_for_anybody_has_wildcards_secrets_or_exec_and_nodes_are_only_read(values):
    roles = of_kind(objects(render(values)), "ClusterRole", "Role")
    ours = roles_of(objects(render(values)))
    for right in granted_verbs(roles):
        assert "*" not in "".join(right)
        assert right.resource not in UNTOUCHED
        assert right.subresource not in ESCAPES
        assert "rbac" not in right.group
        assert right.resource not in READ or right.verb in ("get", "list", "watch")
    assert not {right.verb for right in granted_verbs(ours)} & POWERS
    assert all("nonResourceURLs" not in rule for role in roles for rule in role["rules"])
    assert [role for role in roles if str(role["metadata"].get("namespace", "")).startswith("kube-")] == []
    assert len([role for role in ours if role["kind"] == "ClusterRole"]) == 1


@pytest.mark.parametrize("mode", [{}, {"watchNamespaces": ["research"]}], ids=["whole cluster", "one namespace"])
def test_s4_without_mpijobs_no_config_map_outside_its_own_namespace_is_reached(mode):
    roles = roles_of(objects(render({**mode, **EVERYTHING, "mpiJobs": False})))
    elsewhere = [role for role in roles if role["metadata"].get("namespace") != NAMESPACE]
    assert "configmaps" not in {right.resource for right in granted_verbs(elsewhere)}
    assert "mpijobs" not in {right.resource for right in granted_verbs(roles)}


@pytest.mark.parametrize("values", [value for value in MODES if "namespaces" in str(value.id)])
def test_s4_in_the_namespaced_mode_the_whole_cluster_is_asked_for_nodes_volumes_and_reviews_alone(values):
    cluster, *others = roles_of(objects(render(values)))
    reviews = {"authentication.k8s.io/tokenreviews": "create"} if values.get("monitor.enabled") else {}
    seen = {"pods": "list watch"} if values.get("seeAllPods") else {}
    assert granted_verbs([cluster]) == rights(CLUSTER, reviews, seen)
    elsewhere = {str(values.get("monitor.namespace", ""))} if values.get("monitor.enabled") else set()
    namespaces = {"research", "teaching", "sterna-system"} | elsewhere - {""}
    assert {role["metadata"]["namespace"] for role in others} == namespaces


@pytest.mark.parametrize("values", MODES)
def test_s4_in_its_own_namespace_config_maps_are_read_and_changed_by_name(values):
    (own,) = [role for role in roles_of(objects(render(values))) if role["metadata"]["name"] == "sterna-own"]
    found = {
        (verb, name)
        for rule in own["rules"]
        if rule["resources"] == ["configmaps"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", ["any"])
    }
    read = {(verb, name) for verb in ("list", "watch") for name in (CONFIG, MEMORY, KNOWLEDGE, ENDS)}
    assert found == read | {(verb, name) for verb in ("get", "patch") for name in (MEMORY, KNOWLEDGE, ENDS)} | {
        ("create", "any")  # what is to be made has no name yet that a rule could go by
    }


def test_s4_with_namespaces_named_only_nodes_and_volumes_are_seen_of_the_rest():
    bodies = objects(render({"watchNamespaces": ["research", "teaching"]}))
    cluster, *others = roles_of(bodies)
    assert granted_verbs([cluster]) == rights(CLUSTER)
    assert [role["metadata"]["namespace"] for role in others] == ["research", "teaching", "sterna-system"]
    assert {right.resource for right in granted_verbs([others[-1]])} == OWN
    (deployment,) = of_kind(bodies, "Deployment")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [one for one in arguments if "watch" in one] == ["--watch-namespace=research", "--watch-namespace=teaching"]


def test_s4_every_rule_says_why():
    found = list(reasons(render({**EVERYTHING, "rbac.aggregate": False})))
    assert len(found) > 15
    assert [rule for why, rule in found if not why] == []


def test_a_reason_for_an_unused_right_is_about_a_right_that_is_granted():
    assert REASONED.keys() <= rights(ALLOWED, BINDING, KUBESHARE, MONITOR)


def test_the_table_in_the_documentation_is_the_charts():
    page = (ROOT / "docs" / "install.md").read_text()
    between = page.partition("<!-- begin rights -->\n")[2].partition("<!-- end rights -->")[0]
    assert between == table(render(EVERYTHING)), "make manifests brings it up to date"


def test_the_manifest_grants_what_the_chart_does():
    assert granted_verbs(roles_of(objects(MANIFEST.read_text()))) == rights(ALLOWED)


# -- as a real API server judges them


@contextmanager
def installed_roles(plane: ControlPlane, values: dict[str, object], namespace: str) -> Iterator[str]:
    """Accounts, roles and bindings of the chart, under a name of their own. The operator's user name."""
    name = f"sterna-{secrets.token_hex(3)}"
    wanted = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    bodies = of_kind(objects(render({**values, "fullnameOverride": name}, namespace=namespace)), *wanted)
    text = _as_list(bodies)
    plane.kubectl("apply", "-f", "-", stdin=text)
    try:
        yield f"system:serviceaccount:{namespace}:{name}"
    finally:
        plane.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", stdin=text)


def may(plane: ControlPlane, user: str, right: Right, *, namespace: str = "", name: str = "") -> bool:
    """What the API server's own authorizer answers. `name`: of the object; empty: one that the roles name, if any."""
    attributes = {
        "group": right.group,
        "resource": right.resource,
        "subresource": right.subresource,
        "verb": right.verb,
        "namespace": namespace,
    }
    if right.verb in ("get", "patch") and right.resource in NAMED:
        attributes["name"] = NAMED[right.resource]
    if name:
        attributes["name"] = name
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    answer = plane.api().create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


TF_JOB: Body = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "job"},
    "spec": {
        "tfReplicaSpecs": {
            "Worker": {
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "tensorflow", "image": "none"}]}},
            }
        }
    },
}
FORBIDDEN = rights(
    {
        "nodes": "update patch delete",
        "nodes/status": "patch",
        "pods": "update deletecollection",
        "pods/exec": "create get",
        "pods/log": "get",
        "pods/binding": "create",
        "secrets": "get list watch create",
        "namespaces": "create delete",
        "kubeflow.org/tfjobs": "create update patch",
        "rbac.authorization.k8s.io/clusterroles": "create bind escalate",
    }
)


def test_s4_the_api_server_grants_the_operator_that_and_refuses_the_rest(control_plane, namespace):
    with installed_roles(control_plane, {}, namespace) as operator:
        everywhere, _ = roles = roles_of(objects(render()))
        until(lambda: may(control_plane, operator, Right("", "nodes", "", "list")), "the binding is in force")

        def refused(some: set[Right], where: str) -> list[str]:
            return [str(right) for right in some if not may(control_plane, operator, right, namespace=where)]

        assert refused(granted_verbs([everywhere]), "default") == []
        assert refused(granted_verbs(roles), namespace) == []
        assert len(refused(FORBIDDEN, namespace)) == len(FORBIDDEN)
        only_here = granted_verbs(roles) - granted_verbs([everywhere])
        assert len(refused(only_here, "default")) == len(only_here) == 4  # of the Lease three, and to patch its memory


def test_s4_the_right_to_finalizers_is_what_a_strict_cluster_asks_of_who_makes_pods(kube_binaries, tmp_path):
    """On OpenShift, and wherever this admission plugin is on, a pod that holds up its owner needs it."""
    strict = ["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]
    with ControlPlane(kube_binaries, tmp_path, apiserver_options=strict) as plane:
        install_crds(plane)
        make_namespace(plane, "jobs")
        job = plane.api().create("/apis/kubeflow.org/v1/namespaces/jobs/tfjobs", TF_JOB)
        owner = {
            **{key: job[key] for key in ("apiVersion", "kind")},
            **{key: job["metadata"][key] for key in ("name", "uid")},
            "controller": True,
            "blockOwnerDeletion": True,
        }
        container = {"name": "tensorflow", "image": "none"}
        pod = {"metadata": {"name": "job-worker-0", "ownerReferences": [owner]}, "spec": {"containers": [container]}}
        with installed_roles(plane, {}, "jobs") as operator:
            _, _, namespace, name = operator.split(":")
            api = Api(plane.access()._replace(token=plane.service_account_token(namespace, name)))
            role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"
            rules = plane.api().get(role)["rules"]
            without = [rule for rule in rules if not rule["resources"][0].endswith("/finalizers")]
            assert len(without) == len(rules) - 2
            plane.api().patch(role, {"rules": without})
            path = "/api/v1/namespaces/jobs/pods"
            until(lambda: "finalizers" in _refusal(lambda: api.create(path, pod)), "it is refused without")
            plane.api().patch(role, {"rules": rules})
            assert until(lambda: api.create(path, pod), "it is accepted with it")["metadata"]["uid"]


def _refusal(ask: Callable[[], object]) -> str:
    try:
        ask()
    except ApiError as error:
        return error.message
    return ""


def test_s4_with_namespaces_named_the_api_server_refuses_it_the_other_ones(control_plane, namespace):
    jobs = f"{namespace}-jobs"
    control_plane.api().create("/api/v1/namespaces", {"metadata": {"name": jobs}})
    with installed_roles(control_plane, {"watchNamespaces": [jobs]}, namespace) as operator:
        pods = Right("", "pods", "", "create")
        until(lambda: may(control_plane, operator, pods, namespace=jobs), "the binding is in force")
        assert may(control_plane, operator, Right("", "nodes", "", "list"))
        assert may(control_plane, operator, Right("kubeflow.org", "tfjobs", "status", "patch"), namespace=jobs)
        assert not may(control_plane, operator, pods, namespace=namespace)
        assert not may(control_plane, operator, Right("", "pods", "", "list"))
        for verb in ("get", "list", "watch", "update", "patch", "delete"):  # of what is not ours in its own namespace
            maps = Right("", "configmaps", "", verb)
            assert not may(control_plane, operator, maps, namespace=namespace, name="kube-root-ca.crt"), verb
            assert verb in ("get", "patch") or not may(control_plane, operator, maps, namespace=namespace), verb
        assert may(control_plane, operator, Right("", "configmaps", "", "watch"), namespace=namespace, name=CONFIG)
        assert not may(control_plane, operator, Right("", "configmaps", "", "patch"), namespace=namespace, name=CONFIG)
        everything = granted_verbs(roles_of(objects(render())))
        at_default = {right for right in everything if may(control_plane, operator, right, namespace="default")}
        assert at_default == rights(CLUSTER)
    control_plane.api().delete(f"/api/v1/namespaces/{jobs}")


@pytest.mark.parametrize(
    ("role", "right", "expected"),
    [
        pytest.param("view", Right("kubeflow.org", "tfjobs", "", "list"), True, id="who may view sees jobs"),
        pytest.param("view", Right("kubeflow.org", "tfjobs", "", "create"), False, id="and cannot make one"),
        pytest.param("edit", Right("sterna.dev", "elasticjobs", "", "create"), True, id="who may edit makes jobs"),
        pytest.param("edit", Right("kubeflow.org", "pytorchjobs", "scale", "patch"), True, id="and scales them"),
        pytest.param("edit", Right("sterna.dev", "migrations", "", "create"), True, id="and asks for moves"),
        pytest.param("edit", Right("kubeflow.org", "tfjobs", "status", "patch"), False, id="but writes no status"),
        pytest.param("admin", Right("kubeflow.org", "mpijobs", "", "delete"), True, id="who administers may it too"),
        pytest.param("admin", Right("kubeflow.org", "mpijobs", "status", "patch"), False, id="and no status either"),
    ],
)
def test_people_get_rights_to_jobs_through_the_clusters_own_roles(control_plane, namespace, role, right, expected):
    person = f"person-{secrets.token_hex(3)}"
    binding = {
        "metadata": {"name": person},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": person}],
    }
    with installed_roles(control_plane, {}, namespace):
        control_plane.api().create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", binding)
        seen = Right("sterna.dev", "migrations", "", "list" if role == "view" else "create")
        until(lambda: may(control_plane, person, seen, namespace=namespace), f"{role} covers the kinds of jobs")
        assert may(control_plane, person, right, namespace=namespace) is expected


def test_what_a_user_asked_for_is_read_from_the_audit_log(control_plane, namespace):
    """The means by which the suite is held against the shipped roles."""
    user = f"system:serviceaccount:{namespace}:asking"
    control_plane.api().create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "asking"}})
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "asking")
    control_plane.kubectl("create", "role", "asking", "-n", namespace, "--verb=list", "--resource=pods")
    control_plane.kubectl(
        "create", "rolebinding", "asking", "-n", namespace, "--role=asking", f"--serviceaccount={namespace}:asking"
    )
    as_user = ["--kubeconfig", str(kubeconfig), "-n", namespace]
    until(
        lambda: "No resources found" in control_plane.kubectl("get", "pods", *as_user, check=False), "it may list pods"
    )
    control_plane.kubectl("get", "secrets", *as_user, check=False)
    secrets_asked = {Right("", "secrets", "", "list")}
    until(lambda: secrets_asked <= refused_verbs(control_plane.audited(), user), "the log shows what was refused")
    assert used_verbs(control_plane.audited(), user) == {Right("", "pods", "", "list")}


def _as_list(bodies: list[Body]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
