"""`make docs`: every page of the repository as one static site that loads nothing from elsewhere.

Pages are found from the repository's root, so that a link that holds here holds in the site.
"""

import re
import runpy
from pathlib import Path

from sphinx.application import Sphinx

_ROOT = Path(__file__).resolve().parents[1]

project = "Mirage"
author = "the Mirage authors"
release = runpy.run_path(str(_ROOT / "slurm_plugin/mirage_slurm/command/version.py"))["VERSION"]

root_doc = "docs/index"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "docs/**.md",
    "deploy/**.md",
    "models/README.md",
    "slurm_plugin/**.md",
]
exclude_patterns = [
    "slurm_plugin/DESCRIPTION.md",
    ".*",
    "build",
    "dist",
    "shared",
    "tests",
    "node_modules",
    "**/__pycache__",
]

myst_heading_anchors = 3
html_theme = "furo"
html_title = f"Mirage {release}"
html_copy_source = False
html_show_sphinx = False
html_extra_path = ["site"]
# Lexers do not know every dialect that is quoted; a wrong colour is no fault.
suppress_warnings = ["misc.highlighting_failure"]


def setup(app: Sphinx) -> None:
    app.connect("source-read", _only_present)


def _only_present(_app: Sphinx, docname: str, source: list[str]) -> None:
    """A line `install*` of a table of contents stands for a page once there is one."""
    folder = (_ROOT / docname).parent
    source[0] = "\n".join(
        line
        for line in source[0].split("\n")
        if not re.fullmatch(r"[a-z]+\*", line) or any(folder.glob(f"{line}.md"))
    )
