"""Small models trained on hand-made tables, once a test run."""

from functools import cache
from pathlib import Path
from typing import Any

from mirage.lab.training.artefact import model_card
from mirage.lab.training.dataset import Rows
from mirage.lab.training.trees import tree_export, tree_training
from mirage.lab.training.trees.ensemble import Ensemble
from mirage.lab.training.trees.tree_families import Boosted, Forest
from mirage.lab.training.trees.tree_training import TreePolicy
from mirage.policies.models.model_policy import ModelPolicy
from tests.support.training.queue_tables import training_table

Kind = Forest | Boosted | Ensemble
_FOREST, _BOOSTED = Forest(trees=15), Boosted(trees=40, rate=0.15)
FAMILIES: tuple[Kind, ...] = (_FOREST, _BOOSTED, Ensemble(_FOREST, _BOOSTED))


@cache
def fitted(family: Kind) -> TreePolicy:
    return tree_training.fit_policy(Rows.from_tables([training_table()]), family)


@cache
def graph(family: Kind) -> bytes:
    policy = fitted(family)
    return tree_export.export_trees(policy.wait, training_table().observations.shape[2])


@cache
def served(family: Kind) -> ModelPolicy:
    """Build the policy that a service makes of what was fitted."""
    rows = Rows.from_tables([training_table()])
    return model_card.serve_trees(fitted(family), family, rows, [training_table()])


def save(folder: Path, family: Kind = FAMILIES[1], **card_fields: Any) -> Path:
    """Save an artefact. `card_fields` replace fields of its card."""
    rows = Rows.from_tables([training_table()])
    card = model_card.build_tree_card(fitted(family), family, rows, [training_table()])
    model_card.save_artefact(folder, card | card_fields, graph(family))
    return folder
