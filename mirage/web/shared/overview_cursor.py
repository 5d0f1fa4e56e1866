"""Writes and reads the cursor of the overview: where its next page begins."""

import re

from mirage.database.chains.chain_ranking import RankedChain
from mirage.domain.chain import ChainId
from mirage.reports.overview import ChainRow
from mirage.web.shared.problems import build_invalid_error

_CURSOR = re.compile(r"(?P<rank>[012])-(?P<ends>\d{1,19})-(?P<chain>[a-z0-9]{8,32})")
_BEYOND = 2**63


def format_cursor(row: ChainRow) -> str:
    """Return the cursor of the page that begins after this row."""
    return f"{row.place.rank}-{row.place.ends}-{row.place.chain_id}"


def parse_cursor(cursor: str, *, parameter: str) -> RankedChain:
    """Return the place that a cursor of `format_cursor` names.

    Raises a problem that names `parameter` if `format_cursor` did not make the cursor.
    """
    match = _CURSOR.fullmatch(cursor)
    if match is None or int(match["ends"]) >= _BEYOND:
        raise build_invalid_error(
            f"there is no such page: begin again without {parameter}", parameter=parameter
        )
    return RankedChain(int(match["rank"]), int(match["ends"]), ChainId(match["chain"]))
