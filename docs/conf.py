"""`make docs`: every page of the repository as one static site that loads nothing from elsewhere.

Pages are found from the repository's root, so that a link that holds here holds in the site.
"""

import tomllib
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]

project = "Mirage"
author = "the Mirage authors"
release = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["version"]

root_doc = "docs/index"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "docs/**.md",
    "deploy/**.md",
    "models/README.md",
    "slurm_plugin/**.md",
]
exclude_patterns = [".*", "build", "dist", "shared", "tests", "node_modules", "**/__pycache__"]

myst_heading_anchors = 3
html_theme = "furo"
html_title = f"Mirage {release}"
html_copy_source = False
html_show_sphinx = False
html_extra_path = ["site"]
# Lexers do not know every dialect that is quoted; a wrong colour is no fault.
# A pattern is there for pages that an install leaves out.
suppress_warnings = ["misc.highlighting_failure", "toc.empty_glob"]
