/* The peer of benchmarks/simulator.py: Slurm's two passes over whole nodes, planned by number.
 *
 * Written from docs/reference/simulator.md (sections 1 to 3, 6 and 7) for one partition of equal nodes and
 * jobs that have no dependencies, limits, pins or cancellations. It must give the same start for
 * every job as mirage.sim, and is as fast as its author could make it: the bar to be measured by.
 *
 *     peer JOBS STARTS NODES UNTIL FULL NAME=VALUE...
 *
 * JOBS: int64 submit[n], nodes[n], limit[n], run[n], rows by submission. STARTS: int64 start[n]
 * is written there, -1 where unknown. UNTIL: epoch second at which to stop, 0: when all have
 * ended. FULL 1: every backfill pass plans the whole queue (no early stop). NAME: see `settings`.
 * Prints JSON: CPU seconds of the replay alone, backfill passes, tests made in them.
 */

#define _POSIX_C_SOURCE 200809L

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FRACTION_BITS = 24, TESTS_BETWEEN_CHECKS = 16, BLOCK = 64, NEVER = INT_MAX, NO_PLACE = INT_MAX };

/* slurm.conf */

static struct {
    int64_t bf_interval, bf_window, bf_resolution, bf_max_job_test;
    int64_t sched_interval, default_queue_depth;
    int64_t weight_age, max_age, weight_size;
} conf = {30, 172800, 60, 1000, 60, 100, 7000, 604800, 100};

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
};

/* The workload: one row a job. Times are seconds since `origin`, which lies on every grid. */

static int rows, cluster_nodes, full_plans;
static int64_t origin;
static int *submit, *nodes_of, *limit_of, *limit_on_grid, *run_of, *shape_of, *start_of;
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

/* Running jobs by end by limit on the grid, and a heap of true ends (end << 32 | row). */

static int running, *run_end, *run_nodes, *run_row;
static int ends;
static int64_t *end_heap;

static int now, free_nodes, arrived, pending, oldest_young;
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

/* Running jobs */

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

