"""Custom resource definitions: what they say about our kinds, and that the files in deploy/ are what the code says.

Whether an API server takes them, and what it then refuses, is shown in tests/kubernetes/test_kinds*.py.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import Field

from sterna.model.workload import CleanUp
from sterna.wire.crds import definitions, file_name, json_of, yaml_of
from sterna.wire.crds.kinds import KINDS, REQUIRED
from sterna.wire.crds.structural import ANY_KEYS, structural
from sterna.wire.crds.words import words_about
from sterna.wire.manifests.shapes import OpenShape, Shape

DEPLOY = Path(__file__).parents[3] / "deploy"
FOLDERS = (DEPLOY / "crds", DEPLOY / "helm" / "sterna" / "files" / "crds")  # for kubectl, and in the chart
DEFINITIONS = definitions()
ANNOTATION_BYTES_MAX = 256 * 1024  # kubectl apply keeps the whole definition in one


def schemas_in(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and all those inside it."""
    yield path, schema
    for key, child in schema.get("properties", {}).items():
        yield from schemas_in(child, f"{path}.{key}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from schemas_in(schema[key], f"{path}[]")


def schema_at(kind: str, *path: str) -> dict[str, Any]:
    (found,) = (one for one in DEFINITIONS if one["spec"]["names"]["kind"] == kind)
    schema: dict[str, Any] = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in path:
        schema = schema[part] if part in ("items", "additionalProperties") else schema["properties"][part]
    return schema


@pytest.mark.parametrize("folder", FOLDERS, ids=["for kubectl", "in the chart"])
@pytest.mark.parametrize("definition", DEFINITIONS, ids=file_name)
def test_the_file_is_what_the_code_says(folder, definition):
    text = (folder / f"{file_name(definition)}.yaml").read_text(encoding="utf-8")
    assert text == yaml_of([definition]), "run `make crds`"


@pytest.mark.parametrize("folder", FOLDERS, ids=["for kubectl", "in the chart"])
def test_there_is_a_file_for_every_kind_and_none_besides(folder):
    expected = {f"{file_name(definition)}.yaml" for definition in DEFINITIONS}
    assert {path.name for path in folder.iterdir()} == expected


def test_both_notations_say_the_same():
    assert list(yaml.safe_load_all(yaml_of(DEFINITIONS))) == list(DEFINITIONS)
    assert json.loads(json_of(DEFINITIONS))["items"] == list(DEFINITIONS)
    assert json.loads(json_of(DEFINITIONS[:1])) == DEFINITIONS[0]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=file_name)
def test_kubectl_can_apply_it(definition):
    assert len(json.dumps(definition)) < ANNOTATION_BYTES_MAX


@pytest.mark.parametrize("definition", DEFINITIONS, ids=file_name)
def test_every_part_of_a_schema_is_structural(definition):
    for version in definition["spec"]["versions"]:
        for path, schema in schemas_in(version["schema"]["openAPIV3Schema"]):
            anything = schema.get(ANY_KEYS) or schema.get("x-kubernetes-int-or-string")
            assert "type" in schema or anything, path
            assert not ("properties" in schema and "additionalProperties" in schema), path
            assert not {"$ref", "default", "title", "anyOf", "allOf", "not"} & schema.keys(), path
            assert "x-kubernetes-validations" not in schema, "1.20 does not know them"


def test_unknown_keys_are_kept_inside_pods_and_in_what_the_scheduler_remembers_alone():
    kept = {
        path
        for kind in KINDS
        for path, schema in schemas_in(schema_at(kind.kind))
        if schema.get(ANY_KEYS) and schema.get("type") == "object"
    }
    roots = (".template", "[].template", ".resources", ".lifecycle", ".env[]", ".tolerations[]", ".status.scheduling")
    inside = [path for path in kept if any(root in path for root in roots) or path.endswith(".labelSelector")]
    assert sorted(kept) == sorted(inside)
    assert ".status.scheduling" in kept


def test_the_spec_itself_is_closed_so_that_kubectl_knows_every_key_of_it():
    for kind in KINDS:
        assert ANY_KEYS not in schema_at(kind.kind, "spec")
        assert schema_at(kind.kind, "spec")["properties"].keys() == set(kind.spec.keys)


