"""The chart's life on a real API server by Helm itself: installed, upgraded, uninstalled, installed again.

There are no nodes, so nothing runs: what is shown is which objects Helm makes, changes, takes over and leaves.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import fresh_name, install_crds
from tests.cluster.requests import Body, until
from tests.deploy.helm import HelmFailed, helm
from tests.deploy.rendering import CHART, objects, of_kind, settings

NO_CRDS = {"crds.install": False}
MIGRATIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/migrations.sterna.dev"
UNMARKED = {  # what Helm writes on an object that it takes over, taken off
    "labels": {"app.kubernetes.io/managed-by": None},
    "annotations": dict.fromkeys(
        ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace", "helm.sh/resource-policy")
    ),
}


class Release:
    """The chart under a name of its own in a namespace of its own, installed by the cluster's administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        self.name = fresh_name("sterna")  # also that of everything that is the cluster's
        self.namespace = fresh_name("installed")
        self._plane = plane

    def upgrade(self, *flags: str, chart: Path = CHART, values: Mapping[str, object] | None = None) -> str:
        """Runs `helm upgrade --install` and returns what it printed."""
        given = settings(values or {})
        return self.helm("upgrade", "--install", self.name, str(chart), "--create-namespace", *flags, *given)

    def uninstall(self) -> str:
        return self.helm("uninstall", self.name, "--wait")

    def listed(self) -> list[tuple[str, str]]:
        """Revision and status, as `helm list` shows them."""
        found = json.loads(self.helm("list", "--all", "--output=json"))
        return [(one["revision"], one["status"]) for one in found]

    def left(self) -> set[str]:
        """Kind and name of everything in the cluster that is marked as this release's, and of Helm's own records."""
        selector = f"app.kubernetes.io/instance={self.name}"
        kinds = "all,configmaps,secrets,serviceaccounts,poddisruptionbudgets,networkpolicies,roles,rolebindings,"
        kinds += "clusterroles,clusterrolebindings"
        ours = self._plane.kubectl("get", kinds, "--all-namespaces", f"--selector={selector}", "--output=name")
        records = self._plane.kubectl("get", "secrets", f"-n={self.namespace}", "-l=owner=helm", "--output=name")
        return {*ours.split(), *records.split()}

    def object(self, path: str) -> Body:
        """Of this release's namespace: `deployments/NAME` of apps/v1, or a kind of the core."""
        kind = path.partition("/")[0]
        group = "apis/apps/v1" if kind in ("deployments", "daemonsets") else "api/v1"
        return self._plane.api().get(f"/{group}/namespaces/{self.namespace}/{path}")

    def helm(self, *arguments: str) -> str:
        return helm(*arguments, f"--namespace={self.namespace}", kubeconfig=self._plane.kubeconfig()).out


@pytest.fixture
def release(control_plane: ControlPlane) -> Iterator[Release]:
    """Not installed yet. What a test leaves of it goes."""
    made = Release(control_plane)
    yield made
    with suppress(HelmFailed):
        made.uninstall()
    control_plane.kubectl("delete", "namespace", made.namespace, "--wait=false", "--ignore-not-found")


@pytest.fixture
def others_definitions(control_plane: ControlPlane) -> Iterator[None]:
    """Definitions that Helm did not install, as other tests of this worker rely on them: they get them back so."""
    install_crds(control_plane)
    yield
    install_crds(control_plane)
    for definition in control_plane.kubectl("get", "crds", "--output=name").split():
        control_plane.kubectl("patch", definition, "--type=merge", "-p", json.dumps({"metadata": UNMARKED}))


