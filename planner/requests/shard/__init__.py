"""MindSpore's `shard` on parts of a model: its calls are read, checked, and become pins."""

from planner.requests.shard.calls import (
    ShardCall,
    ShardContext,
    ShardError,
    ShardIssue,
    pins_of_calls,
    read_calls,
)
from planner.requests.shard.checks import check_calls

__all__ = ["ShardCall", "ShardContext", "ShardError", "ShardIssue"]
__all__ += ["check_calls", "pins_of_calls", "read_calls"]
