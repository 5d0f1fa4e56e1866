"""The networks of agents: an encoder of what is known, and heads for what it is worth to free.

One network serves all overlap prices: the price is an input.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mirage.domain.arrays import Floats, Observations
from mirage.features.observation import spec

PRICES = (0.1, 2.0)
"""Overlap prices that are learned from, drawn evenly in their logarithms."""

_MIDDLE = (log(PRICES[0]) + log(PRICES[1])) / 2
_SPREAD = (log(PRICES[1]) - log(PRICES[0])) / 12**0.5
_FAR = -1e4
"""An attention score that is none."""


@dataclass(frozen=True, slots=True)
class NetInput:
    """The inputs of a network at each of N instants."""

    now: Tensor
    """[N, F], on the scale of `features.observation.spec`; what the twin foretold, if anything,
    comes last."""
    past: Tensor
    """[N, K, F]: means of parts of the run so far, the newest last; K may be 0. Nothing of the twin
    is in it: its F is less by that."""
    known: Tensor
    """[N, K]: 1 where the run had begun, else 0."""

    def __len__(self) -> int:
        return len(self.now)

    def select_rows(self, which: Tensor) -> "NetInput":
        return NetInput(self.now[which], self.past[which], self.known[which])


@dataclass(frozen=True, slots=True)
class NetOutput:
    """The outputs of a network for N instants, [N] each.

    Values are of cost, negative, in the network's unit.
    """

    hold: Tensor
    free: Tensor
    preference: Tensor
    """Log-odds that the policy frees."""
    late: Tensor
    """Log-odds that the successor, freed now, would be late."""
    wait: Tensor
    """log(1 + hours) that it would wait."""


class InputScaler(nn.Module):
    """Cut to what was learned from, and standardised by it; as trees, it does not extrapolate."""

    low: Tensor
    high: Tensor
    mean: Tensor
    deviation: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        for name, value in (("low", -1e9), ("high", 1e9), ("mean", 0.0), ("deviation", 1.0)):
            self.register_buffer(name, torch.full((features,), value))

    def fit_range(self, observations: Observations, cut: float) -> None:
        """Fit the range from [R, F]; `cut` is the share of rows beyond each of the two ends."""
        rows = torch.from_numpy(observations)
        ends = torch.quantile(_thin_rows(rows), torch.tensor([cut, 1.0 - cut]), dim=0)
        inside = rows.clamp(ends[0], ends[1])
        self.low.copy_(ends[0])
        self.high.copy_(ends[1])
        self.mean.copy_(inside.mean(0))
        # What does not vary tells nothing.
        varies = inside.std(0) > _LEAST_DEVIATION
        self.deviation.copy_(torch.where(varies, inside.std(0), torch.inf))

    def extend_range(self, low: Tensor, high: Tensor) -> None:
        """Cut no nearer than this, either."""
        self.low.copy_(torch.minimum(self.low, low))
        self.high.copy_(torch.maximum(self.high, high))

    def forward(self, observations: Tensor) -> Tensor:
        """Scale the observations; the scale's first numbers are used if they hold fewer."""
        f = observations.shape[-1]
        cut = torch.minimum(torch.maximum(observations, self.low[:f]), self.high[:f])
        return (cut - self.mean[:f]) / self.deviation[:f]


_LEAST_DEVIATION = 1e-4
_ENOUGH = 100_000
"""Numbers of which quantiles are taken: torch sorts at most 16 million."""


