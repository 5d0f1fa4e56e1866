"""Defines the parts of an address that name a trained model: its name and its version."""

from typing import Annotated

from fastapi import Path

WORD = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"
"""The pattern of model names and versions."""

ModelNamePath = Annotated[str, Path(pattern=WORD, max_length=64, examples=["ensemble"])]
ModelVersionPath = Annotated[str, Path(pattern=WORD, max_length=64, examples=["3"])]
