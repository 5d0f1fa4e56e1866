"""Names the places of all values in the flat integer arrays that the kernels work on.

numba passes an array in a few registers, but copies each header of a structure of arrays at each
call. A simulator's whole state is therefore one int64 array, the *state*: a header of scalars, then
sections, whose places stand in the header. A fork is one copy. The machine and its settings never
change; they are another array of the same form, the *site*. The trace is a table with one row for
each job, the *feed*.
"""

from typing import Final

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import cut, expand_inline, inline_kernel

FAR: Final = 1 << 61
"""Later than any instant."""
NONE: Final = -1

# Scalars in the header of the state

NOW: Final = 0
CURSOR: Final = 1
"""The next row of the feed."""
MAIN_DUE: Final = 2
FULL_AT: Final = 3
"""When a main pass without a bound on attempts is due."""
BACKFILL_AT: Final = 4
LAST_BACKFILL: Final = 5
QUEUED: Final = 6
RUNNING: Final = 7
EVENTS: Final = 8
"""Length of the event heap."""
SLOT_FREE: Final = 9
"""First of the free slots; each names the next."""
LIVE_JOBS: Final = 10
EDGES: Final = 11
SATURATES_AT: Final = 12
"""The first age to reach PriorityMaxAge does so then."""
IDLE: Final = 13
"""Nodes that are up and have no job."""
PINNED: Final = 14
"""Pending jobs with a node list."""
SHORT: Final = 15
"""What there was no room for (the ROOM_ constants); 0: enough."""
VERSION: Final = 16
"""Grows with everything that can change a plan."""
TICK_AT: Final = 17
LAST_TICK: Final = 18
LOGGED: Final = 19
LISTENING: Final = 20
WATCHED: Final = 21
"""A job id; the clock stops when that job starts."""
WATCHED_START: Final = 22
NOT_UP: Final = 23
CELL_FREE: Final = 24
CELLS_LEFT: Final = 25
QUEUED_NODES: Final = 26
"""Sum of the nodes that queued jobs ask for."""
ORIGIN: Final = 27
ASSOCIATIONS: Final = 28
REFUSED: Final = 29
SATURATED: Final = 30
"""How many of the queue have an age at its maximum."""
IN_PASS: Final = 31
"""Whether a pass is under way, whose order is made."""
OLD_FIRST: Final = 32
"""The place in the queue's columns of the first whose age is at its maximum; the others follow."""
YOUNG_FIRST: Final = 33
"""The place of the first of the rest; whoever leaves near the head of either need not move all."""
LEAST_VALUE: Final = 34
"""No job of the queue has had less priority than this without its age, the tier included."""
QUEUED_ARRAYS: Final = 35
"""How many of the queue are tasks of an array that has a limit."""
SCALARS: Final = 40

# Sections of the state: the header holds where each begins, and the next one's begin is its end

LIVE: Final = 40
QUEUE_KEY: Final = 41
QUEUE_ID: Final = 42
QUEUE_SLOT: Final = 43
QUEUE_NODES: Final = 44
QUEUE_LIMIT: Final = 45
QUEUE_SHAPE: Final = 46
QUEUE_MARK: Final = 47
"""What of a queued job asks for more than a look at the columns: the MARK_ bits."""
QUEUE_SINCE: Final = 48
"""The instant from which its age counts."""
RUN_END: Final = 49
"""By the limit."""
RUN_SLOT: Final = 50
HEAP_AT: Final = 51
HEAP_RANK: Final = 52
HEAP_WHAT: Final = 53
EDGE: Final = 54
CELL_NODE: Final = 55
CELL_NEXT: Final = 56
NODE_STATE: Final = 57
NODE_JOBS: Final = 58
NODE_CPUS: Final = 59
NODE_MEMORY: Final = 60
NODE_GPUS: Final = 61
IDLE_BITS: Final = 62
UP_BITS: Final = 63
USE: Final = 64
ARRAY_USE: Final = 65
FAIR_VALUE: Final = 66
FAIR_RAW: Final = 67
FAIR_USAGE: Final = 68
"""Floats."""
FAIR_ACCOUNT: Final = 69
FAIR_ORDER: Final = 70
ACCOUNT_RAW: Final = 71
ACCOUNT_USAGE: Final = 72
"""Floats."""
ACCOUNT_SHARES: Final = 73
FAIR_LEVEL: Final = 74
ACCOUNT_LEVEL: Final = 75
FAIR_RANK: Final = 76
LOG: Final = 77
END_OF_STATE: Final = 78
HEADER: Final = 80

# One job in LIVE; what the passes ask of every job of the queue stands together

