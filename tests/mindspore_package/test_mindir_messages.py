"""What the planner declares of MindIR is what MindSpore's own descriptor says."""

from __future__ import annotations

from typing import Any

import pytest
from mindspore.train import mind_ir_pb2

from importers.mindir.messages import ATTRIBUTE_TYPES, DATA_TYPES, MESSAGES, NEWEST_VERSION

TYPES = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string",
         12: "bytes", 14: "enum"}  # fmt: skip


def descriptors() -> dict[str, Any]:
    found: dict[str, Any] = dict(mind_ir_pb2.DESCRIPTOR.message_types_by_name)
    for outer in ("TensorProto", "ModelProto"):
        found |= dict(found[outer].nested_types_by_name)
    return found


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_have_the_numbers_of_the_descriptor(name: str) -> None:
    theirs = descriptors()[name].fields_by_name
    for field, declared in MESSAGES[name].items():
        found = theirs[field]
        kind = TYPES.get(found.type) or found.message_type.name
        assert (declared.number, declared.type) == (found.number, kind), field
        assert declared.repeated == found.is_repeated, field


def test_enumerations_have_the_values_of_the_descriptor() -> None:
    attributes = mind_ir_pb2.AttributeProto.AttributeType
    for value, name in ATTRIBUTE_TYPES.items():
        assert attributes.Name(value) == name
    data = mind_ir_pb2.TensorProto.DataType
    named = {"float32": "FLOAT", "float64": "DOUBLE"}
    for value, dtype in DATA_TYPES.items():
        wanted = "FLOAT64" if value == 17 else named.get(dtype, dtype.upper())
        assert data.Name(value) == wanted


def test_there_is_no_newer_version() -> None:
    assert max(mind_ir_pb2.Version.values()) == NEWEST_VERSION
