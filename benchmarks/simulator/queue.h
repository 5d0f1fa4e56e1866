/* What planning by number and by name share: slurm.conf, the jobs, the queue in order, the ends of running jobs. */

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FRACTION_BITS = 24, BLOCK = 64, NEVER = INT_MAX };

/* slurm.conf */

static struct {
    int64_t bf_interval, bf_window, bf_resolution, bf_max_job_test;
    int64_t sched_interval, default_queue_depth;
    int64_t weight_age, max_age, weight_size;
    int64_t release, second_partition;
} conf = {30, 172800, 60, 1000, 60, 100, 7000, 604800, 100, 2205, 0};

static const struct {
    const char *name;
    int64_t *value;
} settings[] = {
    {"bf_interval", &conf.bf_interval},
    {"bf_window", &conf.bf_window},
    {"bf_resolution", &conf.bf_resolution},
    {"bf_max_job_test", &conf.bf_max_job_test},
    {"sched_interval", &conf.sched_interval},
    {"default_queue_depth", &conf.default_queue_depth},
    {"PriorityWeightAge", &conf.weight_age},
    {"PriorityMaxAge", &conf.max_age},
    {"PriorityWeightJobSize", &conf.weight_size},
    {"release", &conf.release},                   /* 2205, 2411 or 2605 */
    {"second_partition", &conf.second_partition}, /* its nodes; 0: there is one partition */
};

/* The workload: one row a job. Times are seconds since `origin`, which lies on every grid. */

static int rows, cluster_nodes, full_plans;
static int64_t origin;
static int *submit, *nodes_of, *limit_of, *limit_on_grid, *run_of, *shape_of, *start_of, *part_of;
static int64_t *static_of, rate;
static int shapes;
static char *is_old; /* whether its age is at PriorityMaxAge */

/* A part of the queue in order, its columns side by side. Both ends have room: a job leaves at
 * the price of the shorter side. */

typedef struct {
    int head, len;
    int *nodes, *limit, *on_grid, *shape, *row;
    int64_t *rank;
} Lane;

static Lane young, old; /* rank: static - rate * submission; static. Both descending. */

static int now, arrived, pending, oldest_young;
static int full_main_at, backfill_at, last_backfill;
static int64_t passes, tests;

static void *get(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        perror("peer");
        exit(1);
    }
    return memory;
}

static inline int up_to_grid(int at)
{
    int grid = (int)conf.bf_resolution;
    return (at + grid - 1) / grid * grid;
}

/* Lanes */

static void make_lane(Lane *lane)
{
    size_t room = 2 * (size_t)rows + 1;
    *lane = (Lane){.head = rows};
    lane->nodes = get(room, sizeof(int));
    lane->limit = get(room, sizeof(int));
    lane->on_grid = get(room, sizeof(int));
    lane->shape = get(room, sizeof(int));
    lane->row = get(room, sizeof(int));
    lane->rank = get(room, sizeof(int64_t));
}

