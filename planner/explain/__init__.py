"""Why a plan is as it is. Works on plans alone: a file is enough, on any machine, later."""

from planner.explain.causes import Cause, CauseKind, why_candidate
from planner.explain.infeasible import Blame, Fix, Infeasibility, why_infeasible
from planner.explain.posed import Hold
from planner.explain.questions import summary, why, why_tensor
from planner.explain.records import (
    Candidate,
    CostPart,
    FasterLink,
    MemoryHolder,
    MemoryStatus,
    Neighbour,
    OperatorCost,
    OperatorExplanation,
    PlanExplanation,
    Reason,
    Rival,
)
from planner.explain.sensitivity import Range, Sensitivity, Turn, sensitivity
from planner.explain.why_not import CauseDelta, WhyNot, why_not, why_not_search

__all__ = [
    "Blame",
    "Candidate",
    "Cause",
    "CauseDelta",
    "CauseKind",
    "CostPart",
    "FasterLink",
    "Fix",
    "Hold",
    "Infeasibility",
    "MemoryHolder",
    "MemoryStatus",
    "Neighbour",
    "OperatorCost",
    "OperatorExplanation",
    "PlanExplanation",
    "Range",
    "Reason",
    "Rival",
    "Sensitivity",
    "Turn",
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
