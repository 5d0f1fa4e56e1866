/* Planning by name (docs/reference/simulator.md 5 to 7, "By name" and "By release"): whole nodes of two
 * partitions that overlap. Partition 0 has all nodes, partition 1 the first `second_partition`. */

enum { WINDOW_S = 30, PARTITIONS = 2, NOWHERE = -1 };

typedef uint64_t *Set; /* of nodes: `words` words */

static int words;
static Set members[PARTITIONS], idle, chosen;

/* Running jobs by end by limit, then row. `fits` has a set for each: the nodes free once it and
 * those before it have ended; the first set is that of the nodes free now, so job b has set b + 1. */

static int busy, *busy_end, *busy_row;
static Set busy_nodes, fits;

static inline int count_both(const uint64_t *one, const uint64_t *other)
{
    int n = 0;
    for (int w = 0; w < words; w++)
        n += __builtin_popcountll(one[w] & other[w]);
    return n;
}

static inline int meet(const uint64_t *one, const uint64_t *other)
{
    for (int w = 0; w < words; w++)
        if (one[w] & other[w])
            return 1;
    return 0;
}

static inline int holds_all(const uint64_t *set, const uint64_t *wanted)
{
    for (int w = 0; w < words; w++)
        if (wanted[w] & ~set[w])
            return 0;
    return 1;
}

/* Which nodes */

/* The first node from `node` on that is in the set (or is not, with `flip` all ones); 64 * words: none. */
static inline int find_node(const uint64_t *set, int node, uint64_t flip)
{
    for (; node < 64 * words; node = (node / 64 + 1) * 64) {
        uint64_t word = (set[node / 64] ^ flip) >> node % 64;
        if (word)
            return node + __builtin_ctzll(word);
    }
    return node;
}

static int *run_first, *run_size;

/* `chosen` becomes `need` of the nodes that are in both sets: the tightest run of consecutive
 * numbers with enough of them, or the longest runs. */
static void choose(const uint64_t *one, const uint64_t *other, int need)
{
    int runs = 0;
    uint64_t found[words];
    for (int w = 0; w < words; w++) {
        found[w] = one[w] & other[w];
        chosen[w] = 0;
    }
    for (int node = find_node(found, 0, 0), end; node < 64 * words; node = find_node(found, end, 0)) {
        end = find_node(found, node, UINT64_MAX);
        run_first[runs] = node;
        run_size[runs++] = end - node;
    }
    if (need == 1 && conf.release >= 2605) {
        chosen[run_first[0] / 64] = (uint64_t)1 << run_first[0] % 64;
        return;
    }
    while (need) {
        int best = 0;
        for (int r = 1; r < runs; r++) {
            int enough = run_size[best] >= need;
            if (run_size[r] >= need ? !enough || run_size[r] < run_size[best]
                                    : !enough && run_size[r] > run_size[best])
                best = r;
        }
        int taken = run_size[best] < need ? run_size[best] : need;
        for (int node = run_first[best]; node < run_first[best] + taken; node++)
            chosen[node / 64] |= (uint64_t)1 << node % 64;
        need -= taken;
        run_size[best] = 0;
    }
}

/* Starts and ends */

static void refresh_fits(int from)
{
    if (!from)
        memcpy(fits, idle, (size_t)words * sizeof *idle);
    for (int b = from ? from - 1 : 0; b < busy; b++)
        for (int w = 0; w < words; w++)
            fits[(b + 1) * words + w] = fits[b * words + w] | busy_nodes[b * words + w];
}

