"""Why a plan is as it is. Works on plans alone: a file is enough, on any machine, later."""

from planner.explain.breakpoints import Breakpoint, Range, Sensitivity
from planner.explain.causes import Obstacle, ObstacleKind, why_candidate
from planner.explain.infeasible import Blame, Fix, Infeasibility, why_infeasible
from planner.explain.questions import why, why_tensor
from planner.explain.restricted_problem import Hold
from planner.explain.sensitivity import sensitivity
from planner.explain.summary import summary
from planner.explain.why_not import why_not, why_not_search
from report.explanation import (
    Candidate,
    CauseDelta,
    CostPart,
    FasterLink,
    InStage,
    MemoryHolder,
    MemoryStatus,
    Neighbour,
    OperatorCost,
    OperatorExplanation,
    PlanExplanation,
    Reason,
    Rival,
    StageStatus,
    WhyNot,
)

__all__ = [
    "Blame",
    "Breakpoint",
    "Candidate",
    "CauseDelta",
    "CostPart",
    "FasterLink",
    "Fix",
    "Hold",
    "InStage",
    "Infeasibility",
    "MemoryHolder",
    "MemoryStatus",
    "Neighbour",
    "Obstacle",
    "ObstacleKind",
    "OperatorCost",
    "OperatorExplanation",
    "PlanExplanation",
    "Range",
    "Reason",
    "Rival",
    "Sensitivity",
    "StageStatus",
    "WhyNot",
    "sensitivity",
    "summary",
    "why",
    "why_candidate",
    "why_infeasible",
    "why_not",
    "why_not_search",
    "why_tensor",
]