def _thin_rows(rows: Tensor) -> Tensor:
    return rows[:: max(1, len(rows) // _ENOUGH)]


def build_layers(inputs: int, width: int, dropout: float) -> nn.Sequential:
    """Two of them, from `inputs` numbers to `width`."""
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Dropout(dropout),
    )


class Mlp(nn.Module):
    """The present observation through two layers."""

    def __init__(self, features: int, *, width: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.layers = build_layers(features, width, dropout)

    def forward(self, sight: NetInput) -> tuple[Tensor, Tensor]:
        """[N, width], and no imbalance."""
        return self.layers(sight.now), sight.now.new_zeros(())


class Moe(nn.Module):
    """Experts, of which a gate asks the likeliest; all are trained together.

    The imbalance is Switch's load-balancing loss (Fedus et al. 2021): experts x sum over experts
    of the share of rows that ask it x its mean weight; 1 where all are asked alike.
    """

    def __init__(
        self, features: int, *, width: int, dropout: float, experts: int, asked: int
    ) -> None:
        super().__init__()
        self.width = width
        self.asked = asked
        self.gate = nn.Linear(features, experts)
        self.experts = nn.ModuleList(build_layers(features, width, dropout) for _ in range(experts))

    def forward(self, sight: NetInput) -> tuple[Tensor, Tensor]:
        weight = functional.softmax(self.gate(sight.now), dim=1)
        least = torch.topk(weight, self.asked, dim=1).values[:, -1:]
        asks = (weight >= least).to(weight.dtype)
        share = asks * weight
        share = share / share.sum(1, keepdim=True)
        found = torch.stack([expert(sight.now) for expert in self.experts], dim=2)
        imbalance = len(self.experts) / self.asked * (asks.mean(0) * weight.mean(0)).sum()
        return (found * share[:, None, :]).sum(2), imbalance


class Transformer(nn.Module):
    """Attention over the parts of the run so far, beside the present observation."""

    def __init__(
        self, features: int, *, width: int, dropout: float, parts: int, heads: int, depth: int
    ) -> None:
        super().__init__()
        self.width = 2 * width
        self.embed = nn.Linear(features, width)
        self.place = nn.Parameter(torch.zeros(parts + 1, width))
        nn.init.normal_(self.place, std=0.02)
        self.blocks = nn.ModuleList(_Block(width, heads, dropout) for _ in range(depth))
        self.layers = build_layers(features, width, dropout)

    def forward(self, sight: NetInput) -> tuple[Tensor, Tensor]:
        """[N, 2 width]; the last place is the present."""
        every = torch.cat([sight.past, sight.now[:, None]], dim=1)
        seen = torch.cat([sight.known, torch.ones_like(sight.known[:, :1])], dim=1)
        tokens = self.embed(every) + self.place
        bias = (1.0 - seen)[:, None, None, :] * _FAR
        for block in self.blocks:
            tokens = block(tokens, bias)
        both = torch.cat([tokens[:, -1], self.layers(sight.now)], dim=1)
        return both, sight.now.new_zeros(())


class _Block(nn.Module):
    """Attention and a layer, each normalised before and added after."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.layer = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * width, width)
        )

    def forward(self, tokens: Tensor, bias: Tensor) -> Tensor:
        n, k, width = tokens.shape
        mixed = self.mixed(self.before(tokens)).reshape(n, k, 3, self.heads, width // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4).unbind(0)
        score = query @ key.transpose(2, 3) / (width // self.heads) ** 0.5 + bias
        read = functional.softmax(score, dim=3) @ value
        tokens = tokens + self.out(read.transpose(1, 2).reshape(n, k, width))
        found: Tensor = tokens + self.layer(self.between(tokens))
        return found


ENCODERS: Mapping[str, Callable[..., Mlp | Moe | Transformer]] = {
    "mlp": Mlp,
    "moe": Moe,
    "transformer": Transformer,
}


class Net(nn.Module):
    """Encoder and heads.

    To free costs I + price x O, whatever the price: the network gives I and O. What waiting is
    worth stands beside it as a difference. The policy's preference starts at the newsvendor's
    rule: free where the odds of being late are above the price. Those begin as the twin's, where it
    was asked: they stand beside what was encoded, and no row is blind to them.
    """

    unit_h: Tensor
    """Of its values, hours; a number."""

    def __init__(self, encoder: str, features: int, *, blind: float, **shape: Any) -> None:
        """`blind`: share of the numbers that it does not see, in training; a row's own."""
        super().__init__()
        self.scaled = InputScaler(features)
        self.register_buffer("unit_h", torch.tensor(1.0))
        self.blind = blind
        self.encoder = ENCODERS[encoder](features, **shape)
        self._twin = features > len(spec.NAMES)
        width = self.encoder.width + self._twin
        self.told = nn.Linear(width, 4)
        """I, O, late, wait."""
        if self._twin:
            with torch.no_grad():
                self.told.weight[:, -1] = torch.tensor([0.0, 0.0, 1.0, 0.0])
        last = nn.Linear(32, 2)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.worth = nn.Sequential(nn.Linear(width + 2, 32), nn.Tanh(), last)

    def fit_scale(self, observations: Observations, outcome_h: Floats, cut: float) -> None:
        """To rows [R, F] and outcomes that are to be learned from (`InputScaler.fit_range`)."""
        self.scaled.fit_range(observations, cut)
        self.unit_h.fill_(max(float(abs(outcome_h).mean()) / _OF_MEAN, _LEAST_UNIT_H))

    def forward(self, sight: NetInput, price: Tensor) -> NetOutput:
        """`price` [N]."""
        return self.apply_heads(self.encode(sight)[0], price)

    def encode(self, sight: NetInput) -> tuple[Tensor, Tensor]:
        """[N, width], for whatever price; and how unevenly experts were asked, 0 where none are."""
        hidden, imbalance = self.encoder(self._prepare_input(sight))
        if self._twin:
            # The last of `twin_features.NAMES`, between 0 and 1.
            late = sight.now[:, -1:]
            hidden = torch.cat([hidden, torch.log(late / (1.0 - late))], dim=1)
        return hidden, imbalance

    def apply_heads(self, hidden: Tensor, price: Tensor) -> NetOutput:
        cost, overlap, late, wait = self.told(hidden).unbind(1)
        log_price = torch.log(price)
        odds = late - log_price
        terms = torch.stack([(log_price - _MIDDLE) / _SPREAD, odds], dim=1)
        worth, bent = self.worth(torch.cat([hidden, terms], dim=1)).unbind(1)
        free = -(functional.softplus(cost) + price * functional.softplus(overlap))
        gained = worth + torch.tanh(odds / 2) / self.unit_h
        return NetOutput(free - gained, free, _SHARP * (odds + bent), late, wait)

    def _prepare_input(self, sight: NetInput) -> NetInput:
        now, past = self.scaled(sight.now), self.scaled(sight.past)
        # What the twin foretold in the past is not known: 0 is the mean.
        past = functional.pad(past, (0, now.shape[-1] - past.shape[-1]))
        if self.training and self.blind:
            kept = torch.rand_like(now) >= self.blind
            kept = kept / (1.0 - self.blind)
            now, past = now * kept, past * kept[:, None]
        return NetInput(now, past, sight.known)


_OF_MEAN, _LEAST_UNIT_H = 4.0, 0.1
"""Outcomes are mostly those of freeing far too early: near the right instant they are smaller."""
_SHARP = 2.0
"""Of the preference: an hour's chance of freeing adds up over the hours of a run."""
