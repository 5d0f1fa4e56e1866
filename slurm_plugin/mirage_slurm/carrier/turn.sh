# --- the turn: in a sequential chain no line of the script runs before the link before has ended ----
#
#   reads   settings; mirage_state and the other variables of the guard; beat/, ends/, deadline/,
#           handover/lease/, grace and the markers done, stop, paused; Slurm, seldom
#   sets    mirage_behind and mirage_awaited_link (the job to wait for, and its link), mirage_must_wait,
#           mirage_waiting (non-empty during a wait), mirage_waited, mirage_warnings (signals that came
#           during the wait), mirage_expired_job (a job that counts as ended though Slurm is silent)
#   writes  waits/LINK, started/LINK, grace, lost.LINK, paused; another job of this link in Slurm

# Must this link of a sequential chain wait? Set mirage_behind, the job to wait for, and mirage_why.
mirage_has_to_wait() {
    [ "$mirage_style" = sequential ] && [ "$mirage_index" -gt 1 ] || return 1
    if [ -n "$mirage_completing" ]; then
        mirage_behind=$MIRAGE_PREV_JOBID mirage_why="the job is about to end"
    elif [ -n "$mirage_silent" ]; then
        mirage_behind=$MIRAGE_PREV_JOBID mirage_why="Slurm does not answer"
    elif [ -n "$mirage_state" ] && ! mirage_is_not_running "$mirage_state"; then
        mirage_behind=$MIRAGE_PREV_JOBID mirage_why="the job still runs"
    elif mirage_find_earlier_job; then # a link before the predecessor
        mirage_behind=$mirage_earlier_job mirage_why="the job still runs"
    else
        return 1
    fi
    [ "$mirage_behind" != "$mirage_expired_job" ] || return 1
    mirage_find_awaited_link
    ! mirage_has_released_lease
}

# Set mirage_awaited_link to the number of the link whose job is mirage_behind.
mirage_find_awaited_link() {
    mirage_awaited_link=$((mirage_index - 1))
    while [ "$mirage_awaited_link" -gt 1 ] && [ "$(mirage_get "jobs/$mirage_awaited_link")" != "$mirage_behind" ]; do
        mirage_awaited_link=$((mirage_awaited_link - 1))
    done
}

# Has the awaited link released its lease (mirage-link handover release)? Then it writes no more,
# though its job may still run.
mirage_has_released_lease() {
    [ "$mirage_style" = sequential ] || return 1
    mirage_newest=0
    for mirage_file in "$mirage_dir"/handover/lease/*; do
        mirage_number "${mirage_file##*/}" 0
        [ "$mirage_n" -le "$mirage_newest" ] || mirage_newest=$mirage_n
    done
    mirage_is_listed handover/lease "$mirage_newest.free" || return 1
    mirage_read "handover/lease/$mirage_newest"
    case $mirage_line in
    "$mirage_awaited_link $mirage_behind "*) ;;
    *) return 1 ;;
    esac
}

# Wait as long as a wait is needed, then claim the link. Leave if the link may not begin.
mirage_take_turn() {
    until [ -z "$mirage_must_wait" ] && mirage_claim_alone; do
        mirage_unclaim
        mirage_must_wait= mirage_waiting=yes
        mirage_find_awaited_link
        [ -n "$mirage_loops" ] || mirage_live_while_waiting
        mirage_await_end
        [ -z "$mirage_reason" ] || mirage_end_waiting
        [ -z "$mirage_warnings" ] || mirage_heed_warning
        mirage_find_previous
        mirage_may_begin || mirage_leave
        ! mirage_has_to_wait || mirage_must_wait=yes
    done
    [ -n "$mirage_waiting" ] || return 0
    [ -z "$mirage_reason" ] || mirage_end_waiting
    mirage_waiting= mirage_early_signals=$mirage_early_signals$mirage_warnings
}

# Claim the link, and check that no other link has claimed at the same moment. Each of two such
# links sees the other, and one of them goes back to waiting.
mirage_claim_alone() {
    mirage_claim || mirage_leave
    mirage_claimed=yes
    mirage_take_over
    [ -z "$mirage_must_wait" ] || return 1
    [ "$mirage_style" = sequential ] && [ "$mirage_index" -gt 1 ] || return 0
    mirage_find_later_links started
    mirage_why="link ${mirage_later##* } has begun meanwhile"
    [ -z "$mirage_later" ] || mirage_leave
    mirage_k=$mirage_previous
    mirage_find_previous
    [ "$mirage_previous" -eq "$mirage_k" ] && return 0
    mirage_behind=$MIRAGE_PREV_JOBID mirage_must_wait=yes
    mirage_why="the job has begun at this very moment"
    return 1
}

