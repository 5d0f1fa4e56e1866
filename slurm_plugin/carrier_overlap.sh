# --- too early: beside a link that has longer to run than the user allows --------------------------

mirage_too_early() { # sets mirage_behind, the job to stand behind, and mirage_why
    mirage_behind=
    [ "$mirage_index" -gt 1 ] || return 1
    if mirage_is_next_pending; then
        mirage_why="link $((mirage_index - 1)) has not begun"
        return 0
    fi
    if [ -n "$mirage_completing" ] && [ "$mirage_max_overlap" = 0 ]; then
        mirage_behind=$MIRAGE_PREV_JOBID
        mirage_why="job $mirage_behind is about to end"
        return 0
    fi
    mirage_find_beside || return 1
    mirage_bound_overlap
    if [ "$mirage_presubmit" = all ] &&
        [ "$mirage_beside" != "$(mirage_get "jobs/$((mirage_index - 1))")" ]; then
        mirage_why="job $mirage_beside of an earlier link still runs"
    elif [ -z "$mirage_left" ]; then
        mirage_why="job $mirage_beside runs without a known end"
    elif [ "$mirage_left" -gt "$mirage_bound" ]; then
        mirage_why="job $mirage_beside may run for $mirage_left s more, and links of this chain may overlap by $mirage_bound s at most"
    else
        return 1
    fi
    mirage_behind=$mirage_beside
}

mirage_bound_overlap() { # sets mirage_bound: how early a link may start. Where the user has not said, four
    # hours, or a quarter of the predecessor's time limit where that is less; the service's own rule
    # is default_max_overlap_s (mirage/domain/chain.py). Links that switch run nothing twice
    mirage_bound=14400
    if [ -n "$mirage_max_overlap" ]; then
        mirage_bound=$mirage_max_overlap
    elif [ "$mirage_style" = switch ]; then
        mirage_bound=315360000
    elif [ -n "$mirage_began" ] && [ -n "$mirage_ends" ] &&
        [ "$((mirage_ends - mirage_began))" -lt "$((4 * mirage_bound))" ]; then
        mirage_bound=$(((mirage_ends - mirage_began) / 4))
    fi
}

mirage_is_next_pending() { # is it the turn of the link before, which waits for a place yet, or in one?
    [ ! -e "$mirage_dir/started/$((mirage_index - 1))" ] &&
        mirage_behind=$(mirage_get "jobs/$((mirage_index - 1))") || return 1
    case $(mirage_ask "$mirage_behind" %T) in
    PENDING | EXPEDITING) [ ! -e "$mirage_dir/requeued/$mirage_index" ] ;; # no allocation waits for what has none
    RUNNING) [ -e "$mirage_dir/waits/$((mirage_index - 1))" ] ;;
    *) return 1 ;;
    esac
}

mirage_find_beside() { # the latest earlier link that still runs: sets mirage_beside, mirage_left
    mirage_beside= mirage_left=
    case $mirage_state in
    RUNNING | SUSPENDED | STOPPED | SIGNALING | STAGE_OUT | RESIZING | CONFIGURING | COMPLETING)
        mirage_beside=$MIRAGE_PREV_JOBID
        ;;
    *)
        # shellcheck disable=SC2046 # squeue's two words
        mirage_read_beside $(mirage_ask_beside)
        ;;
    esac
    [ -n "$mirage_beside" ] || return 1
    [ -z "$mirage_ends" ] || mirage_left=$((mirage_ends - $(date +%s)))
    [ -z "$mirage_left" ] || [ "$mirage_left" -ge 1 ] || mirage_left=1 # it is there all the same
}

mirage_ask_beside() { # of the links before the predecessor, those of which no end is known
    mirage_jobs= mirage_k=$((mirage_previous - 1))
    while [ "$mirage_k" -ge 1 ] && [ "$mirage_k" -gt "$((mirage_index - 50))" ]; do
        if [ -e "$mirage_dir/started/$mirage_k" ] && [ ! -e "$mirage_dir/ends/$mirage_k" ]; then
            mirage_jobs=${mirage_jobs:+$mirage_jobs,}$(mirage_get "jobs/$mirage_k")
        fi
        mirage_k=$((mirage_k - 1))
    done
    [ -n "$mirage_jobs" ] || return 0
    mirage_slurm 60 squeue -h -t RUNNING,SUSPENDED,COMPLETING -j "$mirage_jobs" \
        -o '%A %e' 2>/dev/null | sort -n | tail -n 1
}

mirage_read_beside() {
    mirage_beside=${1-}
    [ -z "$mirage_beside" ] || mirage_began= # that was of the predecessor
    mirage_number "${2-}" '' && mirage_ends=$mirage_n
}

