"""Rows of many links at once: (chain, index) pairs as one parameter, however many they are.

Written out, thousands of pairs are as many comparisons of each row to PostgreSQL, and to SQLite a
reason to read the whole index.
"""

import json
from collections.abc import Iterable

from sqlalchemy import BigInteger, Column, ColumnElement, Text, bindparam, select, text, tuple_

from mirage.domain.chain import ChainId

LinkKey = tuple[ChainId, int]
"""A chain's id and a link's index."""

_SQLITE = (
    "SELECT json_extract(value, '$[0]') AS chain_id, json_extract(value, '$[1]') AS \"index\" "
    "FROM json_each(:pairs)"
)
_POSTGRESQL = (
    'SELECT pair ->> 0 AS chain_id, CAST(pair ->> 1 AS bigint) AS "index" '
    "FROM json_array_elements(CAST(:pairs AS json)) AS pair"
)


def match_links(dialect: str, chain_id: Column[str], index: Column[int]) -> ColumnElement[bool]:
    """Return the condition that (`chain_id`, `index`) is one of the links in the parameter `pairs`.

    `dialect` is that of the transaction. `pack_links` makes the parameter. So a statement with the
    condition can be built once and run often.
    """
    words = _SQLITE if dialect == "sqlite" else _POSTGRESQL
    named = text(words).bindparams(bindparam("pairs", type_=Text))
    wanted = named.columns(chain_id=Text, index=BigInteger).subquery("wanted")
    return tuple_(chain_id, index).in_(select(wanted.c.chain_id, wanted.c.index))


def pack_links(links: Iterable[LinkKey]) -> str:
    """Return the value of the parameter `pairs` of a statement with `match_links`."""
    return json.dumps(list(links))