static int place_of_end(int end, int row)
{
    int low = 0, high = busy;
    while (low < high) {
        int middle = (low + high) / 2;
        if (busy_end[middle] < end || (busy_end[middle] == end && busy_row[middle] < row))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void shift_busy(int from, int by)
{
    size_t n = (size_t)(busy - from), set = (size_t)words;
    memmove(busy_end + from + by, busy_end + from, n * sizeof(int));
    memmove(busy_row + from + by, busy_row + from, n * sizeof(int));
    memmove(busy_nodes + (from + by) * words, busy_nodes + from * words, n * set * sizeof *busy_nodes);
    busy += by;
}

/* On the chosen nodes. */
static void start_named(int row)
{
    int end = now + limit_of[row], at = place_of_end(end, row);
    int lasts = run_of[row] < limit_of[row] ? run_of[row] : limit_of[row];
    start_of[row] = now;
    shift_busy(at, 1);
    busy_end[at] = end;
    busy_row[at] = row;
    for (int w = 0; w < words; w++) {
        busy_nodes[at * words + w] = chosen[w];
        idle[w] &= ~chosen[w];
    }
    push_end((int64_t)(now + lasts) << 32 | row);
}

static void end_named(int row)
{
    int at = place_of_end(start_of[row] + limit_of[row], row);
    for (int w = 0; w < words; w++)
        idle[w] |= busy_nodes[at * words + w];
    shift_busy(at + 1, -1);
}

/* The main pass: in order; a partition whose first job does not fit is closed with its nodes. */

static void main_pass_named(void)
{
    int o = 0, y = 0, attempts = 0, closed[PARTITIONS] = {0};
    int bounded = now % conf.sched_interval != 0;
    uint64_t usable[words];
    memcpy(usable, idle, sizeof usable);
    while (!(closed[0] && closed[1]) && (o < old.len || y < young.len)) {
        int is_young = y < young.len && (o == old.len || !old_first(o, y));
        int row = is_young ? young.row[young.head + y] : old.row[old.head + o];
        int part = part_of[row];
        if (!closed[part]) {
            if (bounded && attempts++ == conf.default_queue_depth) {
                full_main_at = (int)((now / conf.sched_interval + 1) * conf.sched_interval);
                return;
            }
            if (count_both(usable, members[part]) >= nodes_of[row]) {
                choose(usable, members[part], nodes_of[row]);
                dequeue(row);
                start_named(row);
                for (int w = 0; w < words; w++)
                    usable[w] &= ~chosen[w];
                continue;
            }
            closed[part] = 1;
            for (int w = 0; w < words; w++)
                usable[w] &= ~members[part][w];
        }
        y += is_young;
        o += !is_young;
    }
}

/* Maps: map m has the nodes that no plan has taken from map_at[m] until map_at[m + 1]. */

static int maps, *map_at;
static Set map_nodes;

static void make_maps(void)
{
    int grid = (int)conf.bf_resolution, horizon = now + (int)conf.bf_window;
    maps = 1;
    map_at[0] = now / grid * grid;
    map_at[1] = conf.release >= 2411 ? horizon / grid * grid : horizon;
    memcpy(map_nodes, members[0], (size_t)words * sizeof *map_nodes);
}

static void shift_maps(int from, int by)
{
    size_t n = (size_t)(maps - from), set = (size_t)words;
    memmove(map_at + from + by, map_at + from, (n + 1) * sizeof(int));
    memmove(map_nodes + (from + by) * words, map_nodes + from * words, n * set * sizeof *map_nodes);
    maps += by;
}

/* The map that begins at an instant; it is made where there is none. */
static int cut_maps(int instant)
{
    int low = 0, high = maps;
    while (low < high) {
        int middle = (low + high) / 2;
        if (map_at[middle] < instant)
            low = middle + 1;
        else
            high = middle;
    }
    if (map_at[low] == instant)
        return low;
    shift_maps(low, 1);
    map_at[low] = instant;
    memcpy(map_nodes + low * words, map_nodes + (low - 1) * words, (size_t)words * sizeof *map_nodes);
    return low;
}

static inline int equals_next(int m)
{
    return !memcmp(map_nodes + m * words, map_nodes + (m + 1) * words, (size_t)words * sizeof *map_nodes);
}

/* The maps lose nodes in [begin, end). Equal neighbours are joined, of 24.11 on the first two alone. */
static void lose(const uint64_t *nodes, int begin, int end)
{
    begin = begin > map_at[0] ? begin : map_at[0];
    end = end < map_at[maps] ? end : map_at[maps];
    if (begin >= end)
        return;
    int first = cut_maps(begin), behind = cut_maps(end);
    for (int m = first; m < behind; m++)
        for (int w = 0; w < words; w++)
            map_nodes[m * words + w] &= ~nodes[w];
    int all = conf.release < 2411, least = first - (all ? 1 : 2);
    least = least > 0 ? least : 0;
    if (all) {
        for (int m = (behind < maps ? behind : maps - 1) - 1; m >= least; m--)
            if (equals_next(m))
                shift_maps(m + 2, -1);
        return;
    }
    for (int m = least; m < behind && m + 1 < maps; m++)
        if (equals_next(m)) {
            shift_maps(m + 2, -1);
            return;
        }
}

/* The search */

static inline int plan_end(int end)
{
    int grid = (int)conf.bf_resolution;
    return (conf.release >= 2411 ? end + grid - 1 : end) / grid * grid;
}

static inline int first_map(int from, int instant)
{
    while (from < maps && map_at[from + 1] <= instant)
        from++;
    return from;
}

/* `usable` becomes the nodes that the partition has in every map from m on that begins up to `end`. */
static inline void keep_usable(int part, int m, int end, Set usable)
{
    memcpy(usable, members[part], (size_t)words * sizeof *usable);
    for (; m < maps && map_at[m] <= end; m++)
        for (int w = 0; w < words; w++)
            usable[w] &= map_nodes[m * words + w];
}

static inline int gains_in_next(int m, const uint64_t *of)
{
    for (int w = 0; w < words; w++)
        if (map_nodes[(m + 1) * words + w] & ~map_nodes[m * words + w] & of[w])
            return 1;
    return 0;
}

static int find_later(int part, int m, int end)
{
    int late = conf.release >= 2411;
    const uint64_t *of = members[late ? part : 0];
    for (; m + 1 < maps; m++) {
        if (gains_in_next(m, of))
            return map_at[m + 1];
        if (map_at[m] > end)
            return late && m + 2 < maps ? map_at[m + 2] : NEVER;
    }
    return NEVER;
}

static int is_free(int begin, int end)
{
    int grid = (int)conf.bf_resolution;
    begin = begin / grid * grid;
    end = plan_end(end);
    for (int m = first_map(0, begin); m < maps && map_at[m] < end; m++)
        if (!holds_all(map_nodes + m * words, chosen))
            return 0;
    return 1;
}

/* The first set of `fits` behind `gone` with enough usable nodes, `busy` + 1 where none has. */
static int first_with_enough(const uint64_t *usable, int gone, int need)
{
    int low = gone + 1, high = busy + 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (count_both(usable, fits + middle * words) < need)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The end that is looked at first with enough usable nodes: its set of `fits`, or NOWHERE. Ends come
 * behind set `gone`, and not after `later`. */
static int look_at_ends(const uint64_t *usable, int gone, int later, int need)
{
    int enough = first_with_enough(usable, gone, need), last = NOWHERE, first = 0, window = WINDOW_S;
    if (enough > busy || busy_end[enough - 1] > later)
        return NOWHERE;
    for (int b = gone; b < busy && busy_end[b] <= later; b++) {
        if (!meet(usable, busy_nodes + b * words))
            continue;
        if (last == NOWHERE)
            first = (busy_end[b] / WINDOW_S + 1) * WINDOW_S;
        last = b + 1;
        if (b + 1 == busy || busy_end[b + 1] <= first + window)
            continue;
        if (last >= enough)
            return last;
        while (busy_end[b + 1] > first + window)
            window *= 2;
    }
    return last;
}

/* The planned start, or NEVER; `chosen` has the nodes. */
static int plan_2205(int row)
{
    int part = part_of[row], need = nodes_of[row], limit = limit_of[row], m = 0;
    uint64_t usable[words];
    for (int begin = now; begin != NEVER;) {
        m = first_map(m, begin);
        keep_usable(part, m, begin + limit, usable);
        int set = count_both(usable, fits) >= need ? 0 : look_at_ends(usable, 0, NEVER, need);
        int later = find_later(part, m, begin + limit);
        int at = set > 0 ? busy_end[set - 1] : now;
        at = at > begin ? at : begin;
        if (set == NOWHERE || at > later) {
            begin = later;
            continue;
        }
        if (at > now + conf.bf_window)
            return NEVER;
        choose(usable, fits + set * words, need);
        if (at == now || is_free(at, at + limit))
            return at;
        begin = at > begin ? at : later;
    }
    return NEVER;
}

/* The last job up to set `set` that has one of the chosen nodes. */
static int last_holder(int set)
{
    while (!meet(chosen, busy_nodes + (set - 1) * words))
        set--;
    return set;
}

static int plan_2411(int row)
{
    int part = part_of[row], need = nodes_of[row], limit = limit_of[row], m = 0, gone = 0;
    uint64_t usable[words];
    for (int begin = now; begin != NEVER;) {
        if (begin > map_at[maps])
            return NEVER;
        m = first_map(m, begin);
        keep_usable(part, m, begin + limit, usable);
        int later = find_later(part, m, begin + limit), at = begin;
        while (begin > now && gone < busy && busy_end[gone] < begin + (conf.release >= 2605))
            gone++;
        int set = gone;
        if (count_both(usable, fits + gone * words) < need) {
            set = look_at_ends(usable, gone, later, need);
            if (set == NOWHERE) {
                begin = later;
                continue;
            }
            choose(usable, fits + set * words, need);
            at = busy_end[(conf.release >= 2605 ? last_holder(set) : set) - 1];
        } else {
            choose(usable, fits + gone * words, need);
        }
        if (at == now || is_free(at, at + limit))
            return at <= now + conf.bf_window ? at : NEVER;
        begin = at > begin ? at : begin + (int)conf.bf_resolution;
    }
    return NEVER;
}

/* The pass */

static int *named_reach[PARTITIONS]; /* by number of nodes: the longest limit that could start now */

static void measure_named_reach(void)
{
    uint64_t left[words];
    for (int part = 0; part < PARTITIONS; part++) {
        int lowest = cluster_nodes;
        for (int w = 0; w < words; w++)
            left[w] = idle[w] & members[part][w];
        for (int m = first_map(0, now); m < maps && lowest > 0; m++) {
            for (int w = 0; w < words; w++)
                left[w] &= map_nodes[m * words + w];
            for (int free = count_both(left, left); lowest > free; lowest--)
                named_reach[part][lowest] = map_at[m] - now - 1;
        }
        for (; lowest >= 0; lowest--)
            named_reach[part][lowest] = INT_MAX;
    }
}

static int last_named_that_fits(const View *q, int from, int last)
{
    measure_named_reach();
    while (last >= from && q->limit[last] > named_reach[part_of[q->row[last]]][q->nodes[last]])
        last--;
    return last;
}

static void backfill_pass_named(void)
{
    View q = in_order((int)conf.bf_max_job_test);
    int last = q.len - 1, count = 0;
    passes++;
    last_backfill = now;
    backfill_at = NEVER;
    make_maps();
    if (!full_plans && (last = last_named_that_fits(&q, 0, last)) < 0)
        return;
    refresh_fits(0);
    for (int i = 0; i <= last; i++) {
        int row = q.row[i], at = conf.release >= 2411 ? plan_2411(row) : plan_2205(row);
        tests++;
        if (at == NEVER)
            continue;
        if (at == now) {
            start_named(row);
            starters[count++] = row;
            refresh_fits(0);
            if (conf.release >= 2411)
                lose(chosen, map_at[0], plan_end(now + limit_of[row]));
        } else {
            lose(chosen, at / (int)conf.bf_resolution * (int)conf.bf_resolution, plan_end(at + limit_of[row]));
        }
        if (!full_plans && at - conf.bf_resolution <= now + q.limit[last])
            last = last_named_that_fits(&q, i + 1, last);
    }
    for (int i = 0; i < count; i++)
        dequeue(starters[i]);
}

static Set get_sets(size_t count)
{
    return get(count * (size_t)words, sizeof(uint64_t));
}

static void make_named_state(void)
{
    size_t most = (size_t)cluster_nodes + 1, most_maps = 2 * (size_t)conf.bf_max_job_test + 2 * most;
    words = (cluster_nodes + 63) / 64;
    for (int part = 0; part < PARTITIONS; part++) {
        members[part] = get_sets(1);
        named_reach[part] = get(most, sizeof(int));
        for (int node = 0; node < (part ? conf.second_partition : cluster_nodes); node++)
            members[part][node / 64] |= (uint64_t)1 << node % 64;
    }
    idle = get_sets(1);
    memcpy(idle, members[0], (size_t)words * sizeof *idle);
    chosen = get_sets(1);
    busy_end = get(most, sizeof(int));
    busy_row = get(most, sizeof(int));
    busy_nodes = get_sets(most);
    fits = get_sets(most + 1);
    run_first = get(most, sizeof(int));
    run_size = get(most, sizeof(int));
    map_at = get(most_maps + 1, sizeof(int));
    map_nodes = get_sets(most_maps);
}
