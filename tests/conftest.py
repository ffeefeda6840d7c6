"""Settings of all tests."""

from hypothesis import settings

# A loaded machine must not fail a test, and a second run must see the same examples.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
