"""deploy/sterna.yaml: the chart rendered with its defaults, for those who apply it with kubectl alone."""

from tests.deploy.manifest import manifest
from tests.deploy.rendering import MANIFEST, NAMESPACE, objects, of_kind, the_only


def test_it_is_what_the_chart_renders_to():
    assert MANIFEST.read_text() == manifest(), "run `make manifests`"


def test_it_can_be_applied_from_its_top_to_its_bottom():
    bodies = objects(MANIFEST.read_text())
    assert bodies[0]["kind"] == "Namespace"
    assert bodies[0]["metadata"]["name"] == NAMESPACE
    assert bodies[-1]["kind"] == "Deployment"
    account = the_only(bodies, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    assert [body["metadata"]["name"] for body in of_kind(bodies, "ServiceAccount")] == [account]


def test_every_object_fits_into_what_kubectl_apply_notes_of_it():
    """It keeps the whole object in an annotation, and all annotations of an object together may have 256 KiB."""
    documents = MANIFEST.read_text().split("\n---\n")
    assert [text.splitlines()[0] for text in documents if len(text) > 200_000] == []
