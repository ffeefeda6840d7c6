"""The JSON schema of cluster files, for editors."""

from typing import Any

from topology.cluster_file import ClusterFile

__all__ = ["cluster_schema"]

_PARTS = {"ChipFile": "chips", "ServerFile": "servers"}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_NAMES: dict[str, dict[str, Any]] = {
    "chips": {"aliases": _TEXTS, "hardware": _TEXTS},
    "clusters": {
        "known_as": {"type": "string"},
        "aliases": _TEXTS,
        "hardware": _TEXTS,
        "usual": {"type": "boolean"},
    },
}
"""What a part that uses another may say of its own names."""


def cluster_schema() -> dict[str, Any]:
    """The schema of what a user writes: every part in full, or `use:` with `override:`."""
    schema = ClusterFile.model_json_schema()
    definitions = schema["$defs"]
    for name, folder in _PARTS.items():
        whole = definitions[name]
        # In a file's own layers the key is the name.
        whole["required"] = [key for key in whole["required"] if key != "name"]
        definitions[name] = {"anyOf": [_use(folder, name), whole]}
    whole = {key: schema.pop(key) for key in ("properties", "required", "additionalProperties")}
    # Bundled servers need not be repeated in the file.
    whole["required"] = [key for key in whole["required"] if key != "servers"]
    schema.pop("type", None)
    schema["title"] = "Cluster file of the planner"
    changed = _use("clusters", "")
    changed["properties"]["schema_version"] = whole["properties"]["schema_version"]
    schema["anyOf"] = [{"type": "object", **whole}, changed]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _use(folder: str, name: str) -> dict[str, Any]:
    """A bundled part with changes."""
    return {
        "title": f"{name or 'Cluster'} that changes a bundled one",
        "type": "object",
        "properties": {
            "schema_version": {"type": "integer"},
            "name": {"type": "string"},
            "title": {"type": "string"},
            "note": {"type": ["string", "null"]},
            **_NAMES.get(folder, {}),
            "use": {"type": "string", "description": f"Name of a file of data/{folder}."},
            "override": {"type": "object", "description": "What differs, key by key."},
        },
        "required": ["use"],
        "additionalProperties": False,
    }
