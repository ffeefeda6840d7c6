"""The nouns of the model: graphs, operators and their rules, layouts, plans."""

from ir.graph import AttributeValue, GraphError, Op, OpGraph, Role, Tensor
from ir.layout import Layout, LayoutError, check_layout, replicated
from ir.rule import FactorMap, InternalCollective, ShardingRule, parse_rule

__all__ = [
    "AttributeValue",
    "FactorMap",
    "GraphError",
    "InternalCollective",
    "Layout",
    "LayoutError",
    "Op",
    "OpGraph",
    "Role",
    "ShardingRule",
    "Tensor",
    "check_layout",
    "parse_rule",
    "replicated",
]
