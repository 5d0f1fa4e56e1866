# --- the plan: when Slurm is to release the next link, with nobody alive ---------------------------

mirage_plan_release() { # beside the script. The standby stands already, whatever comes of this
    [ "$mirage_index" -lt "$mirage_links" ] || return 0
    mirage_why=
    if [ "$mirage_mode" = submit ] || [ "$mirage_presubmit" = all ] ||
        [ "$mirage_max_overlap" = 0 ] || [ "$mirage_lead" = 0 ]; then
        return 0 # nothing stands yet, stands behind more than this link, or is to start after it
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
        mirage_start_loop mirage_plan_on
    fi
}

mirage_uses_total_up() { # then there is no next link to be released
    [ -n "$mirage_total" ] && mirage_sum_up &&
        [ "$((mirage_spent + MIRAGE_DEADLINE - $(date +%s) + 60))" -ge "$mirage_total" ]
}

mirage_plan_on() { # once, and twice more nearer to the release. A job that is suspended ends later, and
    # the clock of its plan runs on in Slurm: after that this turn is taken anew, until the release
    mirage_turn=1 mirage_jumped='' mirage_pause=$((10 * mirage_pace_s))
    mirage_nap "$((1 + mirage_job % (mirage_pace_s + 1)))" # not all that start together at once
    while [ "$mirage_turn" -le 3 ]; do
        mirage_asked_at=$(date +%s)
        if mirage_plan_once; then
            mirage_read "plans/$mirage_index"
            mirage_number "${mirage_line%% *}" 0
            [ "$mirage_n" -gt 0 ] || return 0
            mirage_pause=$((10 * mirage_pace_s))
            if mirage_ran_through && mirage_nap_until "$mirage_n"; then
                mirage_turn=$((mirage_turn + 1)) mirage_jumped=
            else
                mirage_jumped=1
            fi
        else # not now: an earlier link still runs, or Slurm does not answer
            mirage_ran_through || mirage_jumped=1
            mirage_nap_until "$(($(date +%s) + mirage_pause))" || mirage_jumped=1
            [ "$mirage_pause" -ge 3600 ] || mirage_pause=$((2 * mirage_pause))
        fi
    done
}

mirage_ran_through() { # was the job not suspended while it planned? The program ends after two minutes
    [ "$(($(date +%s) - mirage_asked_at))" -le 240 ]
}

mirage_plan_once() { # a child of its own, which the end of the link does not wait for
    MIRAGE_URL=${MIRAGE_URL:-$mirage_url} MIRAGE_CLUSTER_NAME=${MIRAGE_CLUSTER_NAME:-$mirage_cluster} \
        "$mirage_python" -IS "$mirage_plugin/mirage_plan.py" "dir=$mirage_dir" "chain=$mirage_chain" \
        "link=$mirage_index" "job=$mirage_job" "turn=$mirage_turn" "jumped=$mirage_jumped" \
        "beat_s=$mirage_beat_s" "style=$mirage_style" \
        "price=$mirage_price" "max_overlap=$mirage_overlap_said" "lead=$mirage_lead" \
        "service=$mirage_service" "plans=$mirage_plans" "max_lead=$mirage_max_lead" \
        "returns=$mirage_returns" "max_returns=$mirage_max_returns" \
        "min_runtime=$mirage_min_runtime" "partition=${SLURM_JOB_PARTITION-}" "qos=${SLURM_JOB_QOS-}" &
    mirage_napping=$!
    wait "$mirage_napping"
    mirage_k=$?
    mirage_napping=
    return "$mirage_k"
}

mirage_nap_until() { # that instant; fails, sooner, where the clock has jumped: the job was suspended
    while mirage_k=$(date +%s) && [ "$mirage_k" -lt "$1" ]; do
        mirage_n=$(($1 - mirage_k))
        [ "$mirage_n" -le "$mirage_beat_s" ] || mirage_n=$mirage_beat_s
        mirage_nap "$mirage_n"
        [ "$(($(date +%s) - mirage_k))" -le "$((mirage_n + 120))" ] || return 1
    done
}
