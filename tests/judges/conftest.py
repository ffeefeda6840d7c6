"""Settings of the judges' tests."""

import jax
import pytest

# The first use of JAX, in whatever test it is, decides how many devices the process has.
jax.config.update("jax_num_cpu_devices", 16)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests counted, which is not to be seen from their passing."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "checks":
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {value}")
