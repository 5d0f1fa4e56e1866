"""The networks of agents: an encoder of the input, and heads for the values of holding and freeing.

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
from mirage.observation import spec

PRICES = (0.1, 2.0)
"""The range of overlap prices in training, drawn evenly in their logarithms."""

_MIDDLE = (log(PRICES[0]) + log(PRICES[1])) / 2
_SPREAD = (log(PRICES[1]) - log(PRICES[0])) / 12**0.5
_FAR = -1e4
"""An attention score so low that the place gets no weight."""


@dataclass(frozen=True, slots=True)
class NetInput:
    """The inputs of a network at each of N instants."""

    now: Tensor
    """[N, F], on the scale of `observation.spec`. The twin's forecast, if there is one, comes
    last."""
    past: Tensor
    """[N, K, F]: means over parts of the run so far, the newest last; K may be 0. F is smaller than
    in `now` by the twin's numbers, since the past has none."""
    mask: Tensor
    """[N, K]: 1 if the run had begun by then, else 0."""

    def __len__(self) -> int:
        return len(self.now)

    def select_rows(self, rows: Tensor) -> "NetInput":
        return NetInput(self.now[rows], self.past[rows], self.mask[rows])


@dataclass(frozen=True, slots=True)
class NetOutput:
    """The outputs of a network for N instants, [N] each.

    `hold` and `free` are values: negative costs in the network's unit.
    """

    hold: Tensor
    free: Tensor
    preference: Tensor
    """Log-odds that the policy frees."""
    late: Tensor
    """Log-odds that the successor, freed now, starts after its predecessor's end."""
    wait: Tensor
    """log(1 + hours) that the successor would wait."""


class InputScaler(nn.Module):
    """Clips inputs to the range of the training data and standardises them. Like trees, it does not
    extrapolate."""

    low: Tensor
    high: Tensor
    mean: Tensor
    deviation: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        for name, value in (("low", -1e9), ("high", 1e9), ("mean", 0.0), ("deviation", 1.0)):
            self.register_buffer(name, torch.full((features,), value))

    def fit_range(self, observations: Observations, cut: float) -> None:
        """Fit the range to observations [R, F]. `cut` is the share of rows beyond each of the two
        ends."""
        rows = torch.from_numpy(observations)
        ends = torch.quantile(_thin_rows(rows), torch.tensor([cut, 1.0 - cut]), dim=0)
        clipped = rows.clamp(ends[0], ends[1])
        self.low.copy_(ends[0])
        self.high.copy_(ends[1])
        self.mean.copy_(clipped.mean(0))
        # A constant input carries no information, so it is scaled to 0.
        varies = clipped.std(0) > _LEAST_DEVIATION
        self.deviation.copy_(torch.where(varies, clipped.std(0), torch.inf))

    def extend_range(self, low: Tensor, high: Tensor) -> None:
        """Widen the range so that it contains [low, high], [F] each."""
        self.low.copy_(torch.minimum(self.low, low))
        self.high.copy_(torch.maximum(self.high, high))

    def forward(self, observations: Tensor) -> Tensor:
        """Scale observations [..., f]. If f is below F, the scale's first f numbers are used."""
        f = observations.shape[-1]
        clipped = torch.minimum(torch.maximum(observations, self.low[:f]), self.high[:f])
        return (clipped - self.mean[:f]) / self.deviation[:f]


_LEAST_DEVIATION = 1e-4
_ENOUGH = 100_000
"""The most rows from which quantiles are computed; torch sorts at most 16 million numbers."""


