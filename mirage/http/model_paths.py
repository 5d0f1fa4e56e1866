"""A trained model in an address: its name and its version."""

from typing import Annotated

from fastapi import Path

WORD = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"
"""Of models and their versions."""

ModelNamePath = Annotated[str, Path(pattern=WORD, max_length=64, examples=["ensemble"])]
ModelVersionPath = Annotated[str, Path(pattern=WORD, max_length=64, examples=["3"])]