# --- the wait: look at the chain's files every few seconds, and ask Slurm when the files suggest it ---

# Wait until job $mirage_behind has ended. Stop on a signal, when the chain is over, or when Slurm
# is silent and the job's time limit has passed.
mirage_await_end() {
    mirage_put "waits/$mirage_index" "$mirage_awaited_link $mirage_behind"
    mirage_say "waits for link $mirage_awaited_link (job $mirage_behind): $mirage_why; the script starts after the job has ended"
    mirage_wait_since=$(date +%s)
    mirage_begin_wait
    until [ -n "$mirage_reason$mirage_warnings" ] || mirage_is_halted_now || mirage_has_released_lease; do
        if mirage_should_ask && mirage_has_awaited_ended; then
            break
        fi
        mirage_pause_between_looks
        mirage_unasked_s=$((mirage_unasked_s + mirage_look_s)) mirage_still_s=$((mirage_still_s + mirage_look_s))
    done
    mirage_waited=yes
    mirage_log "waited $(($(date +%s) - mirage_wait_since)) s for link $mirage_awaited_link (job $mirage_behind)"
}

# Start the counters of a wait. Slurm's answer to the guard counts as the first answer.
mirage_begin_wait() {
    mirage_warnings=$mirage_early_signals$mirage_warnings mirage_early_signals=
    mirage_unasked_s=0 mirage_still_s=0 mirage_questions=0 mirage_own_end= mirage_last_end= mirage_answered_job=
    [ "$mirage_behind" != "$MIRAGE_PREV_JOBID" ] || mirage_last_end=$mirage_ends
    mirage_read "beat/$mirage_awaited_link"
    mirage_seen_beat=$mirage_line
    mirage_has_heartbeat "$mirage_awaited_link" || mirage_still_s=$((3 * mirage_beat_s))
    mirage_find_grace
}

# Set mirage_grace_s to the seconds that a job may run after its time limit: KillWait and
# OverTimeLimit of slurm.conf. The chain asks Slurm once a day, and keeps the answer in the file
# grace.
mirage_find_grace() {
    mirage_grace_s=30
    mirage_read grace
    mirage_number "${mirage_line#* }" 0
    mirage_n=$(($(date +%s) - mirage_n))
    if [ "$mirage_n" -lt 86400 ] && [ "$mirage_n" -gt -600 ]; then
        mirage_number "${mirage_line%% *}" 30 && mirage_grace_s=$mirage_n
        return 0
    fi
    # shellcheck disable=SC2046 # the words are to be split
    set -- $(mirage_slurm 20 scontrol show config 2>/dev/null |
        sed -n 's/^KillWait  *= \([0-9]*\) .*/KillWait \1/p; s/^OverTimeLimit  *= \([0-9A-Z]*\) *.*/OverTimeLimit \1/p')
    mirage_parse_grace "$@"
    [ $# -lt 4 ] || mirage_put grace "$mirage_grace_s $(date +%s)"
}

# Set mirage_grace_s from scontrol's words "KillWait N" and "OverTimeLimit N".
mirage_parse_grace() {
    while [ $# -ge 2 ]; do
        mirage_number "$2" 0
        case $1,$2 in
        OverTimeLimit,UNLIMITED) mirage_grace_s=315360000 ;;
        OverTimeLimit,*) mirage_grace_s=$((mirage_grace_s + 60 * mirage_n)) ;;
        KillWait,*) mirage_grace_s=$((mirage_grace_s - 30 + mirage_n)) ;;
        esac
        shift 2
    done
}

# Is the chain done, stopped or paused, by a fresh listing of its directory?
mirage_is_halted_now() {
    mirage_is_listed . 'done' || mirage_is_listed . stop || mirage_is_listed . paused
}

