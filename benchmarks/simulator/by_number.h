/* Planning by number (docs/reference/simulator.md 7): one partition, and a profile of free nodes. */

enum { TESTS_BETWEEN_CHECKS = 16, NO_PLACE = INT_MAX };

/* Running jobs by end by limit on the grid. */

static int running, *run_end, *run_nodes, *run_row, free_nodes;

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

static void start_counted(int row)
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

static void end_counted(int row)
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
static void main_pass_counted(void)
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
            start_counted(row);
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

static void backfill_pass_counted(void)
{
    passes++;
    last_backfill = now;
    backfill_at = NEVER;
    if (!free_nodes && !full_plans)
        return;
    int count = plan();
    for (int i = 0; i < count; i++) {
        dequeue(starters[i]);
        start_counted(starters[i]);
    }
}

static void make_counted_state(void)
{
    size_t most = (size_t)cluster_nodes + 1, most_steps = most + (size_t)conf.bf_max_job_test + 1;
    run_end = get(most, sizeof(int));
    run_nodes = get(most, sizeof(int));
    run_row = get(most, sizeof(int));
    at = get(most_steps, sizeof(int));
    free_at = get(most_steps, sizeof(int));
    reach = get(most, sizeof(int));
    place_memo = get((size_t)shapes, sizeof(int));
    stamp = get((size_t)shapes, sizeof(int));
    free_nodes = cluster_nodes;
}
