"""Messages of a MindIR file, as far as planning reads them.

Source: the descriptor of `mind_ir_pb2` in the mindspore 2.10.0 package (package `mind_ir`);
`tests/mindspore_package/test_mindir_messages.py` holds these numbers against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ir.wire import Wire

NEWEST_VERSION = 3
"""Of `ModelProto.mind_ir_version`: with primitive functions (2), and scalar graph holders (3)."""


SCALARS: Mapping[str, Wire] = MappingProxyType(
    {
        **dict.fromkeys(("int32", "int64", "uint64", "bool", "enum"), Wire.VARINT),
        "float": Wire.FIXED32, "double": Wire.FIXED64,
    }
)  # fmt: skip
"""Types of which several may be packed."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A field of a message."""

    number: int
    type: str
    """A type of Protocol Buffers, or the name of a message."""
    repeated: bool = False

    @property
    def wire(self) -> Wire:
        return SCALARS.get(self.type, Wire.BYTES)


def _declared(text: str) -> Mapping[str, Declared]:
    """Fields from `NUMBER TYPE NAME`, separated by commas; a star makes one repeated."""
    fields = {}
    for each in text.split(","):
        number, kind, name = each.split()
        fields[name] = Declared(int(number), kind.rstrip("*"), kind.endswith("*"))
    return MappingProxyType(fields)


MESSAGES: Mapping[str, Mapping[str, Declared]] = MappingProxyType(
    {
        "ModelProto": _declared(
            "1 string ir_version, 2 string producer_name, 3 string producer_version, "
            "5 string model_version, 7 GraphProto graph, 8 GraphProto* functions, "
            "10 bool little_endian, 12 PrimitiveProto* primitives, 13 int64 mind_ir_version, "
            "14 UserInfoEntry* user_info"
        ),
        "GraphProto": _declared(
            "1 NodeProto* node, 2 string name, 3 TensorProto* parameter, 5 ValueInfoProto* input, "
            "6 ValueInfoProto* output, 10 MapTensorProto* map_parameter"
        ),
        "NodeProto": _declared(
            "1 string* input, 2 string* output, 3 string name, 4 string op_type, "
            "5 AttributeProto* attribute, 7 string domain"
        ),
        "PrimitiveProto": _declared(
            "1 string name, 2 string op_type, 3 AttributeProto* attribute, 4 string instance_name"
        ),
        "ValueInfoProto": _declared(
            "1 string name, 2 TensorProto* tensor, 5 AttributeProto attr_info"
        ),
        "AttributeProto": _declared(
            "1 string name, 2 float f, 3 int64 i, 4 double d, 5 bytes s, 6 TensorProto t, "
            "8 float* floats, 9 double* doubles, 10 int64* ints, 11 bytes* strings, "
            "12 TensorProto* tensors, 16 enum type, 17 AttributeProto* values"
        ),
        "TensorProto": _declared(
            "1 int64* dims, 2 int32 data_type, 7 string name, 9 bytes raw_data, "
            "12 ExternalDataProto external_data, 13 string ref_key, 16 enum compression_type"
        ),
        "ExternalDataProto": _declared("1 string location, 2 int64 offset, 3 int64 length"),
        "MapTensorProto": _declared("1 string name"),
        "UserInfoEntry": _declared("1 string key, 2 string value"),
    }
)
"""By name; `ExternalDataProto` is declared inside of `TensorProto`, `UserInfoEntry` of
`ModelProto`.
"""

ATTRIBUTE_TYPES: Mapping[int, str] = MappingProxyType(
    {
        0: "UNDEFINED", 1: "FLOAT", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32",
        7: "INT64", 8: "STRING", 9: "BOOL", 10: "FLOAT16", 11: "DOUBLE", 12: "UINT32",
        13: "UINT64", 16: "BFLOAT16", 17: "TENSOR", 19: "TENSORS", 20: "TUPLE", 21: "LIST",
        22: "DICT", 23: "UMONAD", 24: "IOMONAD", 25: "NONE", 27: "FUNCGRAPHCLOSURE",
        36: "TYPE_NULL", 39: "SCALAR",
    }
)  # fmt: skip
"""`AttributeProto.type`: what of an attribute holds its value."""

DATA_TYPES: Mapping[int, str] = MappingProxyType(
    {
        1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
        9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
        17: "float64",
    }
)  # fmt: skip
"""`TensorProto.data_type`: element types that a tensor of a graph can have."""
