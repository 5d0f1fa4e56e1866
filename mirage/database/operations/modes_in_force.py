"""The modes in force: of the cluster, of a partition, and of one chain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.database.operations import admin_overrides, clusters
from mirage.database.operations.admin_overrides import PulledSwitch
from mirage.database.operations.demotions import Demotion, find_demotion, read_demotions
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import Chain, Link, LinkState
from mirage.domain.decision import Mode

_MOST_NAMES = 3
"""Partitions of one mode that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModesInForce:
    """The modes of a cluster, and what keeps them from act."""

    by_partition: Mapping[str, Mode]
    """The cluster's mode under "", and the mode of each partition that has its own."""
    pulled: Sequence[PulledSwitch] = ()
    """The ways by which the kill switch is pulled; empty if it is not."""
    demotions: Sequence[Demotion] = ()
    """The owners' chains that are in shadow where the mode is act."""
    names_hidden: bool = False
    """Whether the reader may not know the names of partitions."""

    @property
    def cluster_mode(self) -> Mode:
        return self._limit_mode(self.by_partition[""])

    @property
    def own_modes(self) -> dict[str, Mode]:
        """Return the modes of partitions that have their own and may be named."""
        if self.names_hidden:
            return {}
        return {name: self._limit_mode(m) for name, m in self.by_partition.items() if name}

    @property
    def is_mixed(self) -> bool:
        """Return whether some partition has another mode than the cluster."""
        return len({self._limit_mode(mode) for mode in self.by_partition.values()}) > 1

    def hide_names(self) -> "ModesInForce":
        return replace(self, names_hidden=True)

    def get_chain_mode(self, chain: Chain, partition: str, nodes: int) -> Mode:
        """Return the mode that holds for a chain whose next link is in `partition`.

        Whoever decides about a chain, or shows its mode, asks here.
        """
        demotion = self.find_chain_demotion(chain, partition, nodes)
        return self._get_partition_mode(partition) if demotion is None else Mode.SHADOW

    def find_chain_demotion(self, chain: Chain, partition: str, nodes: int) -> Demotion | None:
        """Return the demotion that keeps such a link of the chain in shadow; None: nothing does, or
        the mode there is not act."""
        if self._get_partition_mode(partition) is not Mode.ACT:
            return None
        return find_demotion(self.demotions, chain.uid, partition, nodes)

    def get_shown_mode(self, chain: Chain, links: Sequence[Link]) -> Mode:
        """Return the mode that holds for the chain's next move: that of its waiting link, else of
        its newest."""
        waiting = [link for link in links if link.state is LinkState.PENDING]
        nearest = waiting[:1] or links[-1:]
        if not nearest:
            return self.cluster_mode
        return self.get_chain_mode(chain, nearest[0].partition, nearest[0].nodes)

    def describe(self) -> str:
        """Return the modes as words: shadow; act in gpu, else shadow."""
        cluster_mode = self.cluster_mode
        names_by_mode: dict[Mode, list[str]] = {}
        for name, mode in sorted(self.by_partition.items()):
            if name and self._limit_mode(mode) is not cluster_mode:
                names_by_mode.setdefault(self._limit_mode(mode), []).append(name)
        exceptions = [
            f"{mode} in {self._name_partitions(names_by_mode[mode])}"
            for mode in reversed(list(Mode))
            if mode in names_by_mode
        ]
        return (
            ", ".join([*exceptions, f"else {cluster_mode}"]) if exceptions else cluster_mode.value
        )

    def _get_partition_mode(self, partition: str) -> Mode:
        return self._limit_mode(clusters.resolve_mode(self.by_partition, partition))

    def _limit_mode(self, mode: Mode) -> Mode:
        return Mode.SHADOW if self.pulled and mode is Mode.ACT else mode

    def _name_partitions(self, names: Sequence[str]) -> str:
        if self.names_hidden or len(names) > _MOST_NAMES:
            return "1 partition" if len(names) == 1 else f"{len(names)} partitions"
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def read_modes(tx: Transaction, cluster_id: int) -> ModesInForce:
    return ModesInForce(
        by_partition=clusters.list_modes(tx, cluster_id),
        pulled=admin_overrides.list_pulled_switches(tx, cluster_id),
        demotions=read_demotions(tx, cluster_id),
    )
