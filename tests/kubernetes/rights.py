"""The rights that the shipped chart gives the operator, given to the user that it runs as in tests."""

from tests.cluster.control_plane import ControlPlane
from tests.cluster.requests import APPLY
from tests.deploy.rbac import EVERYTHING, roles_of
from tests.deploy.rendering import objects, render

USER = "sterna"
_GROUP = "rbac.authorization.k8s.io"
_NAME = "sterna-under-test"


def grant_shipped_rights(plane: ControlPlane) -> None:
    """In every namespace, as a test has its own, with all that values may ask for. Doing it again changes nothing."""
    rules = [rule for role in roles_of(objects(render(EVERYTHING))) for rule in role["rules"]]
    metadata = {"name": _NAME}
    role = {"apiVersion": f"{_GROUP}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    bound = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": _NAME},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": USER}],
    }
    for plural, body in (("clusterroles", role), ("clusterrolebindings", bound)):
        plane.api().patch(f"/apis/{_GROUP}/v1/{plural}/{_NAME}?fieldManager=tests&force=true", body, APPLY)
