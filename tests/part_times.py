"""A pytest plugin (-p tests.part_times): how long each file of tests took, when all are done."""

from operator import itemgetter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    taken_s: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = report.nodeid.partition("::")[0]
                taken_s[file] = taken_s.get(file, 0.0) + report.duration
    for file, seconds in sorted(taken_s.items(), key=itemgetter(1), reverse=True):
        terminalreporter.write_line(f"part {file}: {seconds:.0f} s")
