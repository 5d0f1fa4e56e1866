"""Names the places of all values in the flat integer arrays that the kernels work on.

numba passes an array in a few registers, but copies each header of a structure of arrays at each
call. A simulator's whole state is therefore one int64 array, the *state*: a header of scalars, then
sections, whose places are in the header. So a fork is one copy. The machine and its settings never
change; they are another array of the same form, the *site*. The trace is a table with one row for
each job, the *feed*. What a pass needs only while it runs is the *scratch* (`work` in kernels).

Never change a place in one array without its users: kernels read by place and check nothing.
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
"""When the next main pass without a bound on attempts is due."""
BACKFILL_AT: Final = 4
LAST_BACKFILL: Final = 5
QUEUED: Final = 6
RUNNING: Final = 7
EVENTS: Final = 8
"""Length of the event heap."""
SLOT_FREE: Final = 9
"""The first free slot. Each free slot has the next one in NEXT_FREE."""
LIVE_JOBS: Final = 10
EDGES: Final = 11
SATURATES_AT: Final = 12
"""The instant at which the next queued job's age reaches PriorityMaxAge."""
IDLE: Final = 13
"""Nodes that are up and have no job."""
PINNED: Final = 14
"""The number of pending jobs with a node list."""
MISSING_ROOM: Final = 15
"""The section that was too small, as a ROOM_ constant; 0: all were large enough."""
VERSION: Final = 16
"""A number that grows with every change that can change a plan."""
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
"""The number of queued jobs whose age is at its maximum: the old ones (priority_queue.py)."""
IN_PASS: Final = 31
"""1 while a pass runs. The pass has its order already, so no job may enter the queue."""
OLD_FIRST: Final = 32
"""The place in the queue's columns of the first old job; the other old ones follow."""
YOUNG_FIRST: Final = 33
"""The place of the first young job. Because both parts have a first place, a job that leaves near
the head of a part need not move all jobs behind it."""
LEAST_VALUE: Final = 34
"""A lower bound of the priority without age, tier included, of all jobs that were ever queued."""
QUEUED_ARRAYS: Final = 35
"""The number of queued jobs that are tasks of an array with a limit."""
SCALARS: Final = 40

# Sections of the state. The header holds where each begins; a section ends where the next begins.

LIVE: Final = 40
QUEUE_KEY: Final = 41
QUEUE_ID: Final = 42
QUEUE_SLOT: Final = 43
QUEUE_NODES: Final = 44
QUEUE_LIMIT: Final = 45
QUEUE_SHAPE: Final = 46
QUEUE_MARK: Final = 47
"""MARK_ bits: why a pass must read the job's full record. 0: the queue's columns are enough."""
QUEUE_SINCE: Final = 48
"""The instant from which its age counts."""
RUN_END: Final = 49
"""The ends of running jobs by their time limits, ascending."""
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

# The fields of one job's record in LIVE. Those that passes read of every queued job are adjacent.

ID: Final = 0
ROW: Final = 1
PHASE: Final = 2
SUBMIT: Final = 3
ELIGIBLE: Final = 4
NODES: Final = 5
LIMIT: Final = 6
KIND: Final = 7
"""The number of the job's kind: jobs of one kind ask for the same resources of each node."""
FORM: Final = 8
"""The number of the job's form: jobs of one form differ only in their number of nodes; NONE: not
known."""
PARTITION: Final = 9
QOS: Final = 10
CPUS: Final = 11
"""What the job asks of each node, here and in the next two fields; 0 for a job that takes whole
nodes of equal size."""
MEMORY: Final = 12
GPUS: Final = 13
WHOLE: Final = 14
USE_ROW: Final = 15
PIN: Final = 16
"""The first cell of the job's node list (--nodelist, or a pin); NONE: any nodes."""
ARRAY_LIMIT: Final = 17
ARRAY: Final = 18
USER: Final = 19
ASSOCIATION: Final = 20
RUN: Final = 21
STATIC: Final = 22
BEGIN: Final = 23
CANCEL: Final = 24
HELD: Final = 25
"""0: not held; otherwise USER_HOLDS or ADMIN_HOLDS."""
FAILS: Final = 26
REQUEUES: Final = 27
UNMET: Final = 28
ALLOCATED: Final = 29
"""The first cell of the nodes that the job has; NONE: it has none."""
START: Final = 30
SHAPE: Final = 31
"""The number of the job's shape: a pass plans jobs of one shape by the same search."""
KEY: Final = 32
CHARGE: Final = 33
EXTRA: Final = 34
"""The place of the job's dependencies and node list in the feed's extras; NONE: it has neither."""
REFUSAL: Final = 35
"""Why the job is refused on arrival, a place in workload.REFUSALS; 0: it is not refused."""
NEXT_FREE: Final = 36
NOT_BEFORE: Final = 37
"""The job is not eligible before this instant. Set for a requeued job."""
SHOWN_PRIORITY: Final = 38
"""The priority that Slurm showed for a job of a real queue; NONE: not known."""
ANY_OF: Final = 39
"""1: one met dependency is enough; 0: all must be met."""
RECORD: Final = 40

# The columns of one job in the feed: the number of its image among the site's IMAGES, then the
# fields that an image does not have.

FEED_IMAGE: Final = 0
FEED_SUBMIT: Final = 2
FEED_EXTRA: Final = 7
OWN_FIELDS: Final = (ID, SUBMIT, RUN, BEGIN, CANCEL, ARRAY, EXTRA)
"""The fields in the feed from its second column on. Jobs that differ only in these share an image,
so a job takes a tenth of an image's length."""