/* First running job whose end by limit is not before `end`. */
static int first_ending(int end)
{
    int low = 0, high = running;
    while (low < high) {
        int middle = (low + high) / 2;
        if (run_end[middle] < end)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void shift_running(int from, int by)
{
    size_t bytes = (size_t)(running - from) * sizeof(int);
    memmove(run_end + from + by, run_end + from, bytes);
    memmove(run_nodes + from + by, run_nodes + from, bytes);
    memmove(run_row + from + by, run_row + from, bytes);
}

static void start(int row)
{
    int end = up_to_grid(now + limit_of[row]);
    int at = first_ending(end);
    int lasts = run_of[row] < limit_of[row] ? run_of[row] : limit_of[row];
    start_of[row] = now;
    free_nodes -= nodes_of[row];
    shift_running(at, 1);
    running++;
    run_end[at] = end;
    run_nodes[at] = nodes_of[row];
    run_row[at] = row;
    push_end((int64_t)(now + lasts) << 32 | row);
}

static void end(int row)
{
    int at = first_ending(up_to_grid(start_of[row] + limit_of[row]));
    while (run_row[at] != row)
        at++;
    free_nodes += nodes_of[row];
    shift_running(at + 1, -1);
    running--;
}

/* The main pass: in order, until one does not fit. */

static int first_pending(void)
{
    int from_old = old.len && (!young.len || old_first(0, 0));
    return from_old ? old.row[old.head] : young.row[young.head];
}

/* One that stops at default_queue_depth with jobs left goes on at the next sched_interval. */
static void main_pass(void)
{
    int64_t interval = conf.sched_interval;
    int64_t left = now % interval ? conf.default_queue_depth : INT64_MAX;
    for (int fits = 1; fits && pending; left--) {
        if (!left) {
            full_main_at = (int)((now / interval + 1) * interval);
            return;
        }
        int row = first_pending();
        fits = nodes_of[row] <= free_nodes;
        if (fits) {
            dequeue(row);
            start(row);
        } else if (left == 1 && pending > 1) {
            full_main_at = (int)((now / interval + 1) * interval);
        }
    }
}

/* The backfill pass. The profile: free[i] nodes from at[i] until at[i + 1]. */

static int steps, *at, *free_at;
static int *reach;               /* by number of nodes: the longest limit that could start now */
static int *place_memo, *stamp;  /* by shape: the step at which its last search ended */
static int stamp_now;

static void make_profile(void)
{
    int horizon = now + (int)conf.bf_window, free = free_nodes;
    steps = 1;
    at[0] = now;
    for (int r = 0; r < running && run_end[r] < horizon; r++) {
        free_at[steps - 1] = free;
        free += run_nodes[r];
        if (run_end[r] != at[steps - 1])
            at[steps++] = run_end[r];
    }
    free_at[steps - 1] = free;
    stamp_now++;
}

/* Fill `reach` up to `most` nodes. */
static void measure_reach(int most)
{
    int lowest = most;
    for (int i = 0; i < steps && lowest > 0; i++)
        for (; lowest > free_at[i]; lowest--)
            reach[lowest] = at[i] - now;
    for (; lowest >= 0; lowest--)
        reach[lowest] = INT_MAX;
}

/* Last job in [from, until) that could start now; -1: none. */
static int last_that_fits(const View *q, int from, int until)
{
    while (until > from) {
        int block = until - from > BLOCK ? until - BLOCK : from, any = 0;
        for (int i = block; i < until; i++)
            any |= q->limit[i] <= reach[q->nodes[i]];
        if (any) {
            while (q->limit[until - 1] > reach[q->nodes[until - 1]])
                until--;
            return until - 1;
        }
        until = block;
    }
    return -1;
}

static void reserve(int first, int until, int nodes, int end)
{
    if (end < now + conf.bf_window && (until == steps || at[until] != end)) {
        size_t bytes = (size_t)(steps - until) * sizeof(int);
        memmove(at + until + 1, at + until, bytes);
        memmove(free_at + until + 1, free_at + until, bytes);
        at[until] = end;
        free_at[until] = free_at[until - 1];
        steps++;
    }
    for (int i = first; i < until; i++)
        free_at[i] -= nodes;
}

/* Take the first place of that size; its step, or NO_PLACE. Space only shrinks within a pass and
 * steps are only added, so the same shape finds nothing before the step of its last place. */
static int take_place(int nodes, int limit, int on_grid, int shape)
{
    int i = stamp[shape] == stamp_now ? place_memo[shape] : 0;
    stamp[shape] = stamp_now;
    while (i < steps) {
        if (free_at[i] < nodes) {
            i++;
            continue;
        }
        int end = i ? at[i] + on_grid : up_to_grid(now + limit), j = i + 1;
        while (j < steps && at[j] < end && free_at[j] >= nodes)
            j++;
        if (j == steps || at[j] >= end) {
            reserve(i, j, nodes, end);
            return place_memo[shape] = i;
        }
        i = j + 1;
    }
    return place_memo[shape] = NO_PLACE;
}

static int *starters;

static int plan(void)
{
    View q = in_order((int)conf.bf_max_job_test);
    int left = free_nodes, count = 0, last = q.len - 1;
    make_profile();
    for (int i = 0; i <= last; i++) {
        if (!full_plans && i % TESTS_BETWEEN_CHECKS == 0) {
            measure_reach(cluster_nodes);
            last = last_that_fits(&q, i, last + 1);
            if (last < 0)
                break;
        }
        tests++;
        if (take_place(q.nodes[i], q.limit[i], q.on_grid[i], q.shape[i]) == 0) {
            starters[count++] = q.row[i];
            left -= q.nodes[i];
            if (!left && !full_plans)
                break;
        }
    }
    return count;
}

static void backfill_pass(void)
{
    passes++;
    last_backfill = now;
    backfill_at = NEVER;
    if (!free_nodes && !full_plans)
        return;
    int count = plan();
    for (int i = 0; i < count; i++) {
        dequeue(starters[i]);
        start(starters[i]);
    }
}

/* The clock */

static int next_instant(void)
{
    int next = full_main_at < backfill_at ? full_main_at : backfill_at;
    if (arrived < rows && submit[arrived] < next)
        next = submit[arrived];
    if (ends && end_heap[0] >> 32 < next)
        next = (int)(end_heap[0] >> 32);
    return next;
}

static void changed(void)
{
    int interval = (int)conf.bf_interval;
    int earliest = now > last_backfill + interval ? now : last_backfill + interval;
    backfill_at = (earliest + interval - 1) / interval * interval;
}

static void replay(int until)
{
    while ((now = next_instant()) != NEVER && now <= until) {
        int change = 0;
        for (; ends && end_heap[0] >> 32 <= now; change = 1)
            end((int)(pop_end() & INT_MAX));
        for (; arrived < rows && submit[arrived] <= now; change = 1)
            enqueue(arrived++);
        if (change)
            changed();
        grow_old();
        if (change || full_main_at == now) {
            full_main_at = full_main_at == now ? NEVER : full_main_at;
            main_pass();
        }
        if (backfill_at <= now)
            backfill_pass();
    }
}

/* In and out */

static int64_t *read_columns(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        perror(path);
        exit(1);
    }
    rows = (int)(ftell(file) / (4 * (long)sizeof(int64_t)));
    rewind(file);
    int64_t *columns = get(4 * (size_t)rows, sizeof(int64_t));
    if (fread(columns, sizeof(int64_t), 4 * (size_t)rows, file) != 4 * (size_t)rows) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return columns;
}

static int *column(const int64_t *values, int64_t less)
{
    int *narrow = get((size_t)rows, sizeof(int));
    for (int i = 0; i < rows; i++)
        narrow[i] = (int)(values[i] - less);
    return narrow;
}

static const int *sort_nodes, *sort_limit;

static int by_shape(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    int by_nodes = sort_nodes[x] - sort_nodes[y];
    return by_nodes ? by_nodes : sort_limit[x] - sort_limit[y];
}

/* Number the (nodes, limit) pairs. */
static void number_shapes(void)
{
    int *order = get((size_t)rows, sizeof(int));
    for (int i = 0; i < rows; i++)
        order[i] = i;
    sort_nodes = nodes_of;
    sort_limit = limit_of;
    qsort(order, (size_t)rows, sizeof(int), by_shape);
    for (int i = 0; i < rows; i++) {
        shapes += i == 0 || by_shape(&order[i - 1], &order[i]) != 0;
        shape_of[order[i]] = shapes - 1;
    }
    free(order);
}

static void load(const char *path)
{
    int64_t *columns = read_columns(path);
    int64_t grids = conf.bf_interval * conf.bf_resolution * conf.sched_interval;
    origin = rows ? columns[0] / grids * grids : 0;
    submit = column(columns, origin);
    nodes_of = column(columns + rows, 0);
    limit_of = column(columns + 2 * (size_t)rows, 0);
    run_of = column(columns + 3 * (size_t)rows, 0);
    limit_on_grid = get((size_t)rows, sizeof(int));
    shape_of = get((size_t)rows, sizeof(int));
    start_of = get((size_t)rows, sizeof(int));
    static_of = get((size_t)rows, sizeof(int64_t));
    is_old = get((size_t)rows, 1);
    rate = (conf.weight_age << FRACTION_BITS) / conf.max_age;
    for (int i = 0; i < rows; i++) {
        start_of[i] = -1;
        limit_on_grid[i] = up_to_grid(limit_of[i]);
        static_of[i] = (conf.weight_size << FRACTION_BITS) * nodes_of[i] / cluster_nodes;
    }
    number_shapes();
    free(columns);
}

static void make_state(void)
{
    size_t most_steps = (size_t)cluster_nodes + (size_t)conf.bf_max_job_test + 2;
    make_lane(&young);
    make_lane(&old);
    for (int c = 0; c < 5; c++)
        merged[c] = get((size_t)conf.bf_max_job_test, sizeof(int));
    run_end = get((size_t)cluster_nodes + 1, sizeof(int));
    run_nodes = get((size_t)cluster_nodes + 1, sizeof(int));
    run_row = get((size_t)cluster_nodes + 1, sizeof(int));
    end_heap = get((size_t)cluster_nodes + 1, sizeof(int64_t));
    at = get(most_steps, sizeof(int));
    free_at = get(most_steps, sizeof(int));
    reach = get((size_t)cluster_nodes + 1, sizeof(int));
    place_memo = get((size_t)shapes, sizeof(int));
    stamp = get((size_t)shapes, sizeof(int));
    starters = get((size_t)conf.bf_max_job_test, sizeof(int));
    free_nodes = cluster_nodes;
    full_main_at = backfill_at = NEVER;
    last_backfill = -(int)conf.bf_interval;
}

static void save(const char *path)
{
    FILE *file = fopen(path, "wb");
    for (int i = 0; file && i < rows; i++) {
        int64_t start = start_of[i] < 0 ? -1 : start_of[i] + origin;
        fwrite(&start, sizeof start, 1, file);
    }
    if (!file || fclose(file)) {
        perror(path);
        exit(1);
    }
}

static void set(const char *word)
{
    const char *value = strchr(word, '=');
    for (size_t i = 0; value && i < sizeof settings / sizeof *settings; i++)
        if (!strncmp(word, settings[i].name, (size_t)(value - word))) {
            *settings[i].value = atoll(value + 1);
            return;
        }
    fprintf(stderr, "peer: no such setting: %s\n", word);
    exit(2);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: peer JOBS STARTS NODES UNTIL FULL NAME=VALUE...\n");
        return 2;
    }
    for (int i = 6; i < argc; i++)
        set(argv[i]);
    cluster_nodes = atoi(argv[3]);
    full_plans = atoi(argv[5]);
    load(argv[1]);
    make_state();
    int64_t until = atoll(argv[4]);
    double began = cpu_seconds();
    replay(until ? (int)(until - origin) : NEVER - 1);
    double seconds = cpu_seconds() - began;
    save(argv[2]);
    printf("{\"seconds\": %.9f, \"passes\": %lld, \"tests\": %lld}\n", seconds, (long long)passes,
           (long long)tests);
    return 0;
}