# Is it time to ask Slurm about the awaited job? At each look once the link has written its end;
# each mirage_pace_s if the heartbeat stands still or Slurm did not answer; else seldom.
mirage_should_ask() {
    mirage_read "beat/$mirage_awaited_link"
    [ "$mirage_line" = "$mirage_seen_beat" ] || mirage_still_s=0
    mirage_seen_beat=$mirage_line mirage_line=
    ! mirage_is_listed ends "$mirage_awaited_link" || mirage_read "ends/$mirage_awaited_link"
    if [ "$mirage_line" != "$mirage_own_end" ]; then
        mirage_own_end=$mirage_line mirage_questions=0 mirage_own_end_at=$(date +%s)
        return 0
    fi
    if [ -n "$mirage_own_end" ] && [ -z "$mirage_silent" ] && [ "$mirage_questions" -lt 30 ]; then
        return 0
    fi
    mirage_n=$((60 * mirage_pace_s))
    if [ -n "$mirage_own_end$mirage_silent" ] || mirage_is_heartbeat_still; then
        mirage_n=$mirage_pace_s
    fi
    [ "$mirage_unasked_s" -ge "$mirage_n" ]
}

# Has the awaited link's heartbeat not moved for three periods?
mirage_is_heartbeat_still() {
    [ "$mirage_still_s" -ge "$((3 * mirage_beat_s))" ]
}

# Has job mirage_behind ended in Slurm, or gone back into the queue? COMPLETING is no end. If Slurm
# does not answer, the job counts as ended only when its time limit is over.
mirage_has_awaited_ended() {
    mirage_unasked_s=0 mirage_questions=$((mirage_questions + 1)) mirage_silent=
    mirage_query_job "$mirage_behind"
    if [ -n "$mirage_job_state" ]; then
        [ -z "$mirage_job_end" ] || mirage_last_end=$mirage_job_end
        mirage_is_not_running "$mirage_job_state" && mirage_answered_job=$mirage_behind
        return
    fi
    mirage_silent=yes
    # A link whose heartbeat moves runs, whatever its deadline: somebody has lengthened the time limit.
    mirage_is_heartbeat_still && mirage_is_past_time_limit || return 1
    mirage_expired_job=$mirage_behind
    mirage_say "Slurm does not answer, but the time limit of job $mirage_behind is over: the job can run no more"
}

# Is $1 the state of a job that does not run now? An unknown word counts as running.
mirage_is_not_running() {
    case $1 in
    forgotten | PENDING | REQUEUED | REQUEUE_HOLD | REQUEUE_FED | SPECIAL_EXIT | REVOKED | RESV_DEL_HOLD) ;;
    *) mirage_is_end_state "$1" ;;
    esac
}

# Is the awaited job's time limit over? Take the latest end that Slurm or the link itself has
# stated. For a job without a time limit take the end that the link wrote; if nothing is known, the
# longest overlap.
mirage_is_past_time_limit() {
    mirage_read "deadline/$mirage_awaited_link"
    mirage_number "$mirage_line" ''
    if [ -z "$mirage_n" ] || { [ -n "$mirage_last_end" ] && [ "$mirage_last_end" -gt "$mirage_n" ]; }; then
        mirage_n=$mirage_last_end
    fi
    if [ -z "$mirage_n" ] && [ -n "$mirage_own_end" ]; then
        mirage_n=$mirage_own_end_at
    elif [ -z "$mirage_n" ] && [ -z "$mirage_line" ]; then
        mirage_n=$((mirage_since + ${mirage_max_overlap:-14400}))
    fi
    [ -n "$mirage_n" ] && [ "$(date +%s)" -gt "$((mirage_n + mirage_grace_s))" ]
}

# Sleep until the next look, in the foreground: the shell handles a signal after that. bash's `wait`
# may lose the end of a child that dies of the same signal.
mirage_pause_between_looks() {
    # shellcheck disable=SC2217 # the sleep must hold none of the script's streams
    { sleep "$mirage_look_s" </dev/null >/dev/null; } 2>/dev/null || :
}

# --- a link that is ended, or warned, before its script has begun -----------------------------------

# End this job, which Slurm or somebody has ended before its script began. The link is then treated
# like a standby: after a first cancellation it is submitted anew, after a second one the chain pauses.
mirage_end_waiting() {
    case $mirage_reason in
    requeued | node_fail) ;; # Slurm has put the job back into the queue
    *) mirage_is_halted || mirage_replace_or_pause ;;
    esac
    mirage_unclaim
    mirage_end_loops
    mirage_drop "waits/$mirage_index"
    exit 143
}