def _thin_rows(rows: Tensor) -> Tensor:
    return rows[:: max(1, len(rows) // _ENOUGH)]


def build_layers(inputs: int, width: int, dropout: float) -> nn.Sequential:
    """Build two layers with ReLU and dropout, from `inputs` numbers to `width`."""
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Dropout(dropout),
    )


class Mlp(nn.Module):
    """Encodes the present observation with two layers."""

    def __init__(self, features: int, *, width: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.layers = build_layers(features, width, dropout)

    def forward(self, net_input: NetInput) -> tuple[Tensor, Tensor]:
        """Return the encoding [N, width] and an imbalance of 0."""
        return self.layers(net_input.now), net_input.now.new_zeros(())


class Moe(nn.Module):
    """A mixture of experts. A gate asks the likeliest experts; all are trained together.

    The imbalance is the load-balancing loss of the Switch Transformer (Fedus et al. 2021): experts
    x the sum over experts of (share of rows that ask the expert) x (its mean weight). It is 1 if
    all experts are asked equally.
    """

    def __init__(
        self, features: int, *, width: int, dropout: float, experts: int, asked: int
    ) -> None:
        super().__init__()
        self.width = width
        self.asked = asked
        self.gate = nn.Linear(features, experts)
        self.experts = nn.ModuleList(build_layers(features, width, dropout) for _ in range(experts))

    def forward(self, net_input: NetInput) -> tuple[Tensor, Tensor]:
        weight = functional.softmax(self.gate(net_input.now), dim=1)
        threshold = torch.topk(weight, self.asked, dim=1).values[:, -1:]
        is_asked = (weight >= threshold).to(weight.dtype)
        share = is_asked * weight
        share = share / share.sum(1, keepdim=True)
        outputs = torch.stack([expert(net_input.now) for expert in self.experts], dim=2)
        imbalance = len(self.experts) / self.asked * (is_asked.mean(0) * weight.mean(0)).sum()
        return (outputs * share[:, None, :]).sum(2), imbalance


class Transformer(nn.Module):
    """Encodes the run so far with attention over its parts, and the present observation with two
    layers."""

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

    def forward(self, net_input: NetInput) -> tuple[Tensor, Tensor]:
        """Return the encoding [N, 2 width] and an imbalance of 0. The last place of attention is
        the present."""
        sequence = torch.cat([net_input.past, net_input.now[:, None]], dim=1)
        mask = torch.cat([net_input.mask, torch.ones_like(net_input.mask[:, :1])], dim=1)
        tokens = self.embed(sequence) + self.place
        bias = (1.0 - mask)[:, None, None, :] * _FAR
        for block in self.blocks:
            tokens = block(tokens, bias)
        encoding = torch.cat([tokens[:, -1], self.layers(net_input.now)], dim=1)
        return encoding, net_input.now.new_zeros(())


class _Block(nn.Module):
    """One block of attention and a layer, each normalised before and added to its input."""

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
        attended = functional.softmax(score, dim=3) @ value
        tokens = tokens + self.out(attended.transpose(1, 2).reshape(n, k, width))
        output: Tensor = tokens + self.layer(self.between(tokens))
        return output


ENCODERS: Mapping[str, Callable[..., Mlp | Moe | Transformer]] = {
    "mlp": Mlp,
    "moe": Moe,
    "transformer": Transformer,
}


# The names of a module's parts are the keys of a saved agent's weights (`Net.told` gives
# "told.weight"). Renaming one makes every agent that sites have trained unreadable for `--init`.
class Net(nn.Module):
    """An encoder and its heads.

    Freeing costs I + price x O, at any price: the network predicts I (interruption) and O
    (overlap). The value of holding is predicted as a difference to the value of freeing. The
    policy's preference starts at the newsvendor's rule: free if the odds of being late exceed the
    price. With a twin, these odds start as the twin's odds. The twin's odds bypass the encoder, and
    training never hides them.
    """

    unit_h: Tensor
    """The unit of the network's values: a scalar, hours."""

    def __init__(self, encoder: str, features: int, *, blind: float, **shape: Any) -> None:
        """`blind`: the share of the input numbers that training hides, drawn anew for each row."""
        super().__init__()
        self.scaled = InputScaler(features)
        self.register_buffer("unit_h", torch.tensor(1.0))
        self.blind = blind
        self.encoder = ENCODERS[encoder](features, **shape)
        self._twin = features > len(spec.FEATURE_NAMES)
        width = self.encoder.width + self._twin
        self.told = nn.Linear(width, 4)
        """The heads: I, O, late, wait."""
        if self._twin:
            with torch.no_grad():
                self.told.weight[:, -1] = torch.tensor([0.0, 0.0, 1.0, 0.0])
        last = nn.Linear(32, 2)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.worth = nn.Sequential(nn.Linear(width + 2, 32), nn.Tanh(), last)

    def fit_scale(self, observations: Observations, outcome_h: Floats, cut: float) -> None:
        """Fit the input range and the unit to rows [R, F] and outcomes in hours
        (`InputScaler.fit_range`)."""
        self.scaled.fit_range(observations, cut)
        self.unit_h.fill_(max(float(abs(outcome_h).mean()) / _OF_MEAN, _LEAST_UNIT_H))

    def forward(self, net_input: NetInput, price: Tensor) -> NetOutput:
        """Return the outputs for N instants at the prices `price` [N]."""
        return self.apply_heads(self.encode(net_input)[0], price)

    def encode(self, net_input: NetInput) -> tuple[Tensor, Tensor]:
        """Encode N instants for all prices.

        Returns the encoding [N, width], and the imbalance among experts (0 without experts).
        """
        hidden, imbalance = self.encoder(self._prepare_input(net_input))
        if self._twin:
            # P(late), the last of `twin_features.FEATURE_NAMES`; it is never 0 or 1.
            late = net_input.now[:, -1:]
            hidden = torch.cat([hidden, torch.log(late / (1.0 - late))], dim=1)
        return hidden, imbalance

    def apply_heads(self, hidden: Tensor, price: Tensor) -> NetOutput:
        cost, overlap, late, wait = self.told(hidden).unbind(1)
        log_price = torch.log(price)
        odds = late - log_price
        terms = torch.stack([(log_price - _MIDDLE) / _SPREAD, odds], dim=1)
        learned_advantage, preference_shift = self.worth(torch.cat([hidden, terms], dim=1)).unbind(
            1
        )
        free = -(functional.softplus(cost) + price * functional.softplus(overlap))
        advantage = learned_advantage + torch.tanh(odds / 2) / self.unit_h
        return NetOutput(free - advantage, free, _SHARP * (odds + preference_shift), late, wait)

    def _prepare_input(self, net_input: NetInput) -> NetInput:
        now, past = self.scaled(net_input.now), self.scaled(net_input.past)
        # Past forecasts of the twin are not kept. Their place gets 0, the mean of a scaled input.
        past = functional.pad(past, (0, now.shape[-1] - past.shape[-1]))
        if self.training and self.blind:
            keep_mask = torch.rand_like(now) >= self.blind
            keep_mask = keep_mask / (1.0 - self.blind)
            now, past = now * keep_mask, past * keep_mask[:, None]
        return NetInput(now, past, net_input.mask)


_OF_MEAN, _LEAST_UNIT_H = 4.0, 0.1
"""The unit is a quarter of the mean outcome, and at least this many hours. Most outcomes come from
freeing far too early; near the best instant they are smaller."""
_SHARP = 2.0
"""The steepness of the preference: small chances of freeing add up over the hours of a run."""
