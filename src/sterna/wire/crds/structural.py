"""Shapes as structural schemas: the part of JSON schema that a custom resource may use, as Kubernetes 1.20 knows it.

A closed shape lists its keys: kubectl refuses others, and the API server drops them. Had it to keep them, a server of
1.20 would not tell kubectl of any key, and neither `apply` nor `explain` could know a misspelt one. An open shape is a
part of Kubernetes that we read a few fields of, and everything else is kept. A key without a value is a key left out:
what is not nullable the API server drops. Defaults stay where they are, in the reading: the server fills in nothing, so
a job is stored as it was written.
"""

from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from sterna.wire.crds.words import words_about
from sterna.wire.fields import COUNT_MAX
from sterna.wire.manifests.shapes import Shape

Schema = dict[str, Any]

ANY_KEYS = "x-kubernetes-preserve-unknown-fields"
ANYTHING: Schema = {ANY_KEYS: True}

_SHAPE = "x-shape"  # on its way through pydantic a schema remembers the shape that it is of
_KEPT = ("type", "format", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_MORE = (ANY_KEYS, "x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")


def structural(shape: type[Shape], required: Mapping[type[Shape], tuple[str, ...]]) -> Schema:
    """The schema of `shape`.

    Which keys are required, of it and of those inside it, is for the caller to say. A text, list or map that is
    required has something in it.
    """
    whole = shape.model_json_schema(by_alias=True, schema_generator=_WithShapes)
    return _converted(whole, whole.get("$defs", {}), required)


class _WithShapes(GenerateJsonSchema):
    def model_schema(self, schema: Any) -> Schema:
        return {**super().model_schema(schema), _SHAPE: schema["cls"]}

    def sort(self, value: Any, parent_key: str | None = None) -> Any:
        return value  # keys stay in the order of their fields, which is the order people read them in


def _converted(schema: Any, named: Mapping[str, Any], required: Mapping[type[Shape], tuple[str, ...]]) -> Schema:
    if "$ref" in schema:
        return _converted(named[schema["$ref"].rpartition("/")[2]], named, required)
    if "anyOf" in schema:  # of our shapes no field is one of several things, except that it may be left out
        (one,) = (other for other in schema["anyOf"] if other != {"type": "null"})
        return _converted(one, named, required)
    if _SHAPE in schema:
        return _object(schema, named, required)
    made = {key: schema[key] for key in (*_KEPT, *_MORE) if key in schema}
    if "exclusiveMinimum" in schema:  # a number of its own in today's JSON schema, a flag in the one Kubernetes has
        made |= {"minimum": schema["exclusiveMinimum"], "exclusiveMinimum": True}
    if made.get("type") == "integer":
        made["format"] = "int32" if made.get("maximum", COUNT_MAX + 1) <= COUNT_MAX else "int64"
    if made.get("type") == "string" and "" in made.get("enum", [""]):
        made["nullable"] = True  # to a server of 1.20 that a later Go has built, "" is null
    if made.get("type") == "array":
        made["items"] = _converted(schema["items"], named, required)
    if made.get("type") == "object":
        values = schema.get("additionalProperties")
        made |= {"additionalProperties": _converted(values, named, required)} if isinstance(values, dict) else ANYTHING
    return made or dict(ANYTHING)


def _object(schema: Any, named: Mapping[str, Any], required: Mapping[type[Shape], tuple[str, ...]]) -> Schema:
    shape: type[Shape] = schema[_SHAPE]
    needed = required.get(shape, ())
    properties: dict[str, Schema] = {}
    for key, child in schema["properties"].items():
        made = _converted(child, named, required)
        if words := words_about(shape, key):
            made = {"description": words, **made}
        if key in needed:
            made = _not_empty(made)
        if shape.is_open and made.pop("enum", None):
            made["nullable"] = True  # where a pod has nothing to say, it may say "" or null as well
        properties[key] = made
    if shape.any_case:  # an author who writes `worker` means Worker, and a schema can only know names in one spelling
        alike = list(properties.values())
        one = {key: value for key, value in alike[0].items() if key != "description"}
        return {"type": "object", "additionalProperties": one}
    return {
        "type": "object",
        **(ANYTHING if shape.is_open else {}),
        **({"required": list(needed)} if needed else {}),
        "properties": properties,
    }


def _not_empty(schema: Schema) -> Schema:
    match schema.get("type"):
        case "string" if "enum" not in schema:
            return {key: value for key, value in schema.items() if key != "nullable"} | {"minLength": 1}
        case "array":
            return schema | {"minItems": 1}
    return schema | {"minProperties": 1} if "additionalProperties" in schema else schema
