"""A real Chromium, and services over databases of three sizes."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests import needed
from tests.support.web.seeded import EMPTY, ONE, SIZES
from tests.support.web.serving import Site, serving

CHROMIUM = Path("/usr/bin/chromium")


@contextmanager
def chromium() -> Iterator[Browser]:
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*sandbox, "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield opened
        opened.close()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        needed.absent("Chromium is not installed (Debian's package chromium)")
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="package")
def axe() -> str:
    script = needed.fetch_file(needed.AXE)
    if not script.exists():
        needed.absent(f"{needed.AXE} cannot be fetched: npm, or its registry, is missing")
    return script.read_text()


@pytest.fixture(scope="package")
def sites(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Site]]:
    """By the name of their size. They are read by many tests and changed by none."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(serving(sqlite_template, tmp_path_factory.mktemp(name), size))
            for name, size in SIZES.items()
        }


@pytest.fixture
def site(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    """One of the test's own, with one chain."""
    with serving(sqlite_template, tmp_path, ONE) as made:
        yield made


@pytest.fixture
def empty_site(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    """One of the test's own, without anything."""
    with serving(sqlite_template, tmp_path, EMPTY) as made:
        yield made
