# --- the order of a link's life: this piece calls the others ----------------------------------------
#
#   reads   the carrier's first argument: `mirage:CHAIN:LINK` (a job), or `place:CHAIN:LINK` and
#           `next:CHAIN:LINK` (mirage-link resume and next); SLURM_JOB_ID, SLURM_RESTART_COUNT
#   sets    mirage_index and mirage_next (this link and the next), mirage_job, mirage_since (this
#           shell's start), mirage_script_at (the script's start), mirage_usable (the chain's directory
#           can be used); the variables of the script: MIRAGE_CHAIN_ID, MIRAGE_LINK and others
#   writes  jobs/LINK, began/LINK, ends/LINK; the folders that an older wrapper did not make

# --- the end of the link -------------------------------------------------------------------------

# Do what a link owes at its end: end the loops, write down the end, and see to the next link.
mirage_finish() {
    [ -z "$mirage_lookout_pid" ] || exec 7>&-
    mirage_end_loops
    if [ -n "$mirage_usable" ]; then
        [ -n "$mirage_reason" ] || mirage_put "ends/$mirage_index" "exit $mirage_code"
        mirage_write_run_time
        mirage_decide_continuation
    fi
    rm -rf "$mirage_tmp"
}

# Decide whether the chain goes on. If yes, make sure that the next link is queued; if no, cancel
# the queued links.
mirage_decide_continuation() {
    if [ -n "$mirage_reason" ] || mirage_is_halted; then
        :
    elif mirage_is_complete; then
        mirage_log "$mirage_why"
    elif ! mirage_continue_or_stop "$mirage_index" "$(mirage_print_own_state)" ||
        mirage_had_nothing_to_do || mirage_pause_after_own_end; then
        mirage_say "$mirage_why"
    fi
    mirage_say_all_ran
    if mirage_is_halted; then
        mirage_cancel_queued_links
    elif [ "$mirage_reason" != cancelled ] && [ "$mirage_reason" != requeued ]; then
        mirage_ensure_standby_at_end
    fi
}

# Print how this link ended, as one of Slurm's states, also if the directory took no file.
mirage_print_own_state() {
    if [ -e "$mirage_dir/ends/$mirage_index" ]; then
        mirage_print_written_state "$mirage_index"
    elif [ "$mirage_code" = 0 ]; then
        echo COMPLETED
    else
        echo FAILED
    fi
}

# Tell the user if this was the last link of the chain: nobody has said that the work is done.
mirage_say_all_ran() {
    case $mirage_reason in
    '' | timeout) ;;
    *) return 0 ;; # Slurm may start the link once more
    esac
    [ "$mirage_index" -lt "$mirage_links" ] || [ "$mirage_links" = 1 ] || mirage_is_halted ||
        mirage_say "all $mirage_links links have run; nobody said that the work is done"
}

# Pause the chain if this link is one too many without a result. Not if a successor runs already: it
# may fare better.
mirage_pause_after_own_end() {
    [ "$mirage_index" -lt "$mirage_links" ] && [ ! -e "$mirage_dir/started/$mirage_next" ] &&
        mirage_pause_if_stuck "$mirage_index"
}

# --- in order ------------------------------------------------------------------------------------

# Go through the guard, the claim and the standby, in this order, until the script may run. Leave if
# this link may not begin.
mirage_begin() {
    [ -d "$mirage_dir/waits" ] || # a chain of an older wrapper lacks some folders
        (umask 077 && cd "$mirage_dir" && mkdir -p beat began deadline ran made requeued waits) 2>/dev/null
    if ! mirage_try_to_write; then
        mirage_say "$mirage_dir cannot be written ($mirage_unwritable): the chain goes on by the marks of its jobs in the queue; MIRAGE_STATE_DIR names another place for the next chain"
        mirage_await_by_queue
        [ -z "$mirage_reason" ] || mirage_end_waiting
    fi
    mirage_find_previous
    mirage_may_begin || mirage_leave
    [ -z "$mirage_unwritable" ] || ! mirage_is_overtaken || mirage_leave
    mirage_must_wait= mirage_bound=
    if mirage_is_too_early; then
        ! mirage_give_back "$mirage_bound" || mirage_leave
        [ -n "$mirage_asked_sbatch" ] || ! mirage_step_back || mirage_leave
        mirage_must_wait=yes
    elif mirage_has_to_wait; then
        ! mirage_give_back '' || mirage_leave
        mirage_must_wait=yes
    fi
    ! mirage_has_begun_elsewhere || mirage_leave
    mirage_take_turn
    mirage_drop "waits/$mirage_index" "ends/$mirage_index" # left by a run before a requeue
    mirage_ran_before=$(mirage_get "ran/$mirage_index")
    mirage_script_at=$(date +%s) # the script's run time counts from here
    mirage_put "began/$mirage_index" "$mirage_script_at"
    mirage_put "jobs/$mirage_index" "$mirage_job"
    [ -n "$mirage_loops" ] || mirage_start_loop mirage_keep_heartbeat
    mirage_cut_to_total
    mirage_read_deadline
    [ -n "$mirage_has_standby" ] || mirage_arrange_standby
    mirage_adopt_standby
    [ -n "$mirage_unwritable" ] || mirage_start_planning # a plan needs files that say which link runs
}

