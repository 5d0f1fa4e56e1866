"""A seeded synthetic workload with the statistics of a GPU partition: TACC Lonestar6 gpu-a100.

The tables below are from Lonestar6 (the public log of 7 Nov 2022 to 26 Feb 2023, CC BY 4.0, Zhao
Zhang et al. / TACC; rounded): arrivals by hour and weekday, node counts, time limits, run time over
limit by class of limit, jobs cancelled while pending, users' shares, submission bursts.

A preset sets the offered load (node-seconds of work over the machine's node-seconds) and how uneven
the days are. Each week has exactly this load, because sessions are drawn until the week's work is
full. No user reacts to the queue, so close to a load of 1 the queue grows without end. `heavy` gets
its backlog from two weeks at the machine's capacity, and then stays a little below the capacity.
Leave the first two weeks out of what you measure.
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from mirage.domain.arrays import Floats, Ints
from mirage.domain.time_units import DAY_S, HOUR_S, WEEK_S
from mirage.errors import InputError
from mirage.simulator.types import SimJob

EPOCH = 1767571200
"""Monday 2026-01-05 00:00 UTC: where a workload begins unless told otherwise."""

_MORNING = (29, 20, 19, 14, 12, 14, 14, 24, 38, 50, 62, 79)
HOUR_SHARE = (*_MORNING, 62, 69, 74, 69, 70, 48, 43, 44, 30, 45, 36, 37)
"""Submissions by hour of the day, local time, per mille."""
WEEKDAY_SHARE = (164, 184, 169, 145, 123, 92, 123)
"""Submissions by weekday from Monday, per mille."""
NODES_SHARE = {1: 7985, 2: 676, 3: 331, 4: 792, 6: 28, 8: 52, 12: 50, 15: 20, 16: 57, 32: 8, 64: 1}
LIMIT_SHARE_MIN = {3: 92, 5: 125, 10: 159, 15: 90, 20: 90, 30: 980, 60: 684, 90: 417, 120: 863}
LIMIT_SHARE_MIN |= {140: 100, 180: 289, 210: 95, 240: 278, 260: 80, 300: 254, 360: 177, 450: 95}
LIMIT_SHARE_MIN |= {480: 207, 600: 266, 720: 404, 1200: 241, 1440: 980, 1800: 56, 2160: 152}
LIMIT_SHARE_MIN |= {2880: 2665}
"""Jobs by requested limit in minutes; rare odd values are folded into their round neighbours."""
CANCELLED_SHARE = 0.129
"""Jobs whose user cancels them while they wait."""
USERS = 300
SHARE_OF_FIRST_USERS = {1: 0.043, 5: 0.193, 10: 0.315, 20: 0.462, 37: 0.61, 74: 0.803, 184: 0.98}
"""Share of jobs of the n most active users."""

_RATIO_AT = (0.0, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75)
_RATIOS: dict[int, tuple[tuple[float, ...], float]] = {
    15: ((0.001, 0.007, 0.033, 0.1, 0.187, 0.261, 0.469), 0.181),
    30: ((0.001, 0.004, 0.047, 0.183, 0.341, 0.56, 0.9), 0.283),
    60: ((0.001, 0.0025, 0.007, 0.032, 0.131, 0.319, 0.9), 0.266),
    130: ((1e-4, 4e-4, 0.0026, 0.015, 0.057, 0.2, 0.663), 0.21),
    400: ((1e-4, 0.0016, 0.016, 0.14, 0.2, 0.317, 0.651), 0.147),
    730: ((1e-4, 4e-4, 0.0027, 0.014, 0.048, 0.144, 0.476), 0.157),
    1441: ((1e-5, 1e-4, 6e-4, 0.0046, 0.026, 0.09, 0.404), 0.08),
    2500: ((1e-5, 4e-4, 0.022, 0.2, 0.26, 0.387, 0.717), 0.088),
    2880: ((1e-5, 1e-4, 0.0022, 0.03, 0.133, 0.374, 0.916), 0.225),
}
"""By upper bound of the limit, minutes: run time over limit at _RATIO_AT, and the share of hits."""

_WIDE_LIMIT_S = {12: 86400, 32: 3600}
"""The longest time limit of jobs with at least so many nodes."""

_PATIENCE_AT = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_PATIENCE_S = (5.0, 16.0, 54.0, 257.0, 3075.0, 19630.0, 172800.0)
_BURST_AT = (0.0, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
_BURST_JOBS = (1.0, 1.0, 2.0, 3.0, 5.0, 13.0, 60.0)
"""Jobs submitted in one go, by quantile: a third of all come in bursts of five or more."""
_GAP_S = 20.0
"""Mean gap inside a burst."""

_LARGEST_BURST = 0.35
"""A burst is cut off after this many machine-days, as limits per user would do at a site."""
_LOYALTY = 0.6
"""Correlation of a user's sessions in limit and in share of the limit used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Offered load and unevenness."""

    load: float
    build_up: float
    """Load of the first `build_up_weeks`."""
    build_up_weeks: int = 2
    day_sigma: float
    """Standard deviation of the logarithm of a day's share of its week's work."""


