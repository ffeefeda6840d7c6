"""A training step, event by event: streams, overlap, shared links, pipeline schedules."""

from costmodel.simulation.accounting import Account, account_of
from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import Timeline, run
from costmodel.simulation.job import Job
from costmodel.simulation.pipeline import pipeline_programme
from costmodel.simulation.plan_programme import plan_programme

__all__ = [
    "Account",
    "Effects",
    "Job",
    "Timeline",
    "account_of",
    "pipeline_programme",
    "plan_programme",
    "run",
]
