"""The page of one chain."""

from fastapi import APIRouter

router = APIRouter(include_in_schema=False)
