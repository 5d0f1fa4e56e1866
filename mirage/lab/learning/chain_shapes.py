"""Chooses the shapes of chain that a site learns for: its own chains', else its long jobs'."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mirage.database.chains.chain_shapes import OwnedShape
from mirage.domain.timelimit import format_time_limit
from mirage.errors import InputError
from mirage.judging.table.pair_settings import PairSettings
from mirage.lab.episodes.generation.representative_pairs import (
    find_representative_pair,
    list_busy_partitions,
)
from mirage.simulator.types import Params, SimJob

MOST_SHAPES = 3
FEWEST_LINKS = 3
"""A shape that chains used for fewer links does not stand for the site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainShape:
    """The request of each job of a chain."""

    partition: str
    nodes: int
    time_limit_s: int
    why: str = ""

    @property
    def name(self) -> str:
        nodes = f"{self.nodes} node" + ("s" if self.nodes > 1 else "")
        return f"{self.partition}: {nodes}, {format_time_limit(self.time_limit_s)}"

    @property
    def folder(self) -> str:
        """The name of the folder of its tables. A partition's name may hold anything."""
        plain = re.sub(r"[^A-Za-z0-9_-]", lambda match: f"%{ord(match[0]):x}", self.partition)
        return f"{plain}-{self.nodes}n-{self.time_limit_s}s"

    def build_settings(self, since: int, until: int, every_s: int) -> PairSettings:
        return PairSettings(
            nodes=self.nodes,
            time_limit_s=self.time_limit_s,
            every_s=every_s,
            since=since,
            until=until,
            partition=self.partition,
        )

    def explain_misfit(self, params: Params) -> str | None:
        """Explain why the cluster file has no place for such jobs; None if it has."""
        try:
            self.build_settings(0, 1, 1).check_feasible(params)
        except InputError as error:
            return str(error)
        return None

    def build_document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "partition": self.partition,
            "nodes": self.nodes,
            "time_limit_s": self.time_limit_s,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class ChosenShapes:
    """The shapes that are learned for, and sentences about those that are not."""

    shapes: tuple[ChainShape, ...]
    notes: tuple[str, ...] = ()


def parse_shapes(document: Mapping[str, Any], params: Params) -> ChosenShapes | None:
    """Return the shapes of an earlier run; None if they no longer fit the cluster file, or cannot
    be read."""
    try:
        shapes = tuple(
            ChainShape(**{k: v for k, v in shape.items() if k != "name"})
            for shape in document["shapes"]
        )
        notes = tuple(map(str, document["notes"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    fits = all(shape.explain_misfit(params) is None for shape in shapes)
    return ChosenShapes(shapes, notes) if shapes and fits else None


def choose_shapes(
    owned: Sequence[OwnedShape], jobs: Sequence[SimJob], params: Params
) -> ChosenShapes:
    """Choose up to MOST_SHAPES shapes of one time limit, since a model is of one time limit.

    The shapes of the site's own chains come first; every owner has one vote, shared by how many
    links the owner's chains had of each shape. Without chains the most used long jobs of the
    busiest partitions say what chains would ask for. Raises InputError if there is no shape.
    """
    ranked, notes = _rank_owned(owned, params)
    if not ranked:
        ranked = list(_list_long_jobs(jobs, params))
    if not ranked:
        raise InputError(
            "the cluster file fits no chain and no long job of the history: its partitions are "
            f"{', '.join(place.name for place in params.partitions)}, with {params.nodes} nodes "
            "together. Write it anew with `mirage cluster import`"
        )
    limit_s = ranked[0].time_limit_s
    alike = [shape for shape in ranked if shape.time_limit_s == limit_s]
    notes += [
        f"{shape.name} is not learned for: a model is of one time limit."
        for shape in ranked
        if shape.time_limit_s != limit_s
    ]
    return ChosenShapes(tuple(alike[:MOST_SHAPES]), tuple(notes))


def _rank_owned(owned: Sequence[OwnedShape], params: Params) -> tuple[list[ChainShape], list[str]]:
    """Rank the shapes of the site's chains by votes, those of the best time limit first."""
    links_of = Counter[str]()
    for row in owned:
        links_of[row.user] += row.links
    votes, owners, links = Counter[ChainShape](), Counter[ChainShape](), Counter[ChainShape]()
    for row in owned:
        shape = ChainShape(partition=row.partition, nodes=row.nodes, time_limit_s=row.time_limit_s)
        votes[shape] += row.links / links_of[row.user]  # type: ignore[assignment]  # shares of a vote
        owners[shape] += 1
        links[shape] += row.links
    common = [shape for shape in votes if links[shape] >= FEWEST_LINKS]
    misfits = {shape: shape.explain_misfit(params) for shape in common}
    fit = [shape for shape in common if misfits[shape] is None]
    by_limit = Counter[int]()
    for shape in fit:
        by_limit[shape.time_limit_s] += votes[shape]
    fit.sort(key=lambda s: (-by_limit[s.time_limit_s], s.time_limit_s, -votes[s], s.nodes, s.name))
    ranked = [
        ChainShape(
            partition=shape.partition,
            nodes=shape.nodes,
            time_limit_s=shape.time_limit_s,
            why=f"chains of {owners[shape]} owner(s) ask for it, {links[shape]} links",
        )
        for shape in fit
    ]
    notes = [f"{shape.name} is not learned for: {why}." for shape, why in misfits.items() if why]
    return ranked, notes


def _list_long_jobs(jobs: Sequence[SimJob], params: Params) -> Iterable[ChainShape]:
    """List the most used requests of long jobs, of the busiest partition first."""
    for name in list_busy_partitions(jobs, params):
        pair = find_representative_pair(jobs, params, name)
        for nodes in () if pair is None else pair.nodes:
            assert pair is not None  # noqa: S101 - it has widths
            shape = ChainShape(
                partition=name,
                nodes=nodes,
                time_limit_s=pair.time_limit_s,
                why=f"the partition's most used long jobs: {pair.share:.0%} of its node-hours",
            )
            if shape.explain_misfit(params) is None:
                yield shape