ID: Final = 0
ROW: Final = 1
PHASE: Final = 2
SUBMIT: Final = 3
ELIGIBLE: Final = 4
NODES: Final = 5
LIMIT: Final = 6
KIND: Final = 7
"""Jobs of one kind ask the same of each node."""
FORM: Final = 8
"""Jobs of one form differ from each other in how many nodes they ask for; NONE: not known."""
PARTITION: Final = 9
QOS: Final = 10
CPUS: Final = 11
"""What it asks of each node; nothing where it takes whole nodes and all are equal."""
MEMORY: Final = 12
GPUS: Final = 13
WHOLE: Final = 14
USE_ROW: Final = 15
PIN: Final = 16
"""First cell of its node list."""
ARRAY_LIMIT: Final = 17
ARRAY: Final = 18
USER: Final = 19
ASSOCIATION: Final = 20
RUN: Final = 21
STATIC: Final = 22
BEGIN: Final = 23
CANCEL: Final = 24
HELD: Final = 25
"""0: by nobody; USER_HOLDS or ADMIN_HOLDS."""
FAILS: Final = 26
REQUEUES: Final = 27
UNMET: Final = 28
ALLOCATED: Final = 29
"""First cell of the nodes it has."""
START: Final = 30
SHAPE: Final = 31
"""Jobs with equal shapes are planned alike."""
KEY: Final = 32
CHARGE: Final = 33
EXTRA: Final = 34
"""Where its dependencies and node list stand in the feed's extras; NONE."""
REFUSAL: Final = 35
"""Why it is refused on arrival (workload.REFUSALS); 0: it is not."""
NEXT_FREE: Final = 36
AFTER: Final = 37
"""Not eligible before this instant (a requeued job)."""
SHOWN: Final = 38
"""The priority that it came with; NONE: it came with none."""
ANY_OF: Final = 39
"""1: one dependency that is met is enough."""
RECORD: Final = 40

# One job in the feed: which of the site's images it has, then what the image does not hold

FEED_IMAGE: Final = 0
FEED_SUBMIT: Final = 2
FEED_EXTRA: Final = 7
OWN: Final = (ID, SUBMIT, RUN, BEGIN, CANCEL, ARRAY, EXTRA)
"""The fields in the feed from its second column on; jobs that differ in these alone share an
image, a tenth of whose length they are kept in."""

GONE: Final = 0
WAITING: Final = 1
ELIGIBLE_NOW: Final = 2
RUNS: Final = 3
COMING: Final = 4
"""Injected for a later instant."""

# Columns of one row of USE: a user in a QOS
USE_JOBS: Final = 0
USE_SUBMITTED: Final = 1
USE_CPUS: Final = 2
USE_MEMORY: Final = 3
USE_GPUS: Final = 4
USE_NODES: Final = 5
USE_COLUMNS: Final = 6

MARK_PINNED: Final = 1
MARK_ARRAY: Final = 2
"""A task of an array that has a limit."""

UP: Final = 0
DRAINED: Final = 1
DOWN: Final = 2

# Order of what happens at one instant
AT_NODE: Final = 0
AT_END: Final = 1
AT_CANCEL: Final = 2
AT_BEGIN: Final = 3
AT_ARRIVAL: Final = 4
RANK_SHIFT: Final = 40
"""A rank is (kind << RANK_SHIFT) | job id or node number."""

EDGE_COLUMNS: Final = 4
"""The dependent's slot, the target's slot, the kind, the seconds after the target's start."""
ON_START: Final = 0
ON_END: Final = 1
ON_OK: Final = 2
ON_NOT_OK: Final = 3

ROOM_SLOTS: Final = 1
ROOM_EVENTS: Final = 2
ROOM_EDGES: Final = 3
ROOM_CELLS: Final = 4
ROOM_LOG: Final = 5

EVENT_SUBMITTED: Final = 0
EVENT_STARTED: Final = 1
EVENT_ENDED: Final = 2
EVENT_REQUEUED: Final = 3
EVENT_REFUSED: Final = 4
LOG_HEAD: Final = 9
"""Of one entry of the log: at, event, id, end state, submit, eligible, start, row, how many nodes;
the nodes follow."""

END_COMPLETED: Final = 1
END_FAILED: Final = 2
END_TIMEOUT: Final = 3
END_CANCELLED: Final = 4
END_NODE_FAIL: Final = 5
REFUSED_STATE: Final = 6

# The site: a header of scalars, then sections

SITE_NODES: Final = 0
SITE_WORDS: Final = 1
SITE_BY_NAME: Final = 2
SITE_SHARED: Final = 3
SITE_RATE: Final = 4
SITE_MAX_AGE: Final = 5
SITE_ACCRUE: Final = 6
SITE_FAIR_WEIGHT: Final = 7
"""In fixed point."""
SITE_HALF_LIFE: Final = 8
SITE_CALC_PERIOD: Final = 9
SITE_SCHED_INTERVAL: Final = 10
SITE_DEPTH: Final = 11
SITE_BF_INTERVAL: Final = 12
SITE_BF_WINDOW: Final = 13
SITE_BF_RESOLUTION: Final = 14
SITE_BF_TEST: Final = 15
SITE_BF_USER: Final = 16
SITE_LIMITS: Final = 17
"""Whether any QOS has a limit."""
SITE_PARTITIONS: Final = 18
SITE_QOS: Final = 19
SITE_RESERVATIONS: Final = 20
SITE_OVER_TIME: Final = 21
SITE_UNEQUAL: Final = 22
"""Whether nodes differ in size."""
SITE_RELEASE: Final = 23
"""Whose backfill it is: a Release."""
PARTITION_BITS: Final = 32
"""One bitmap a partition."""
QOS_LIMITS: Final = 33
"""One row of USE's columns a QOS: the most of each; FAR: no limit."""
RESERVATION_SPAN: Final = 34
"""Start and end of each."""
RESERVATION_BITS: Final = 35
CAPACITY_CPUS: Final = 36
CAPACITY_MEMORY: Final = 37
"""FAR: not counted."""
CAPACITY_GPUS: Final = 38
PARTITION_TIER: Final = 39
PARTITION_LEAST: Final = 40
"""CPUs, MiB and GPUs that each of a partition's nodes has at least."""
IMAGES: Final = 41
"""Records, without what is a job's own."""
END_OF_SITE: Final = 42
SITE_HEADER: Final = 48