def test_roles_are_taken_in_any_case():
    for kind, field in (("TFJob", "tfReplicaSpecs"), ("PyTorchJob", "pytorchReplicaSpecs"), ("ElasticJob", "roles")):
        schema = schema_at(kind, "spec", field)
        assert "properties" not in schema
        assert "template" in schema["additionalProperties"]["properties"]


def test_both_versions_of_an_mpijob_take_what_the_other_stored():
    (definition,) = definitions(["mpijob"])
    first, second = definition["spec"]["versions"]
    assert (first["name"], first["storage"], second["name"], second["storage"]) == ("v1", True, "v2beta1", False)
    assert first["served"] is second["served"] is True
    assert first["schema"] == second["schema"]
    assert definition["spec"]["conversion"] == {"strategy": "None"}
    assert {"cleanPodPolicy", "mainContainer", "mpiImplementation"} <= schema_at("MPIJob", "spec")["properties"].keys()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(("TFJob", "spec", "min-instances"), {"minimum": 1, "maximum": 100_000}, id="a count"),
        pytest.param(("TFJob", "spec", "cleanPodPolicy"), {"enum": ["All", "Running", "None"]}, id="a word"),
        pytest.param(("TFJob", "spec", "tfReplicaSpecs"), {"minProperties": 1}, id="at least one role"),
        pytest.param(("ElasticJob", "spec", "epochs"), {"minimum": 0, "exclusiveMinimum": True}, id="above nothing"),
        pytest.param(("PyTorchJob", "spec", "nprocPerNode"), {"x-kubernetes-int-or-string": True}, id="number or word"),
        pytest.param(("TFJob", "metadata", "name"), {"maxLength": 63}, id="a name for pods and services"),
        pytest.param(
            ("TFJob", "spec", "tfReplicaSpecs", "additionalProperties", "template", "spec", "containers"),
            {"minItems": 1},
            id="at least one container",
        ),
    ],
)
def test_what_can_be_checked_before_it_is_stored_is(path, expected):
    schema = schema_at(path[0], *path[1:])
    assert {key: schema.get(key) for key in expected} == expected


def shapes_in(shape: type[Shape]) -> set[type[Shape]]:
    found = {shape}
    for field in shape.model_fields.values():
        for inner in _shapes_of(field.annotation):
            found |= shapes_in(inner)
    return found


def _shapes_of(annotation: Any) -> Iterator[type[Shape]]:
    if isinstance(annotation, type) and issubclass(annotation, Shape):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _shapes_of(inner)


def test_kubectl_explain_has_words_for_every_field_that_is_not_a_pods():
    closed = {shape for kind in KINDS for shape in (*shapes_in(kind.spec), *shapes_in(kind.status))}
    silent = [
        f"{shape.__name__}.{key}"
        for shape in closed
        if not issubclass(shape, OpenShape) and not shape.any_case
        for key in shape.keys
        if not words_about(shape, key)
    ]
    assert sorted(silent) == []


def test_what_is_required_is_a_key_of_its_shape():
    for shape, keys in REQUIRED.items():
        assert set(keys) <= set(shape.keys), shape.__name__


def test_a_shape_of_a_few_fields():
    class Inner(OpenShape):
        name: str = ""

    class Outer(Shape):
        inner: list[Inner] = Field(default_factory=list)
        word: str | None = None
        choice: CleanUp = CleanUp.ALL

    assert structural(Outer, {Inner: ("name",), Outer: ("inner",)}) == {
        "type": "object",
        "required": ["inner"],
        "properties": {
            "inner": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    ANY_KEYS: True,
                    "required": ["name"],
                    "properties": {"name": {"type": "string", "minLength": 1}},
                },
            },
            "word": {"type": "string", "nullable": True},
            "choice": {"type": "string", "enum": ["All", "Running", "None"]},
        },
    }


def test_columns_show_what_people_look_for_first():
    for kind in KINDS:
        (definition,) = definitions([kind.kind])
        for version in definition["spec"]["versions"]:
            columns = [(one["name"], one.get("priority", 0)) for one in version["additionalPrinterColumns"]]
            narrow = [name for name, priority in columns if not priority]
            if kind.kind == "Migration":
                assert narrow == ["Job", "From", "To", "Phase", "Reason", "Downtime", "Age"]
            else:
                assert narrow == ["State", "Workers", "GPUs", "Reason", "Age"]
                assert [name for name, priority in columns if priority] == ["Nodes", "Restarts", "Migrations"]
