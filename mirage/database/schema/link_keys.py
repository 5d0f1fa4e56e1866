"""Selects the rows of many links: their (chain, index) pairs are one parameter, however many.

A list of thousands of pairs in the statement itself would be slow. PostgreSQL would compare each
row with every pair, and SQLite would read the whole index.
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

    `dialect` is that of the transaction. `pack_links` makes the parameter's value, so a statement
    with this condition can be built once and run often.
    """
    sql = _SQLITE if dialect == "sqlite" else _POSTGRESQL
    bound = text(sql).bindparams(bindparam("pairs", type_=Text))
    pairs = bound.columns(chain_id=Text, index=BigInteger).subquery("wanted")
    return tuple_(chain_id, index).in_(select(pairs.c.chain_id, pairs.c.index))


def pack_links(links: Iterable[LinkKey]) -> str:
    """Return the value of the parameter `pairs` of a statement with `match_links`."""
    return json.dumps(list(links))
