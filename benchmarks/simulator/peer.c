/* The peer of benchmarks/simulator.py: Slurm's two passes over whole nodes.
 *
 * Written from docs/reference/simulator.md (sections 1 to 3 and 5 to 7) for equal nodes and jobs that have no
 * dependencies, limits, pins or cancellations. One partition is planned by number (by_number.h), two that
 * overlap are planned by name (by_name.h), by the rules of three releases of Slurm. It must give the same start
 * for every job as mirage.sim, and is as fast as its author could make it: the bar to be measured by.
 *
 *     peer JOBS STARTS NODES UNTIL FULL NAME=VALUE...
 *
 * JOBS: int64 submit[n], nodes[n], limit[n], run[n], partition[n], rows by submission. STARTS: int64 start[n]
 * is written there, -1 where unknown. UNTIL: epoch second at which to stop, 0: when all have
 * ended. FULL 1: every backfill pass plans the whole queue (no early stop). NAME: see `settings`.
 * Prints JSON: CPU seconds of the replay alone, backfill passes, tests made in them.
 */

#define _POSIX_C_SOURCE 200809L

#include "queue.h"
#include "by_number.h"
#include "by_name.h"

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

static void end(int row)
{
    if (conf.second_partition)
        end_named(row);
    else
        end_counted(row);
}

static void main_pass(void)
{
    if (conf.second_partition)
        main_pass_named();
    else
        main_pass_counted();
}

static void backfill_pass(void)
{
    if (conf.second_partition)
        backfill_pass_named();
    else
        backfill_pass_counted();
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

enum { COLUMNS = 5 };

static int64_t *read_columns(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        perror(path);
        exit(1);
    }
    rows = (int)(ftell(file) / (COLUMNS * (long)sizeof(int64_t)));
    rewind(file);
    int64_t *columns = get(COLUMNS * (size_t)rows, sizeof(int64_t));
    if (fread(columns, sizeof(int64_t), COLUMNS * (size_t)rows, file) != COLUMNS * (size_t)rows) {
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
    part_of = column(columns + 4 * (size_t)rows, 0);
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
    make_lane(&young);
    make_lane(&old);
    for (int c = 0; c < 5; c++)
        merged[c] = get((size_t)conf.bf_max_job_test, sizeof(int));
    end_heap = get((size_t)cluster_nodes + 1, sizeof(int64_t));
    starters = get((size_t)conf.bf_max_job_test, sizeof(int));
    full_main_at = backfill_at = NEVER;
    last_backfill = -(int)conf.bf_interval;
    make_counted_state();
    make_named_state();
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
