# --- the plan: when Slurm is to release the next link, though no program of Mirage runs then --------
#
# A loop beside the script calls mirage_plan.py, which writes the plan into the next link's dependency.
#   reads   settings; MIRAGE_DEADLINE; plans/LINK, whose first number is the instant of the next turn
#   sets    mirage_turn (1 to 3), mirage_was_suspended (since the last turn), mirage_why
#   writes  nothing itself; mirage_plan.py writes plans/LINK and the dependency in Slurm

# Start the planning loop, unless this chain or this node allows no plan. The standby is queued
# already, whatever comes of this.
mirage_start_planning() {
    [ "$mirage_index" -lt "$mirage_links" ] || return 0
    mirage_why=
    if [ "$mirage_mode" = submit ] || [ "$mirage_presubmit" = all ] ||
        [ "$mirage_max_overlap" = 0 ] || [ "$mirage_lead" = 0 ]; then
        return 0 # no standby, a standby behind several links, or one that is to start afterwards
    elif [ -n "${SLURM_HET_SIZE-}" ]; then
        mirage_why="the job is heterogeneous"
    elif [ -z "$MIRAGE_DEADLINE" ]; then
        mirage_why="the job has no time limit"
    elif mirage_uses_total_up; then
        mirage_why="this link uses the chain's total up"
    elif [ ! -x "$mirage_python" ] || [ ! -r "$mirage_plugin/mirage_plan.py" ]; then
        mirage_why="$mirage_python or $mirage_plugin is not on this node"
    fi
    if [ -n "$mirage_why" ]; then
        mirage_log "no plan: $mirage_why"
    else
        mirage_start_loop mirage_plan_in_turns
    fi
}

# Does this link use up the chain's total? Then there is no next link to release.
mirage_uses_total_up() {
    [ -n "$mirage_total" ] && mirage_sum_run_time &&
        [ "$((mirage_spent + MIRAGE_DEADLINE - $(date +%s) + 60))" -ge "$mirage_total" ]
}

# Plan once, and twice more nearer to the release. If the job was suspended, the job ends later,
# while the plan's clock runs on in Slurm: then take the same turn again, until the release.
mirage_plan_in_turns() {
    mirage_turn=1 mirage_was_suspended='' mirage_pause=$((10 * mirage_pace_s))
    mirage_sleep "$((1 + mirage_job % (mirage_pace_s + 1)))" # links that start together do not all ask at once
    while [ "$mirage_turn" -le 3 ]; do
        mirage_turn_began=$(date +%s)
        if mirage_plan_once; then
            mirage_read "plans/$mirage_index"
            mirage_number "${mirage_line%% *}" 0
            [ "$mirage_n" -gt 0 ] || return 0
            mirage_pause=$((10 * mirage_pace_s))
            if mirage_planned_promptly && mirage_sleep_until "$mirage_n"; then
                mirage_turn=$((mirage_turn + 1)) mirage_was_suspended=
            else
                mirage_was_suspended=1
            fi
        else # nothing was planned: an earlier link still runs, or Slurm does not answer
            mirage_planned_promptly || mirage_was_suspended=1
            mirage_sleep_until "$(($(date +%s) + mirage_pause))" || mirage_was_suspended=1
            [ "$mirage_pause" -ge 3600 ] || mirage_pause=$((2 * mirage_pause))
        fi
    done
}

# Did the planning program end within its time? If not, the job was suspended meanwhile: the program
# ends itself after two minutes.
mirage_planned_promptly() {
    [ "$(($(date +%s) - mirage_turn_began))" -le 240 ]
}

# Run mirage_plan.py once, as a child of its own: the end of the link does not wait for it. The
# program's words are NAME=VALUE; a running chain of an older release calls it with the same names.
mirage_plan_once() {
    MIRAGE_URL=${MIRAGE_URL:-$mirage_url} MIRAGE_CLUSTER_NAME=${MIRAGE_CLUSTER_NAME:-$mirage_cluster} \
        "$mirage_python" -IS "$mirage_plugin/mirage_plan.py" "dir=$mirage_dir" "chain=$mirage_chain" \
        "link=$mirage_index" "job=$mirage_job" "turn=$mirage_turn" "jumped=$mirage_was_suspended" \
        "beat_s=$mirage_beat_s" "style=$mirage_style" \
        "price=$mirage_price" "max_overlap=$mirage_stated_overlap" "lead=$mirage_lead" \
        "service=$mirage_service" "plans=$mirage_plans" "max_lead=$mirage_max_lead" \
        "returns=$mirage_returns" "max_returns=$mirage_max_returns" \
        "min_runtime=$mirage_min_runtime" "partition=${SLURM_JOB_PARTITION-}" "qos=${SLURM_JOB_QOS-}" &
    mirage_sleeper=$!
    wait "$mirage_sleeper"
    mirage_k=$?
    mirage_sleeper=
    return "$mirage_k"
}

# Sleep until the instant $1. Fail early if the clock has jumped: then the job was suspended.
mirage_sleep_until() {
    while mirage_k=$(date +%s) && [ "$mirage_k" -lt "$1" ]; do
        mirage_n=$(($1 - mirage_k))
        [ "$mirage_n" -le "$mirage_beat_s" ] || mirage_n=$mirage_beat_s
        mirage_sleep "$mirage_n"
        [ "$(($(date +%s) - mirage_k))" -le "$((mirage_n + 120))" ] || return 1
    done
}
