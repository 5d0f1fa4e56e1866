"""A pytest plugin (-p tests.part_times): how long each file of tests took, when all are done."""

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    taken_s: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                taken_s[report.nodeid.partition("::")[0]] += report.duration
    for file, seconds in taken_s.most_common():
        terminalreporter.write_line(f"part {file}: {seconds:.0f} s")