/* Place of (rank, row) counted from the head. */
static int place_in(const Lane *lane, int64_t rank, int row)
{
    const int64_t *ranks = lane->rank + lane->head;
    const int *in = lane->row + lane->head;
    int low = 0, high = lane->len;
    while (low < high) {
        int middle = (low + high) / 2;
        if (ranks[middle] > rank || (ranks[middle] == rank && in[middle] < row))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void shift(Lane *lane, int from, int count, int by)
{
    size_t n = (size_t)count;
    memmove(lane->nodes + from + by, lane->nodes + from, n * sizeof(int));
    memmove(lane->limit + from + by, lane->limit + from, n * sizeof(int));
    memmove(lane->on_grid + from + by, lane->on_grid + from, n * sizeof(int));
    memmove(lane->shape + from + by, lane->shape + from, n * sizeof(int));
    memmove(lane->row + from + by, lane->row + from, n * sizeof(int));
    memmove(lane->rank + from + by, lane->rank + from, n * sizeof(int64_t));
}

static void add(Lane *lane, int64_t rank, int row)
{
    int at = place_in(lane, rank, row);
    if (at < lane->len - at && lane->head > 0)
        shift(lane, lane->head--, at, -1);
    else
        shift(lane, lane->head + at, lane->len - at, 1);
    lane->len++;
    at += lane->head;
    lane->nodes[at] = nodes_of[row];
    lane->limit[at] = limit_of[row];
    lane->on_grid[at] = limit_on_grid[row];
    lane->shape[at] = shape_of[row];
    lane->row[at] = row;
    lane->rank[at] = rank;
}

static void drop(Lane *lane, int64_t rank, int row)
{
    int at = place_in(lane, rank, row);
    if (at < lane->len - at)
        shift(lane, lane->head++, at, 1);
    else
        shift(lane, lane->head + at + 1, lane->len - at - 1, -1);
    lane->len--;
}

static inline int64_t young_rank(int row)
{
    return static_of[row] - rate * submit[row];
}

static void enqueue(int row)
{
    add(&young, young_rank(row), row);
    pending++;
}

static void dequeue(int row)
{
    if (is_old[row])
        drop(&old, static_of[row], row);
    else
        drop(&young, young_rank(row), row);
    pending--;
}

/* Jobs whose age has reached its maximum keep their priority from there on. */
static void grow_old(void)
{
    for (; oldest_young < arrived && submit[oldest_young] + conf.max_age <= now; oldest_young++) {
        int row = oldest_young;
        if (start_of[row] >= 0)
            continue;
        drop(&young, young_rank(row), row);
        is_old[row] = 1;
        add(&old, static_of[row], row);
    }
}

/* The whole queue in order: a look at one lane where that is all of it, else a copy of both. */

typedef struct {
    int len;
    const int *nodes, *limit, *on_grid, *shape, *row;
} View;

static int *merged[5];

static View look_at(const Lane *lane, int len)
{
    int h = lane->head;
    return (View){len, lane->nodes + h, lane->limit + h, lane->on_grid + h, lane->shape + h, lane->row + h};
}

static void copy(const Lane *lane, int from, int count, int to)
{
    const int *columns[5] = {lane->nodes, lane->limit, lane->on_grid, lane->shape, lane->row};
    for (int c = 0; c < 5; c++)
        memcpy(merged[c] + to, columns[c] + lane->head + from, (size_t)count * sizeof(int));
}

/* Whether the old job at `o` comes before the young one at `y`. */
static inline int old_first(int o, int y)
{
    int64_t by = old.rank[old.head + o] + rate * conf.max_age - young.rank[young.head + y] - rate * now;
    return by > 0 || (by == 0 && old.row[old.head + o] < young.row[young.head + y]);
}

/* First old job from `from` on that does not come before the young one at `y`. */
static int old_until(int from, int y)
{
    int low = from, high = old.len;
    while (low < high) {
        int middle = (low + high) / 2;
        if (old_first(middle, y))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static View in_order(int most)
{
    int len = pending < most ? pending : most;
    if (!old.len)
        return look_at(&young, len);
    if (old.len >= len && (!young.len || old_first(len - 1, 0)))
        return look_at(&old, len);
    int o = 0, y = 0, done = 0;
    while (done < len && o < old.len && y < young.len) {
        int until = old_until(o, y), count = until - o;
        count = count < len - done ? count : len - done;
        copy(&old, o, count, done);
        done += count;
        o = until;
        if (done < len && o < old.len)
            copy(&young, y++, 1, done++);
    }
    if (done < len)
        copy(o < old.len ? &old : &young, o < old.len ? o : y, len - done, done);
    return (View){len, merged[0], merged[1], merged[2], merged[3], merged[4]};
}

/* A heap of the true ends of running jobs (end << 32 | row). */

static int ends;
static int64_t *end_heap;

static void push_end(int64_t entry)
{
    int at = ends++;
    while (at && end_heap[(at - 1) / 2] > entry) {
        end_heap[at] = end_heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    end_heap[at] = entry;
}

static int64_t pop_end(void)
{
    int64_t first = end_heap[0], entry = end_heap[--ends];
    int at = 0, child;
    while ((child = 2 * at + 1) < ends) {
        if (child + 1 < ends && end_heap[child + 1] < end_heap[child])
            child++;
        if (end_heap[child] >= entry)
            break;
        end_heap[at] = end_heap[child];
        at = child;
    }
    end_heap[at] = entry;
    return first;
}


static int *starters; /* of a backfill pass */