mirage_step_back() { # put another job of this link behind that one; the caller then leaves. A job
    # cannot be given a dependency while it runs, and one that requeues itself is killed before it
    # can be given one: so the new job stands first, and this one goes after that.
    [ -z "$mirage_completing" ] && [ ! -e "$mirage_dir/requeued/$mirage_index" ] || return 1 # once
    mirage_stand_behind || return 1
    mirage_why="$mirage_why: link $mirage_index now waits behind job $mirage_behind, as job $mirage_new"
}

mirage_stand_behind() { # submit another job of this link, behind that one: sets mirage_new
    mirage_put "requeued/$mirage_index" "$mirage_behind" || return 1
    mirage_next=$mirage_index
    mirage_submit "afterany:$mirage_behind"
    mirage_next=$((mirage_index + 1))
    if [ -z "$mirage_new" ]; then
        mirage_say "link $mirage_index was not submitted behind job $mirage_behind: $mirage_error"
        return 1
    fi
    mirage_put "jobs/$mirage_index" "$mirage_new"
    mirage_move_later_links
}

mirage_move_later_links() { # those that stand already wait for the new job too
    mirage_term=afterany:$mirage_behind:$mirage_new
    mirage_later_links jobs
    # shellcheck disable=SC2086 # numbers
    for mirage_k in $(printf '%s\n' $mirage_later | sort -n); do
        mirage_id=$(mirage_get "jobs/$mirage_k")
        mirage_slurm 60 scontrol update "JobId=$mirage_id" "Dependency=$mirage_term" >/dev/null 2>&1
        mirage_term=$mirage_term:$mirage_id
    done
}

mirage_take_over() { # a predecessor that was requeued waits for a place that is this link's now
    [ "$mirage_index" -gt 1 ] && [ "$mirage_state" = PENDING ] || return 0
    mirage_put "passed.$mirage_previous" "$MIRAGE_PREV_JOBID" # first: CANCELLED may be read at once
    mirage_slurm 60 scancel --state=PENDING "$MIRAGE_PREV_JOBID" >/dev/null 2>&1
    mirage_log "took over from job $MIRAGE_PREV_JOBID, which was requeued"
    mirage_query "$MIRAGE_PREV_JOBID"
    if [ -z "$mirage_word" ] && [ "$mirage_style" = sequential ]; then # it may have begun
        mirage_behind=$MIRAGE_PREV_JOBID mirage_must_wait=yes
        mirage_why="Slurm does not answer"
    elif [ -n "$mirage_word" ] && ! mirage_is_settled "$mirage_word"; then # it has, at this very moment
        mirage_drop "passed.$mirage_previous"
        mirage_look_back
        ! mirage_too_early && ! mirage_has_to_wait || mirage_must_wait=yes
    else
        mirage_put "ends/$mirage_previous" requeued # where a lost node could not write it
    fi
}

# --- given back: where a new wait is expected to cost less than nodes that stand idle until the end --

mirage_give_back() { # put another job of this link into the queue, with a release of its own: sets mirage_why,
    # and the caller then leaves. Fails where this job keeps its nodes: mirage_give_back [BOUND], which
    # is max-overlap where that much is not allowed. mirage_tried: sbatch was asked
    mirage_tried=
    if mirage_is_held; then # no mirage_leave: waits/ is the other job's
        mirage_say "$mirage_why; the script is not run"
        exit 0
    fi
    mirage_may_return || return 1
    ! mirage_is_taken || mirage_leave
    mirage_waiting=yes # a signal comes to a link that has not begun
    mirage_ask_verdict "$1" && mirage_stand_again
    set -- $?
    [ "$1" = 0 ] || [ -z "$mirage_reason" ] || mirage_end_waiting
    mirage_waiting=
    return "$1"
}

mirage_is_held() { # does another job of this link wait for its turn? One that tried to give its nodes back, and
    # has not seen this one in the queue
    [ -e "$mirage_dir/returns/$mirage_index" ] && [ -e "$mirage_dir/waits/$mirage_index" ] || return 1
    mirage_holder=$(mirage_get "jobs/$mirage_index") && [ "$mirage_holder" != "$mirage_job" ] &&
        [ "$(mirage_ask "$mirage_holder" %T)" = RUNNING ] || return 1
    mirage_why="link $mirage_index waits already, as job $mirage_holder"
}

mirage_take_standby() { # two jobs of a link may have come to wait for its turn, where one that tried to give
    # its nodes back did not see the other in the queue. The next link may stand behind the one that
    # leaves: it is to wait for this one
    [ -n "$mirage_inherits" ] && [ -e "$mirage_dir/returns/$mirage_index" ] &&
        [ "$mirage_presubmit" = next ] && [ "${SLURM_RESTART_COUNT:-0}" = 0 ] || return 0
    mirage_slurm 60 scontrol update "JobId=$mirage_standby" "Dependency=afterany:$mirage_job" \
        >/dev/null 2>&1
}

