# --- loops beside the script, which end with the link ----------------------------------------------
#
#   reads   settings; mirage_index, mirage_next, mirage_job, mirage_since; MIRAGE_DEADLINE
#   sets    mirage_loops (the loops' process ids), mirage_sleeper (in a loop: the sleep to be killed)
#   writes  beat/LINK, ended.JOB.TIME (for loops that are not ready for VTALRM yet)

# Run a command beside the script, in a shell that only mirage_end_loops ends, by VTALRM. A warning
# signal for the whole job must not end a loop. A signal that is ignored on entry cannot be trapped
# (nohup's HUP); Slurm cannot name VTALRM, and nobody ignores it. If VTALRM comes before its trap is
# set it is lost; then the file ended.JOB.TIME ends the loop.
mirage_start_loop() {
    (
        trap '' HUP INT QUIT USR1 USR2 ALRM TERM
        mirage_sleeper=
        trap '[ -z "$mirage_sleeper" ] || kill -s KILL "$mirage_sleeper"; exit 0' VTALRM
        [ ! -e "$mirage_dir/ended.$mirage_job.$mirage_since" ] || exit 0
        "$@"
    ) </dev/null >/dev/null 2>&1 &
    mirage_loops="$mirage_loops $!"
}

# End all loops, and wait for them: one of them may be submitting the next link.
mirage_end_loops() {
    [ -n "$mirage_loops" ] || return 0
    { true >"$mirage_dir/ended.$mirage_job.$mirage_since"; } 2>/dev/null
    # shellcheck disable=SC2086 # a list of numbers, here and below
    kill -s VTALRM $mirage_loops 2>/dev/null
    # shellcheck disable=SC2086
    wait $mirage_loops # a loop may be submitting just now
    mirage_drop "ended.$mirage_job.$mirage_since"
    mirage_loops=
}

# Sleep for $1 seconds in a loop. The shell handles a trapped signal only after a foreground
# command, so the sleep is a background child. The loop also ends if the carrier is gone.
mirage_sleep() {
    sleep "$1" &
    mirage_sleeper=$!
    wait "$mirage_sleeper"
    mirage_sleeper=
    kill -0 "$$" 2>/dev/null || exit 0
}

# Write the heartbeat of this link every mirage_beat_s seconds. This asks Slurm nothing.
mirage_keep_heartbeat() {
    while mirage_put "beat/$mirage_index" "$(date +%s)" || :; do
        mirage_sleep "$mirage_beat_s"
    done
}

# --- mode `submit`: the service says when the next link is to be submitted --------------------------

# Ask the service when to submit the next link, and submit it then. If the service does not answer
# twice, or ten minutes are left, submit the link as a standby.
mirage_submit_when_due() {
    mirage_failed_questions=0
    while [ "$mirage_failed_questions" -lt 2 ] && ! mirage_is_next_submitted && mirage_has_time; do
        mirage_answer=$(MIRAGE_URL=${MIRAGE_URL:-$mirage_url} &&
            MIRAGE_CLUSTER_NAME=${MIRAGE_CLUSTER_NAME:-$mirage_cluster} &&
            export MIRAGE_URL MIRAGE_CLUSTER_NAME &&
            mirage_limit 30 /usr/bin/python3 -IS "$mirage_plugin/mirage_next.py" "$mirage_chain" \
                2>&1) || mirage_answer="no: $mirage_answer"
        case $mirage_answer in
        now)
            mirage_failed_questions=0 mirage_pause=$mirage_pace_s
            mirage_is_young || ! mirage_ensure_standby '' || return 0
            ;;
        'wait '*)
            mirage_failed_questions=0
            mirage_number "${mirage_answer#wait }" "$mirage_pace_s" && mirage_pause=$mirage_n
            ;;
        *)
            mirage_failed_questions=$((mirage_failed_questions + 1)) mirage_pause=$mirage_pace_s
            ;;
        esac
        [ "$mirage_failed_questions" -ge 2 ] || mirage_sleep_until_question
    done
    ! mirage_is_next_submitted || return 0 # `mirage-link next` has submitted it
    mirage_answer="the service gave no answer (${mirage_answer#no: })"
    mirage_has_time || mirage_answer="ten minutes or less are left of the time limit"
    mirage_log "link $mirage_next is submitted as a standby: $mirage_answer"
    mirage_ensure_standby "afterany:$mirage_job" || mirage_retry_standby
}

# Has this link not yet run for the least run time? Set mirage_pause to the rest. Whatever the
# service answers, the next link is not submitted before: a failure sooner than that counts against
# the chain.
mirage_is_young() {
    mirage_n=$((mirage_min_runtime - $(date +%s) + mirage_script_at))
    [ "$mirage_n" -gt 0 ] && mirage_pause=$mirage_n
}

# Are more than ten minutes left of the time limit?
mirage_has_time() {
    [ -z "$MIRAGE_DEADLINE" ] || [ "$((MIRAGE_DEADLINE - $(date +%s)))" -gt 600 ]
}

# Sleep for mirage_pause seconds, but not into the last ten minutes.
mirage_sleep_until_question() {
    [ "$mirage_pause" -ge 1 ] || mirage_pause=1
    if [ -n "$MIRAGE_DEADLINE" ]; then
        mirage_n=$((MIRAGE_DEADLINE - 600 - $(date +%s)))
        [ "$mirage_n" -ge "$mirage_pause" ] || mirage_pause=$mirage_n
        [ "$mirage_pause" -ge 1 ] || return 0
    fi
    mirage_sleep "$mirage_pause"
}