PRESETS = {
    "light": Preset(load=0.66, build_up=0.66, day_sigma=0.25),
    "medium": Preset(load=0.84, build_up=0.84, day_sigma=0.25),
    "heavy": Preset(load=0.93, build_up=1.0, day_sigma=0.25),
}


def generate_workload(
    preset: str, *, nodes: int = 76, days: int = 60, seed: int = 0
) -> list[SimJob]:
    """Generate the jobs submitted within `days` days from EPOCH to a machine of `nodes`, by
    submission. The same arguments give the same jobs. Raises InputError for an unknown preset."""
    if preset not in PRESETS:
        raise InputError(f"no preset {preset!r}: use one of {', '.join(PRESETS)}")
    return _Generator(PRESETS[preset], nodes, seed).generate_jobs(days, EPOCH)


@dataclass(frozen=True, slots=True)
class _Session:
    """One burst of one user: jobs of one shape, with similar run times."""

    user: int
    nodes: int
    limit_s: int
    gaps: Ints
    run_s: Ints
    patience_s: Ints
    """Seconds that its user waits before cancelling it; 0: the user never cancels."""

    @property
    def work(self) -> float:
        return float(self.nodes * self.run_s[self.patience_s == 0].sum())


class _Generator:
    def __init__(self, preset: Preset, nodes: int, seed: int) -> None:
        self._preset = preset
        self._nodes = nodes
        self._rng = np.random.default_rng(seed)
        sizes = {n: w for n, w in NODES_SHARE.items() if n <= nodes}
        self._sizes = np.array(list(sizes))
        self._size_share = _normalize_shares(tuple(sizes.values()))
        self._limits = np.array(list(LIMIT_SHARE_MIN)) * 60
        self._limit_cdf = np.cumsum(_normalize_shares(tuple(LIMIT_SHARE_MIN.values())))
        self._user_share = compute_user_shares()
        # Users' tastes are evenly spread and then shuffled, so that with no seed all of the most
        # active users are alike by chance.
        grid = np.array([NormalDist().inv_cdf((i + 0.5) / USERS) for i in range(USERS)])
        self._limit_taste = self._rng.permutation(grid)
        self._ratio_taste = self._rng.permutation(grid)

    def generate_jobs(self, days: int, start: int) -> list[SimJob]:
        rows: list[tuple[int, int, _Session]] = []
        for week in range(-(-days // 7)):
            is_building_up = week < self._preset.build_up_weeks
            load = self._preset.build_up if is_building_up else self._preset.load
            rows += self._generate_week(start + week * WEEK_S, load * self._nodes * WEEK_S)
        end = start + days * DAY_S
        rows = sorted((r for r in rows if r[0] < end), key=lambda r: (r[0], r[2].user, r[1]))
        return [_build_job(i + 1, *row) for i, row in enumerate(rows)]

    def _generate_week(self, start: int, work: float) -> list[tuple[int, int, _Session]]:
        """Draw sessions until their work, in node-seconds, reaches `work`."""
        sigma = self._preset.day_sigma
        by_day = _normalize_shares(WEEKDAY_SHARE) * np.exp(self._rng.normal(0.0, sigma, 7))
        by_hour = (by_day[:, None] * _normalize_shares(HOUR_SHARE)[None, :]).ravel()
        by_hour /= by_hour.sum()
        rows: list[tuple[int, int, _Session]] = []
        while work > 0:
            session = self._draw_session()
            work -= session.work
            hour = int(self._rng.choice(by_hour.size, p=by_hour))
            submit = start + hour * HOUR_S + int(self._rng.integers(HOUR_S))
            rows += [(submit + int(gap), i, session) for i, gap in enumerate(session.gaps)]
        return rows

    def _draw_session(self) -> _Session:
        rng = self._rng
        user = int(rng.choice(USERS, p=self._user_share))
        count = int(np.interp(rng.random(), _BURST_AT, _BURST_JOBS))
        nodes = int(rng.choice(self._sizes, p=self._size_share))
        rank = NormalDist().cdf(self._draw_score(self._limit_taste[user]))
        place = min(int(np.searchsorted(self._limit_cdf, rank)), len(self._limits) - 1)
        limit_s = _bound_limit(nodes, int(self._limits[place]))
        score = self._draw_score(self._ratio_taste[user])
        scores = _LOYALTY * score + np.sqrt(1 - _LOYALTY**2) * rng.normal(size=count)
        ranks = np.array([NormalDist().cdf(x) for x in scores])
        run_s = np.maximum(1, compute_run_ratio(limit_s, ranks) * limit_s).astype(np.int64)
        patience_s = np.interp(rng.random(count), _PATIENCE_AT, _PATIENCE_S).astype(np.int64)
        patience_s[rng.random(count) >= CANCELLED_SHARE] = 0
        gaps = np.cumsum(rng.exponential(_GAP_S, count)).astype(np.int64)
        work = np.cumsum(nodes * run_s) - nodes * run_s
        fits = work < _LARGEST_BURST * self._nodes * DAY_S
        return _Session(user, nodes, limit_s, gaps[fits], run_s[fits], patience_s[fits])

    def _draw_score(self, taste: float) -> float:
        """Draw a session's standard normal score, correlated with its user's taste."""
        return _LOYALTY * taste + float(np.sqrt(1 - _LOYALTY**2) * self._rng.normal())


def compute_user_shares() -> Floats:
    """Return the share of submissions of each user, [USERS], most active first."""
    first = (0, *SHARE_OF_FIRST_USERS, USERS)
    share = (0.0, *SHARE_OF_FIRST_USERS.values(), 1.0)
    return np.asarray(np.diff(np.interp(np.arange(USERS + 1), first, share)))


def compute_run_ratio(limit_s: int, rank: Floats) -> Floats:
    """Return run time over limit, [n], at ranks in [0, 1] among the jobs of that limit; 1 for jobs
    that reach their limit."""
    ratio_row, hits = _RATIOS[min(m for m in _RATIOS if limit_s <= m * 60)]
    points = [(p, v) for p, v in zip(_RATIO_AT, ratio_row, strict=True) if p < 1 - hits - 0.01]
    ranks, ratio = zip(*points, strict=True)
    ratios = np.interp(rank, (*ranks, 1 - hits), (*ratio, 0.97))
    return np.where(rank >= 1 - hits, 1.0, ratios)


def _normalize_shares(weights: tuple[int, ...]) -> Floats:
    values = np.array(weights, dtype=np.float64)
    return np.asarray(values / values.sum())


def _bound_limit(nodes: int, limit_s: int) -> int:
    """Bound the time limit of wide jobs. On Lonestar6 no job of 32 nodes asks for more than an
    hour."""
    return min(
        [
            limit_s,
            *(
                longest_s
                for least_nodes, longest_s in _WIDE_LIMIT_S.items()
                if nodes >= least_nodes
            ),
        ]
    )


def _build_job(job_id: int, submit: int, index: int, session: _Session) -> SimJob:
    patience = int(session.patience_s[index])
    run = int(session.run_s[index])
    return SimJob(
        job_id=job_id,
        submit=submit,
        nodes=session.nodes,
        time_limit_s=session.limit_s,
        # A job ends when its user cancels it, whether it has started or not.
        run_s=min(run, patience) if patience else run,
        user=f"u{session.user + 1:03}",
        name=f"job{session.user % 7}",
        cancel_at=submit + patience if patience else None,
    )
