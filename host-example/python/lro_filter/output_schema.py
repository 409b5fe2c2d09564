"""Widens the output schemas of tools whose results may be replaced."""

from typing import Any

__all__ = ["or_replacement"]

DEFINITIONS = ("$defs", "definitions")
NAMED_SCHEMAS = (*DEFINITIONS, "properties", "patternProperties", "dependentSchemas", "dependencies")
DATA = ("const", "enum", "default", "examples")
REFERENCES = ("$ref", "$dynamicRef")

# The member with which FastMCP marks that it wrapped a value into an object with the single property `result`.
WRAPS = "x-fastmcp-wrap-result"

# Schema of a descriptor or truncated result: an object that says whether data is in files.
REPLACEMENT = {"type": "object", "properties": {"offloaded": {"type": "boolean"}}, "required": ["offloaded"]}


def or_replacement(schema: dict) -> dict:
    """A schema that allows what `schema` allows, and the replacement of a result.

    Definitions and `$schema` move to the new root; references to other parts of the old root are rewritten.
    A schema with an identifier is its own root wherever it stands and moves unchanged.
    """
    is_root = _identifies(schema)
    moved = ("$schema", WRAPS) if is_root else ("$schema", WRAPS, *DEFINITIONS)
    changed = schema if is_root else _moved(schema)
    widened = {name: value for name, value in changed.items() if name in moved}
    if schema.get("type") == "object":
        widened["type"] = "object"
    if schema.get(WRAPS) and "result" in schema.get("properties", {}):
        # FastMCP's client reads this property and its schema at the root.
        widened["properties"] = {"result": {"anyOf": [changed["properties"]["result"], {"type": "null"}]}}
    inner = {name: value for name, value in changed.items() if name not in moved}
    return widened | {"anyOf": [inner, REPLACEMENT]}


def _identifies(schema: dict) -> bool:
    identifier = schema.get("$id")
    return isinstance(identifier, str) and not identifier.startswith("#")


def _moved(schema: Any) -> Any:
    """A schema whose references to parts of the root other than definitions point one level deeper."""
    if isinstance(schema, list):
        return [_moved(each) for each in schema]
    if not isinstance(schema, dict) or _identifies(schema):
        return schema
    found = {}
    for name, value in schema.items():
        if name in DATA:
            found[name] = value
        elif name in NAMED_SCHEMAS and isinstance(value, dict):
            found[name] = {key: _moved(each) for key, each in value.items()}
        elif name in REFERENCES and isinstance(value, str):
            found[name] = _reference(value)
        else:
            found[name] = _moved(value)
    return found


def _reference(target: str) -> str:
    is_pointer = target in ("", "#") or target.startswith("#/")
    if not is_pointer or target.split("/")[1:2] in ([name] for name in DEFINITIONS):
        return target
    return f"#/anyOf/0{target[1:]}"
