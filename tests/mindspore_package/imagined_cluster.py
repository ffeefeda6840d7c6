"""The devices that are not there, as the judge of plans has them."""

from executors.mindspore.script.cluster import imagine

__all__ = ["imagine"]