mirage_may_return() { # by what is known here: behind the one link that runs, of which the end is known
    [ "$mirage_returns" -gt 0 ] && [ "$mirage_style" = sequential ] &&
        [ "$mirage_presubmit" = next ] && [ "$mirage_mode" = standby ] &&
        [ "$mirage_max_overlap" != 0 ] && [ "$mirage_lead" != 0 ] &&
        [ -z "${SLURM_HET_SIZE-}" ] && [ "${SLURM_RESTART_COUNT:-0}" = 0 ] || return 1
    [ "$mirage_state" = RUNNING ] && [ -z "$mirage_silent$mirage_completing" ] &&
        [ "$mirage_behind" = "$MIRAGE_PREV_JOBID" ] && [ -n "$mirage_left" ] &&
        [ "$mirage_previous" -eq "$((mirage_index - 1))" ] &&
        [ -e "$mirage_dir/started/$mirage_previous" ] || return 1
    [ -z "$mirage_unwritable$mirage_reason$mirage_early" ] &&
        [ -x "$mirage_python" ] && [ -r "$mirage_plugin/mirage_return.py" ]
}

mirage_ask_verdict() { # sets mirage_minutes and mirage_verdict, in words; the return is counted by then
    mirage_verdict=$(MIRAGE_URL=${MIRAGE_URL:-$mirage_url} &&
        MIRAGE_CLUSTER_NAME=${MIRAGE_CLUSTER_NAME:-$mirage_cluster} &&
        export MIRAGE_URL MIRAGE_CLUSTER_NAME &&
        mirage_limit 120 "$mirage_python" -IS "$mirage_plugin/mirage_return.py" "dir=$mirage_dir" \
            "chain=$mirage_chain" "link=$mirage_index" "job=$mirage_job" "behind=$mirage_behind" \
            "since=$mirage_since" \
            "left=$mirage_left" "bound=$1" "style=$mirage_style" "price=$mirage_price" \
            "lead=$mirage_lead" "service=$mirage_service" "plans=$mirage_plans" \
            "max_lead=$mirage_max_lead" "returns=$mirage_returns" \
            "max_returns=$mirage_max_returns" </dev/null 2>/dev/null)
    mirage_minutes=
    case $mirage_verdict in
    'back '*)
        mirage_verdict=${mirage_verdict#back }
        mirage_number "${mirage_verdict%% *}" '' && mirage_minutes=$mirage_n
        mirage_verdict=${mirage_verdict#* }
        ;;
    esac
    [ -z "$mirage_minutes" ] || return 0
    mirage_verdict=${mirage_verdict#keep }
    mirage_log "keeps its nodes: ${mirage_verdict:-no verdict}"
    return 1
}

mirage_stand_again() { # the new job first, then a look: for what it does not see in the queue no job leaves
    [ -z "$mirage_reason$mirage_warned" ] || return 1
    mirage_tried=yes mirage_next=$mirage_index
    mirage_submit "afterany:$mirage_behind?after:$mirage_behind+$mirage_minutes"
    mirage_find_new
    mirage_k=$?
    mirage_next=$((mirage_index + 1))
    if [ "$mirage_k" != 0 ]; then
        mirage_say "link $mirage_index keeps its nodes: ${mirage_error:-squeue does not show its new job}"
        return 1
    fi
    mirage_query "$mirage_behind"
    if mirage_is_stopped_short; then
        # One that stands on leaves by itself: this job waits already, or the chain is over.
        mirage_k="its new job $mirage_new stands"
        ! mirage_slurm 20 scancel --state=PENDING "$mirage_new" >/dev/null 2>&1 ||
            mirage_k="cancelled its new job $mirage_new"
        mirage_say "link $mirage_index does not give its nodes back: $mirage_cause; $mirage_k"
        return 1
    fi
    mirage_put "jobs/$mirage_index" "$mirage_new"
    mirage_move_later_links
    mirage_why="$mirage_verdict, as job $mirage_new"
}

mirage_is_stopped_short() { # has something come between, while Slurm was asked? sets mirage_cause
    mirage_find_rank
    if [ -n "$mirage_reason$mirage_warned" ]; then
        mirage_cause="a signal came"
    elif mirage_is_halted; then
        mirage_cause="the chain is done, stopped or paused"
    elif [ "$mirage_word" != RUNNING ]; then
        mirage_cause="job $mirage_behind is ${mirage_word:-not seen} now"
    elif mirage_has_let_go; then
        mirage_cause="link $mirage_rank writes no more"
    else
        return 1
    fi
}

mirage_find_new() { # sets mirage_new: the other job of this link, by its mark in the queue, whatever sbatch has
    # said. A restart of slurmctld may last as long as this looks
    set -- "$mirage_new"
    for mirage_pause in 0 $((mirage_pace_s / 6)) $((mirage_pace_s / 2)); do
        sleep "$mirage_pause"
        if mirage_new=$(mirage_standing); then
            [ -n "$mirage_new" ] && [ "${1:-$mirage_new}" = "$mirage_new" ]
            return
        fi
    done
    return 1
}
