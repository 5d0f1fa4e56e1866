# --- beside the script: loops that end with the link ----------------------------------------------

mirage_start_loop() { # a warning for the whole job must not end a loop, and a signal ignored on entry
    # cannot be trapped (nohup's HUP): so VTALRM, which Slurm cannot name and nobody ignores, ends it.
    # One that comes before the trap is set is lost, and then the file tells that the link has ended
    (
        trap '' HUP INT QUIT USR1 USR2 ALRM TERM
        mirage_napping=
        trap '[ -z "$mirage_napping" ] || kill -s KILL "$mirage_napping"; exit 0' VTALRM
        [ ! -e "$mirage_dir/ended.$mirage_job.$mirage_since" ] || exit 0
        "$@"
    ) </dev/null >/dev/null 2>&1 &
    mirage_loops="$mirage_loops $!"
}

mirage_end_loops() {
    [ -n "$mirage_loops" ] || return 0
    { true >"$mirage_dir/ended.$mirage_job.$mirage_since"; } 2>/dev/null
    # shellcheck disable=SC2086 # numbers, here and below
    kill -s VTALRM $mirage_loops 2>/dev/null
    # shellcheck disable=SC2086
    wait $mirage_loops # one may be about to submit
    mirage_drop "ended.$mirage_job.$mirage_since"
    mirage_loops=
}

mirage_nap() { # a trap waits for a command in the foreground, and `wait` for no trap; and a loop ends
    # with the link where nobody was left to end it
    sleep "$1" &
    mirage_napping=$!
    wait "$mirage_napping"
    mirage_napping=
    kill -0 "$$" 2>/dev/null || exit 0
}

mirage_beat() { # the heartbeat: a file, no question to Slurm
    while mirage_put "beat/$mirage_index" "$(date +%s)" || :; do
        mirage_nap "$mirage_beat_s"
    done
}

# --- mode `submit`: no link stands; the service says when the next one is to be submitted ----------

mirage_ask_service() { # where it is not reached, and in good time before the end, the standby after all
    mirage_misses=0
    while [ "$mirage_misses" -lt 2 ] && ! mirage_is_noted && mirage_has_time; do
        mirage_answer=$(MIRAGE_URL=${MIRAGE_URL:-$mirage_url} &&
            MIRAGE_CLUSTER_NAME=${MIRAGE_CLUSTER_NAME:-$mirage_cluster} &&
            export MIRAGE_URL MIRAGE_CLUSTER_NAME &&
            mirage_limit 30 /usr/bin/python3 -IS "$mirage_plugin/mirage_next.py" "$mirage_chain" \
                2>&1) || mirage_answer="no: $mirage_answer"
        case $mirage_answer in
        now)
            mirage_misses=0 mirage_pause=$mirage_pace_s
            mirage_is_young || ! mirage_stand '' || return 0
            ;;
        'wait '*)
            mirage_misses=0
            mirage_number "${mirage_answer#wait }" "$mirage_pace_s" && mirage_pause=$mirage_n
            ;;
        *)
            mirage_misses=$((mirage_misses + 1)) mirage_pause=$mirage_pace_s
            ;;
        esac
        [ "$mirage_misses" -ge 2 ] || mirage_nap_until_late
    done
    ! mirage_is_noted || return 0 # by `mirage-link next`
    mirage_answer="the service gave no answer (${mirage_answer#no: })"
    mirage_has_time || mirage_answer="ten minutes or less are left of the time limit"
    mirage_log "link $mirage_next is submitted as a standby: $mirage_answer"
    mirage_stand "afterany:$mirage_job" || mirage_stand_later
}

mirage_is_young() { # sets mirage_pause: whatever is answered, no link is submitted before this one has
    # run for the least runtime, sooner than which a failure counts against the chain
    mirage_n=$((mirage_min_runtime - $(date +%s) + mirage_script_at))
    [ "$mirage_n" -gt 0 ] && mirage_pause=$mirage_n
}

mirage_has_time() { # ten minutes before the end at the latest the standby is put in place
    [ -z "$MIRAGE_DEADLINE" ] || [ "$((MIRAGE_DEADLINE - $(date +%s)))" -gt 600 ]
}

mirage_nap_until_late() {
    [ "$mirage_pause" -ge 1 ] || mirage_pause=1
    if [ -n "$MIRAGE_DEADLINE" ]; then
        mirage_n=$((MIRAGE_DEADLINE - 600 - $(date +%s)))
        [ "$mirage_n" -ge "$mirage_pause" ] || mirage_pause=$mirage_n
        [ "$mirage_pause" -ge 1 ] || return 0
    fi
    mirage_nap "$mirage_pause"
}
