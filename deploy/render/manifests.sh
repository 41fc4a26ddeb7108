#!/bin/sh
# Writes deploy/sterna.yaml: the chart with its defaults, for `kubectl apply`. The argument is the renderer (build.sh).
set -eu
renderer=$(realpath "$1")
cd "$(dirname "$0")/.."
{
    echo "# Sterna as one manifest: kubectl apply -f deploy/sterna.yaml"
    echo "# Rendered from deploy/helm/sterna by \`make manifests\`; change it there. Read docs/install.md first: it says where the"
    echo "# image comes from, and what to do where Kubeflow's definitions of these kinds are installed."
    "$renderer" --namespace sterna-system --skip-tests --set createNamespace=true sterna helm/sterna
} > sterna.yaml.new
mv sterna.yaml.new sterna.yaml
