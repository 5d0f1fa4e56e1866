"""Names the mirage-slurm that mirage-provisioner needs, while hatchling makes its metadata.

For an index it is the one of the same version. `pip install CHECKOUT` finds none there before a
release, and takes the checkout's own.
"""

import os
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

CLIENT = "mirage-slurm"


class ClientDependency(MetadataHookInterface):
    """Completes the dependency on mirage-slurm."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Replace the plain name in the project's dependencies."""
        own = name_client(
            Path(self.root).resolve(), metadata["version"], by_pip="PIP_BUILD_TRACKER" in os.environ
        )
        names = metadata["dependencies"]
        metadata["dependencies"] = [own if name == CLIENT else name for name in names]


def name_client(root: Path, version: str, *, by_pip: bool) -> str:
    """Return the requirement of the client.

    `by_pip`: whether pip itself builds, and so installs at once. What is built from a source
    archive names the version: PKG-INFO is in such a folder alone, and that folder does not last.
    """
    folder = root / "slurm_plugin"
    is_checkout = (folder / "pyproject.toml").exists() and not (root / "PKG-INFO").exists()
    return f"{CLIENT} @ {folder.as_uri()}" if by_pip and is_checkout else f"{CLIENT}=={version}"
