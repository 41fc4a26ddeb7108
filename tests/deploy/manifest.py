"""The text of deploy/sterna.yaml: the chart with its defaults, for those who apply it with kubectl alone.

`python -m tests.deploy.manifest` prints it; `make manifests` writes the file.
"""

import sys

from tests.deploy.rendering import render

HEADER = """\
# Sterna as one manifest: kubectl apply -f deploy/sterna.yaml
# Rendered from deploy/helm/sterna by `make manifests`; change it there. Read docs/install.md first: it says where the
# image comes from, and what to do where Kubeflow's definitions of these kinds are installed.
"""


def manifest() -> str:
    return HEADER + render({"createNamespace": True})


if __name__ == "__main__":
    sys.stdout.write(manifest())
