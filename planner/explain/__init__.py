"""Why a plan is as it is. Works on plans alone: a file is enough, on any machine, later.

What is answered are the records of `report.explanation`.
"""

from planner.explain.causes import Obstacle, ObstacleKind, why_candidate
from planner.explain.fixes import Fix
from planner.explain.infeasible import Blame, Infeasibility, why_infeasible
from planner.explain.questions import why, why_tensor
from planner.explain.restricted_problem import Hold
from planner.explain.sensitivity import sensitivity
from planner.explain.summary import summary
from planner.explain.why_not import why_not, why_not_search

__all__ = [
    "Blame",
    "Fix",
    "Hold",
    "Infeasibility",
    "Obstacle",
    "ObstacleKind",
    "sensitivity",
    "summary",
    "why",
    "why_candidate",
    "why_infeasible",
    "why_not",
    "why_not_search",
    "why_tensor",
]