# The scratch of a pass: a header, then sections. It holds nothing between passes but the stamp.

STAMP: Final = 0
"""What was noted of shapes under another stamp is void."""
TABLES: Final = 1
"""How many kinds of jobs have a table at a time (bitmap_backfill.py)."""
NEXT_TABLE: Final = 2
TABLE_STAMP: Final = 3
GROUPS: Final = 4
MAPS: Final = 5
PASS: Final = 6
"""Of the pass under way, for the counts of tests."""
WALK_OLD: Final = 7
"""Of a walk down the queue: the next place among those with an age at its maximum."""
WALK_YOUNG: Final = 8
"""The same among the others."""
LAST_OLD: Final = 9
"""The last places at which the walk can still find somebody to start."""
LAST_YOUNG: Final = 10
PIECES_STAMP: Final = 11
"""The stamp of tables under which the pieces were listed."""
CHOSEN: Final = 16
USABLE: Final = 17
FOUND: Final = 18
WANTED: Final = 19
SPARE: Final = 20
MEMO_STAMP: Final = 21
MEMO: Final = 22
TESTS_STAMP: Final = 23
TESTS: Final = 24
CLOSED: Final = 25
TIMES: Final = 26
FREE: Final = 27
REACH: Final = 28
GROUP_END: Final = 29
GROUP_LAST: Final = 30
THEN_JOBS: Final = 31
THEN_CPUS: Final = 32
THEN_MEMORY: Final = 33
THEN_GPUS: Final = 34
KIND_STAMP: Final = 35
KIND_TABLE: Final = 36
TABLE: Final = 37
MAP_AT: Final = 38
"""Where each map begins, which is the end of the one before; the end of the last is behind it."""
MAP_GAINS: Final = 39
"""Whether the map behind has a node that this one lacks."""
MAP_BITS: Final = 40
"""One row a word of the bitmaps, with that word of each map."""
READY: Final = 41
"""The nodes of each partition that are up."""
KIND_WHOLE: Final = 42
"""The stamp under which a kind's table was filled beyond its first row."""
GROUP_PIECE: Final = 43
"""Where the pieces of each group's job begin: its nodes, by words of a bitmap."""
PIECE_WORD: Final = 44
PIECE_BITS: Final = 45
PLANNED_STAMP: Final = 46
PLANNED: Final = 47
"""Of each array the tasks planned in the pass of the stamp beside it."""
HOPELESS_STAMP: Final = 48
HOPELESS: Final = 49
"""No job of the form with so many nodes, or more, can have a plan in this pass."""
SCRATCH_HEADER: Final = 52

FRACTION_BITS: Final = 24
TIER_SHIFT: Final = 55
"""The tier's place in a key, above every priority."""

USER_HOLDS: Final = 1
ADMIN_HOLDS: Final = 2

REQUEUE_WAIT_S: Final = 120
"""A requeued job's begin time (real-slurm.md 7E: held back about 121 s)."""


def get_section(flat: Ints, which: int) -> Ints:
    """One section of the state, the site or the scratch: a view, not a copy."""
    part: Ints = flat[flat[which] : flat[which + 1]]
    return part


@expand_inline
def section(flat: Ints, which: int) -> Ints:
    """The same within kernels."""
    return cut(flat, flat[which], flat[which + 1])


column: Final = section
"""One column of the queue within kernels, one entry a place (queue.py)."""


@inline_kernel
def copy_into(source: Ints, target: Ints) -> None:
    """Fill the beginning of `target`. Assigning a slice would allocate, which a kernel may not."""
    for i in range(source.size):
        target[i] = source[i]


@inline_kernel
def shift_back(values: Ints) -> None:
    """Move all by one towards the end, the last is lost. Of a slice that counts from 0 the compiler
    moves many at a time."""
    for i in range(values.size - 1, 0, -1):
        values[i] = values[i - 1]


@inline_kernel
def shift_ahead(values: Ints) -> None:
    """The same towards the beginning."""
    for i in range(values.size - 1):
        values[i] = values[i + 1]


@inline_kernel
def get_queue_place(state: Ints, k: int) -> int:
    """The place of the k-th of all that are queued, the old before the young."""
    if k < state[SATURATED]:
        return state[OLD_FIRST] + k
    return state[YOUNG_FIRST] + k - state[SATURATED]