# Start all that a running link does except the script: the heartbeat, the deadline, the standby. The
# wait is written down first: another job of this link that starts meanwhile must not queue the next
# link, too. If another job of the link has begun at this very moment, leave: jobs/LINK must name
# that job, because later links ask for it.
mirage_live_while_waiting() {
    mirage_leave_to_waiting_job
    mirage_put "jobs/$mirage_index" "$mirage_job"
    mirage_put "waits/$mirage_index" "$mirage_awaited_link $mirage_behind"
    if mirage_has_begun_elsewhere; then
        mirage_put "jobs/$mirage_index" "$mirage_holder"
        mirage_leave
    fi
    mirage_start_loop mirage_keep_heartbeat
    mirage_read_deadline
    [ "$mirage_mode" != submit ] || return 0 # the next link is not submitted before its moment
    mirage_arrange_standby
    mirage_has_standby=yes
}

# Set mirage_tag from the carrier's first argument: `mirage:CHAIN:LINK` in a job, `place:...` or
# `next:...` from mirage-link. Without one the carrier was submitted by hand.
mirage_read_tag() {
    mirage_by_hand= mirage_tag=${1-}
    case $mirage_tag in
    "mirage:$mirage_chain:"[1-9]* | place:* | next:*) return ;;
    esac
    # A job submitted by hand is no link: with /dev/null as its directory it writes no file of the chain.
    mirage_by_hand=yes mirage_tag=mirage:$mirage_chain:0 mirage_dir=/dev/null
}

# Export the variables that a link's script sees.
mirage_export_variables() {
    MIRAGE_CHAIN_ID=$mirage_chain MIRAGE_LINK=$mirage_index MIRAGE_LINKS=$mirage_links
    MIRAGE_DIR=$mirage_dir MIRAGE_PREV_STATE=$mirage_state MIRAGE_RESUME=1
    case $mirage_style in
    sequential | concurrent) MIRAGE_STYLE= ;; # such links have no hand-over
    *) MIRAGE_STYLE=$mirage_style ;;
    esac
    [ "$mirage_index" -gt 1 ] || [ "${SLURM_RESTART_COUNT:-0}" != 0 ] || MIRAGE_RESUME=0
    export MIRAGE_CHAIN_ID MIRAGE_LINK MIRAGE_LINKS MIRAGE_PREV_JOBID MIRAGE_PREV_STATE MIRAGE_RESUME
    MIRAGE_FLOOR=$mirage_min_runtime # handover/watch.py asks no link to end that has worked for less
    export MIRAGE_DIR MIRAGE_DEADLINE MIRAGE_FLOOR MIRAGE_STYLE
}

mirage_read_tag "$@"
[ -n "$mirage_by_hand" ] || shift
mirage_index=${mirage_tag##*:}
mirage_next=$((mirage_index + 1))
mirage_job=${SLURM_JOB_ID:-0}
mirage_supervisor= mirage_code= mirage_early_signals= mirage_loops= mirage_reason= mirage_timed= mirage_state=
mirage_tmp= mirage_usable= mirage_lookout_pid= mirage_err=2 mirage_ran_before= mirage_claimed=
mirage_behind= mirage_left_s= mirage_must_wait= mirage_waiting= mirage_waited= mirage_warnings= mirage_expired_job=
mirage_unwritable= mirage_halted= mirage_next_job= mirage_error=
mirage_silent= mirage_signalled= mirage_has_standby= mirage_standby_existed= mirage_answered_job= mirage_exec_leader=
mirage_since=$(date +%s)
mirage_script_at=$mirage_since
mirage_read_settings
case $mirage_tag in
place:*)
    mirage_resume_links
    exit
    ;;
next:*)
    mirage_submit_next
    exit
    ;;
esac
mirage_signals='HUP INT QUIT USR1 USR2 ALRM TERM'
for mirage_signal in $mirage_signals; do
    # shellcheck disable=SC2064 # the name is to be expanded now
    trap "mirage_handle_signal $mirage_signal" "$mirage_signal"
done
if [ -n "$mirage_by_hand" ]; then
    mirage_say "this is the carrier of chain $mirage_chain, submitted by hand: the script runs once, as a plain job"
elif [ -d "$mirage_dir" ] && [ ! -L "$mirage_dir" ] && [ -O "$mirage_dir" ]; then
    mirage_usable=yes
    mirage_begin
else
    mirage_say "$mirage_dir cannot be used here; the chain ends with this link"
    mirage_read_deadline
    mirage_await_by_queue
fi
[ -n "$mirage_by_hand" ] || mirage_export_variables
if ! mirage_unpack_script; then
    mirage_say "the script cannot be unpacked: no folder has room for it (TMPDIR, /tmp, /var/tmp, /dev/shm)"
    mirage_end_loops
    exit 1
fi
mirage_find_launcher
mirage_find_leader
mirage_set_streams
mirage_start_lookout
if [ -n "$mirage_reason" ]; then # a signal ended the job before the script began
    mirage_finish
    exit 143
fi
mirage_supervise_script "$mirage_tmp/slurm_script" "$@" 7>&- &
mirage_supervisor=$!
for mirage_signal in $mirage_early_signals; do
    mirage_forward_signal "$mirage_signal"
done
mirage_wait_for_script
mirage_finish
exit "$mirage_code"