# Submit this link anew, or pause the chain. If all links were queued from the start, the chain goes
# on with the link after this one.
mirage_replace_or_pause() {
    if [ "$mirage_reason" != cancelled ]; then
        mirage_replace_itself # the time limit was reached, or the job was preempted
    elif [ "$mirage_presubmit" = all ]; then
        mirage_say "link $mirage_index was cancelled before it began: the chain goes on without it"
    elif [ -e "$mirage_dir/lost.$mirage_index" ]; then
        mirage_pause_for_lost "$mirage_index"
        mirage_cancel_queued_links
    elif mirage_put "lost.$mirage_index" "$mirage_job"; then
        mirage_replace_itself
    fi
}

# Pause the chain, since link $1 was cancelled twice before it began: whoever does that means the
# chain.
mirage_pause_for_lost() {
    mirage_why="link $1 was cancelled twice before it began"
    mirage_put paused "$mirage_why"
    mirage_say "the chain is paused: $mirage_why; to go on: mirage-link resume $mirage_chain"
}

# Submit another job of this link that waits for the same job as this one.
mirage_replace_itself() {
    mirage_resubmit_behind || return 1
    mirage_say "link $mirage_index (job $mirage_job) was ended before its script began: the link now waits behind job $mirage_behind, as job $mirage_new"
}

# A signal has warned this job while it waited. The script has not seen the signal, and too little
# time is left for it: let another job of this link run the script. If that cannot be submitted,
# wait on.
mirage_heed_warning() {
    mirage_why="a signal (${mirage_warnings# }) came before the script began"
    mirage_warnings=
    mirage_is_halted || ! mirage_resubmit_behind || mirage_leave_to_new_job
}

# Leave, since another job of this link is queued.
mirage_leave_to_new_job() {
    mirage_why="$mirage_why: link $mirage_index now waits behind job $mirage_behind, as job $mirage_new"
    mirage_leave
}

# --- without the chain's directory: by the marks of the chain's links in the queue ------------------

# Wait until no earlier link runs, by the marks in the queue: the chain's directory cannot be used.
mirage_await_by_queue() {
    [ "$mirage_style" = sequential ] && [ "$mirage_index" -gt 1 ] || return 0
    mirage_waiting=yes mirage_last_end= mirage_own_end= mirage_line= mirage_grace_s=30
    mirage_unasked_s=$mirage_pace_s
    until [ -n "$mirage_reason" ] ||
        { [ "$mirage_unasked_s" -ge "$mirage_pace_s" ] && mirage_unasked_s=0 && mirage_has_queue_cleared; }; do
        mirage_pause_between_looks
        mirage_unasked_s=$((mirage_unasked_s + mirage_look_s))
    done
    mirage_waiting= mirage_early_signals=$mirage_early_signals$mirage_warnings
}

# Does the queue show no earlier link of the chain that runs? If Slurm is silent, the last seen time
# limit counts.
mirage_has_queue_cleared() {
    if mirage_queue=$(mirage_slurm 60 squeue -h --all -u "$(id -un)" -o '%k %i %T %e' 2>/dev/null); then
        # shellcheck disable=SC2046 # two words are to be split
        set -- $(printf '%s\n' "$mirage_queue" | mirage_list_earlier_jobs | tail -n 1)
        [ $# -gt 0 ] || return 0
        [ "$1" = "$mirage_behind" ] || mirage_say "waits for job $1, an earlier link that still runs"
        mirage_behind=$1
        mirage_number "$2" "$mirage_last_end" && mirage_last_end=$mirage_n
        return 1
    fi
    mirage_is_past_time_limit
}

# Print "JOB END" for each running job of an earlier link among squeue's lines on standard input.
mirage_list_earlier_jobs() {
    while read -r mirage_text; do
        mirage_k=${mirage_text##* } mirage_text=${mirage_text% *}
        mirage_job_state=${mirage_text##* } mirage_text=${mirage_text% *}
        case $mirage_text,$mirage_job_state in
        *,PENDING | *,EXPEDITING) ;;
        *"mirage:$mirage_chain:"*)
            mirage_id=${mirage_text##* } mirage_text=${mirage_text% *}
            mirage_number "${mirage_text##*:}" "$mirage_index"
            [ "$mirage_n" -ge "$mirage_index" ] || echo "${mirage_id%%+*} $mirage_k"
            ;;
        esac
    done
}