PHASE_FREE: Final = 0
PHASE_WAITING: Final = 1
PHASE_ELIGIBLE: Final = 2
PHASE_RUNNING: Final = 3
PHASE_COMING: Final = 4
"""The job was injected for a later instant, and is not submitted yet."""

# The columns of one row of USE, which counts one user's jobs in one QOS
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

# The kinds of events of the heap, in the order in which they happen at one instant
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
"""The length of the head of one log entry: at, event, id, end state, submit, eligible, start, row,
number of nodes. The nodes follow."""

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
"""The release whose backfill is simulated: a SlurmRelease."""
PARTITION_BITS: Final = 32
"""One bitmap of nodes for each partition."""
QOS_LIMITS: Final = 33
"""One row for each QOS: the limit for each column of USE; FAR: no limit."""
RESERVATION_SPAN: Final = 34
"""Start and end of each reservation."""
RESERVATION_BITS: Final = 35
CAPACITY_CPUS: Final = 36
CAPACITY_MEMORY: Final = 37
"""FAR: not counted."""
CAPACITY_GPUS: Final = 38
PARTITION_TIER: Final = 39
PARTITION_LEAST: Final = 40
"""CPUs, MiB and GPUs that each of a partition's nodes has at least."""
IMAGES: Final = 41
"""Records of jobs without their OWN_FIELDS."""
END_OF_SITE: Final = 42
SITE_HEADER: Final = 48

# The scratch of a pass: a header, then sections. Between passes only the stamps keep their values.
# A stamp marks entries as valid: an entry with an older stamp is void, so nothing must be cleared.

STAMP: Final = 0
"""The stamp of the present pass for notes about shapes and forms."""
TABLES: Final = 1
"""The most kinds of jobs that have a table at a time (fit_tables.py)."""
NEXT_TABLE: Final = 2
TABLE_STAMP: Final = 3
GROUPS: Final = 4
MAPS: Final = 5
PASS: Final = 6
"""The stamp of the present pass for counts by user and by array."""
WALK_OLD: Final = 7
"""The walk's next place among the old jobs."""
WALK_YOUNG: Final = 8
"""The walk's next place among the young jobs."""
LAST_OLD: Final = 9
"""The last place among the old jobs at which the walk can still find a job to start."""
LAST_YOUNG: Final = 10
"""The same among the young jobs."""
PIECES_STAMP: Final = 11
"""The TABLE_STAMP under which the pieces were listed."""
CHOSEN: Final = 16
USABLE: Final = 17
FITTING: Final = 18
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
"""Where each map begins. A map ends where the next begins; one more entry has the last end."""
MAP_GAINS: Final = 39
"""Whether the next map has a node that this one lacks."""
MAP_BITS: Final = 40
"""One row for each word of a bitmap, with that word of every map."""
READY: Final = 41
"""One bitmap for each partition: its nodes that are up."""
KIND_WHOLE: Final = 42
"""The TABLE_STAMP under which a kind's table was filled beyond its first row."""
GROUP_PIECE: Final = 43
"""Where the pieces of each group's job begin. A piece is its nodes in one word of a bitmap."""
PIECE_WORD: Final = 44
PIECE_BITS: Final = 45
PLANNED_STAMP: Final = 46
PLANNED: Final = 47
"""The tasks of each array that were planned in the pass of its PLANNED_STAMP."""
HOPELESS_STAMP: Final = 48
HOPELESS: Final = 49
"""By form: jobs with this many nodes or more cannot be planned in the pass of HOPELESS_STAMP."""
SCRATCH_HEADER: Final = 52

FRACTION_BITS: Final = 24
TIER_SHIFT: Final = 55
"""The lowest bit of the partition's tier in a key. Every priority is below it."""

USER_HOLDS: Final = 1
ADMIN_HOLDS: Final = 2

REQUEUE_WAIT_S: Final = 120
"""Seconds until a requeued job is eligible again. A real slurmctld took about 121 s."""


def get_section(flat: Ints, section_number: int) -> Ints:
    """Return one section of the state, the site or the scratch: a view, not a copy."""
    part: Ints = flat[flat[section_number] : flat[section_number + 1]]
    return part


@expand_inline
def section(flat: Ints, section_number: int) -> Ints:
    """Return one section like `get_section`, within kernels."""
    return cut(flat, flat[section_number], flat[section_number + 1])


column: Final = section
"""Returns one column of the queue within kernels, with an entry for each place
(priority_queue.py)."""


@inline_kernel
def copy_into(source: Ints, target: Ints) -> None:
    """Copy `source` to the beginning of `target`. A slice assignment would allocate memory, which
    a kernel may not."""
    for i in range(source.size):
        target[i] = source[i]


@inline_kernel
def shift_back(values: Ints) -> None:
    """Move all values by one place towards the end; the last one is lost.

    The loop counts from the slice's own 0, so that the compiler can move many values at a time.
    """
    for i in range(values.size - 1, 0, -1):
        values[i] = values[i - 1]


@inline_kernel
def shift_ahead(values: Ints) -> None:
    """Move all values by one place towards the beginning; the first one is lost."""
    for i in range(values.size - 1):
        values[i] = values[i + 1]


@inline_kernel
def get_queue_place(state: Ints, k: int) -> int:
    """Return the place of the k-th queued job, counting the old jobs before the young. This is not
    the order of priority."""
    if k < state[SATURATED]:
        return state[OLD_FIRST] + k
    return state[YOUNG_FIRST] + k - state[SATURATED]
