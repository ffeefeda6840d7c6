"""Exact shrinking of networks: what is left has the same optimum, and an answer to it expands to
one of the whole.
"""

from planner.reduction.reduce import Reduced, reduced

__all__ = ["Reduced", "reduced"]
