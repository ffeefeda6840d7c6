"""Settings of all tests."""

from hypothesis import settings

# `make test-mindspore` runs it, in an environment of its own.
collect_ignore = ["mindspore_package"]

# A loaded machine must not fail a test, and a second run must see the same examples.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
