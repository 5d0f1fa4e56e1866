"""Defines how far back a page looks: a few choices, or any number of days in the address."""

from typing import Annotated

from fastapi import Query

DAYS = 30
MOST_DAYS = 366
CHOICES = (7, 30, 90, 365)

DaysQuery = Annotated[int, Query(ge=1, le=MOST_DAYS)]
