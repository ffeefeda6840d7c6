"""MindSpore's `shard` on parts of a model: its calls are read, checked, and become pins."""

from planner.shard.calls import ShardCall, ShardContext, ShardError, ShardIssue, read_calls
from planner.shard.checks import check_calls
from planner.shard.pins import pins_of_calls

__all__ = ["ShardCall", "ShardContext", "ShardError", "ShardIssue"]
__all__ += ["check_calls", "pins_of_calls", "read_calls"]
