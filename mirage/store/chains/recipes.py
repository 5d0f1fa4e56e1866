"""Stores the recipes that owners of chains of mode submit leave.

Whoever submits the next links of such a chain needs its recipe.
"""

from dataclasses import asdict
from typing import NamedTuple

from sqlalchemy import bindparam, delete, exists, or_, select

from mirage.domain.chain import ChainId, ChainState
from mirage.domain.submission import Recipe
from mirage.store.chains.chains import get_chain
from mirage.store.database import tables
from mirage.store.database.engine import Transaction
from mirage.store.database.upsert import put_row

_CHAINS, _KEPT = tables.chains.c, tables.recipes.c
_IS_OVER = _CHAINS.state.in_(tuple(s.value for s in ChainState if s.is_over))
_DROP_ENDED = delete(tables.recipes).where(
    exists().where(
        _CHAINS.cluster_id == bindparam("cluster_id"),
        _CHAINS.chain_id == _KEPT.chain_id,
        or_(_IS_OVER, _CHAINS.uid != _KEPT.uid),
    )
)


class StoredRecipe(NamedTuple):
    uid: int
    """The user who left the recipe."""
    recipe: Recipe


def save_recipe(
    tx: Transaction, cluster_id: int, chain_id: ChainId, uid: int, recipe: Recipe
) -> None:
    """Store the recipe of a chain of this cluster. Raises NotFound."""
    get_chain(tx, cluster_id, chain_id)
    values = {"chain_id": chain_id, "uid": uid, "recipe": asdict(recipe)}
    put_row(tx, tables.recipes, values, key=["chain_id"])


def find_recipe(tx: Transaction, cluster_id: int, chain_id: ChainId) -> StoredRecipe | None:
    table = tables.recipes
    query = (
        select(table.c.uid, table.c.recipe)
        .join(tables.chains, _CHAINS.chain_id == _KEPT.chain_id)
        .where(_CHAINS.cluster_id == cluster_id, table.c.chain_id == chain_id)
    )
    row = tx.execute(query).first()
    return None if row is None else StoredRecipe(row.uid, Recipe(**row.recipe))


def drop_ended_recipes(tx: Transaction, cluster_id: int) -> None:
    """Delete the recipes of chains that are over, or that turned out to belong to another user."""
    tx.execute(_DROP_ENDED, {"cluster_id": cluster_id})
