"""What a cluster must know of our kinds: custom resource definitions, made from the shapes that manifests have."""

from sterna.wire.crds.definitions import definitions
from sterna.wire.crds.text import file_name, json_of, yaml_of

__all__ = ["definitions", "file_name", "json_of", "yaml_of"]