@pytest.mark.slow
def test_an_upgrade_changes_what_its_values_change_and_uninstalling_leaves_nothing(
    control_plane: ControlPlane, release: Release
):
    told = release.upgrade(values=NO_CRDS)
    assert f"is installed in {release.namespace}" in told
    assert release.listed() == [("1", "deployed")]
    operator = f"deployments/{release.name}"
    until(lambda: release.object(operator)["status"].get("updatedReplicas") == 2, "two pods were made")

    config = f"/api/v1/namespaces/{release.namespace}/configmaps/sterna-config"
    control_plane.api().patch(config, {"data": {"rateLimitSeconds": "30"}})  # as `sterna policy set` does
    release.upgrade(values={**NO_CRDS, "replicas": 3, "monitor.enabled": True, "config.policy": "las"})
    assert release.listed() == [("2", "deployed")]
    assert release.object(operator)["spec"]["replicas"] == 3
    assert release.object("configmaps/sterna-config")["data"] == {"policy": "las", "rateLimitSeconds": "30"}
    assert release.object(f"services/{release.name}-door")
    monitor = release.object(f"daemonsets/{release.name}-monitor")
    token = release.object("secrets/sterna-token")["data"]

    control_plane.api().patch(config, {"data": {"policy": "fifo"}})
    release.upgrade("--reuse-values", values={"image.tag": "next"})
    assert release.listed() == [("3", "deployed")]
    assert release.object(operator)["spec"]["replicas"] == 3
    assert release.object(operator)["spec"]["template"]["spec"]["containers"][0]["image"] == "sterna:next"
    after = release.object(f"daemonsets/{release.name}-monitor")
    assert after["metadata"]["uid"] == monitor["metadata"]["uid"]
    assert release.object("secrets/sterna-token")["data"] == token, "made once: running jobs' tokens come from it"
    assert release.object("configmaps/sterna-config")["data"] == {"policy": "las", "rateLimitSeconds": "30"}

    release.upgrade("--reuse-values", values={"monitor.enabled": False})
    assert {name for name in release.left() if "monitor" in name or "door" in name or "token" in name} == set()

    assert release.left()
    assert "kept" not in release.uninstall()
    assert release.listed() == []
    until(lambda: release.left() == set(), "nothing is left", story=release.left)


@pytest.mark.slow
def test_definitions_are_taken_over_when_told_to_brought_up_to_date_and_kept_with_all_objects_of_their_kinds(
    control_plane: ControlPlane, others_definitions: None, release: Release, tmp_path: Path
):
    api = control_plane.api()
    with pytest.raises(HelmFailed, match="exists and cannot be imported"):
        release.upgrade()
    assert release.left() == set()

    release.upgrade("--take-ownership", chart=older_chart(tmp_path))
    assert api.get(MIGRATIONS)["spec"]["names"]["shortNames"] == ["older"]
    release.upgrade()
    assert release.listed() == [("2", "deployed")]
    assert api.get(MIGRATIONS)["spec"]["names"]["shortNames"] == ["mig"]

    wishes = f"/apis/sterna.dev/v1alpha1/namespaces/{release.namespace}/migrations"
    wish = {"apiVersion": "sterna.dev/v1alpha1", "kind": "Migration", "metadata": {"name": "away"}}
    made = api.create(wishes, {**wish, "spec": {"job": "train"}})
    definitions = of_kind(objects(release.helm("get", "manifest", release.name)), "CustomResourceDefinition")
    told = release.uninstall()
    assert [one["metadata"]["name"] for one in definitions if one["metadata"]["name"] not in told] == []
    assert len(definitions) == 5
    assert api.get(f"{wishes}/away")["metadata"]["uid"] == made["metadata"]["uid"]
    assert "deletionTimestamp" not in api.get(MIGRATIONS)["metadata"]

    release.upgrade()  # its own definitions: nothing needs to be taken over
    assert release.listed() == [("1", "deployed")]


def older_chart(directory: Path) -> Path:
    """The chart of an earlier version, which had another short name for Migrations."""
    chart = shutil.copytree(CHART, directory / "sterna")
    definition = chart / "files" / "crds" / "sterna.dev_migrations.yaml"
    text = definition.read_text()
    assert text.count("- mig\n") == 1
    definition.write_text(text.replace("- mig\n", "- older\n"))
    return chart
