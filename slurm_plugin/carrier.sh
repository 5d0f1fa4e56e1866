# --- the end of the link -------------------------------------------------------------------------

mirage_finish() {
    [ -z "$mirage_watch" ] || exec 7>&-
    mirage_end_loops
    if [ -n "$mirage_usable" ]; then
        [ -n "$mirage_reason" ] || mirage_put "ends/$mirage_index" "exit $mirage_code"
        mirage_write_ran
        mirage_settle
    fi
    rm -rf "$mirage_tmp"
}

mirage_settle() { # is there to be a next link? Then it must stand; else nobody need stand for it
    if [ -n "$mirage_reason" ] || mirage_is_halted; then
        :
    elif mirage_is_complete; then
        mirage_log "$mirage_why"
    elif ! mirage_goes_on "$mirage_index" "$(mirage_own_state)" ||
        mirage_found_nothing || mirage_is_to_pause; then
        mirage_say "$mirage_why"
    fi
    mirage_say_all_ran
    if mirage_is_halted; then
        mirage_take_back
    elif [ "$mirage_reason" != cancelled ] && [ "$mirage_reason" != requeued ]; then
        mirage_stand_at_last
    fi
}

mirage_own_state() { # how this link ended, in Slurm's words, where it could not write it, too
    if [ -e "$mirage_dir/ends/$mirage_index" ]; then
        mirage_written_state "$mirage_index"
    elif [ "$mirage_code" = 0 ]; then
        echo COMPLETED
    else
        echo FAILED
    fi
}

mirage_say_all_ran() { # the last link is no word on the work
    case $mirage_reason in
    '' | timeout) ;;
    *) return 0 ;; # Slurm may start the link once more
    esac
    [ "$mirage_index" -lt "$mirage_links" ] || [ "$mirage_links" = 1 ] || mirage_is_halted ||
        mirage_say "all $mirage_links links have run; nobody said that the work is done"
}

mirage_is_to_pause() { # not where a successor runs already: it may fare better
    [ "$mirage_index" -lt "$mirage_links" ] && [ ! -e "$mirage_dir/started/$mirage_next" ] &&
        mirage_judge "$mirage_index"
}

# --- in order ------------------------------------------------------------------------------------

mirage_begin() { # the guard, the claim, the standby; leaves where this link may not begin
    [ -d "$mirage_dir/waits" ] || # an older wrapper's
        (umask 077 && cd "$mirage_dir" && mkdir -p beat began deadline ran made requeued waits) 2>/dev/null
    if ! mirage_try_to_write; then
        mirage_say "$mirage_dir cannot be written ($mirage_unwritable): the chain goes on by the marks of its jobs in the queue; MIRAGE_STATE_DIR names another place for the next chain"
        mirage_await_unseen
        [ -z "$mirage_reason" ] || mirage_end_waiting
    fi
    mirage_find_previous
    mirage_may_begin || mirage_leave
    [ -z "$mirage_unwritable" ] || ! mirage_is_outrun || mirage_leave
    mirage_must_wait= mirage_bound=
    if mirage_too_early; then
        ! mirage_give_back "$mirage_bound" || mirage_leave
        [ -n "$mirage_tried" ] || ! mirage_step_back || mirage_leave
        mirage_must_wait=yes
    elif mirage_has_to_wait; then
        ! mirage_give_back '' || mirage_leave
        mirage_must_wait=yes
    fi
    ! mirage_is_taken || mirage_leave
    mirage_take_turn
    mirage_drop "waits/$mirage_index" "ends/$mirage_index" # of a run before a requeue
    mirage_ran_before=$(mirage_get "ran/$mirage_index")
    mirage_script_at=$(date +%s) # from here on the time is the script's
    mirage_put "began/$mirage_index" "$mirage_script_at"
    mirage_put "jobs/$mirage_index" "$mirage_job"
    [ -n "$mirage_loops" ] || mirage_start_loop mirage_beat
    mirage_cut_to_total
    mirage_read_deadline
    [ -n "$mirage_stands" ] || mirage_put_standby
    mirage_take_standby
    [ -n "$mirage_unwritable" ] || mirage_plan_release # an early release needs files that tell who runs
}

mirage_stand_by() { # all that a link does which runs, but for the script. Another job of the link may have begun
    # at this very moment: of that one the links after this one ask
    mirage_put "jobs/$mirage_index" "$mirage_job"
    if mirage_is_taken; then
        mirage_put "jobs/$mirage_index" "$mirage_holder"
        mirage_leave
    fi
    mirage_start_loop mirage_beat
    mirage_read_deadline
    [ "$mirage_mode" != submit ] || return 0 # none stands before its moment
    mirage_put_standby
    mirage_stands=yes
}

mirage_read_tag() { # sets mirage_tag; the carrier may be submitted by hand, without the words of a link
    mirage_alone= mirage_tag=${1-}
    case $mirage_tag in
    "mirage:$mirage_chain:"[1-9]* | place:* | next:*) return ;;
    esac
    # No link is a writer of the chain's files.
    mirage_alone=yes mirage_tag=mirage:$mirage_chain:0 mirage_dir=/dev/null
}

mirage_tell_script() { # what a link's script sees of its chain
    MIRAGE_CHAIN_ID=$mirage_chain MIRAGE_LINK=$mirage_index MIRAGE_LINKS=$mirage_links
    MIRAGE_DIR=$mirage_dir MIRAGE_PREV_STATE=$mirage_state MIRAGE_RESUME=1
    case $mirage_style in
    sequential | concurrent) MIRAGE_STYLE= ;; # links that do not hand over
    *) MIRAGE_STYLE=$mirage_style ;;
    esac
    [ "$mirage_index" -gt 1 ] || [ "${SLURM_RESTART_COUNT:-0}" != 0 ] || MIRAGE_RESUME=0
    export MIRAGE_CHAIN_ID MIRAGE_LINK MIRAGE_LINKS MIRAGE_PREV_JOBID MIRAGE_PREV_STATE MIRAGE_RESUME
    MIRAGE_FLOOR=$mirage_min_runtime # for its request to the predecessor (mirage_watch.py)
    export MIRAGE_DIR MIRAGE_DEADLINE MIRAGE_FLOOR MIRAGE_STYLE
}

mirage_read_tag "$@"
[ -n "$mirage_alone" ] || shift
mirage_index=${mirage_tag##*:}
mirage_next=$((mirage_index + 1))
mirage_job=${SLURM_JOB_ID:-0}
mirage_minder= mirage_code= mirage_early= mirage_loops= mirage_reason= mirage_timed= mirage_state=
mirage_tmp= mirage_usable= mirage_watch= mirage_err=2 mirage_ran_before= mirage_claimed=
mirage_behind= mirage_left= mirage_must_wait= mirage_waiting= mirage_waited= mirage_warned= mirage_outlived=
mirage_unwritable= mirage_halted= mirage_noted= mirage_error=
mirage_silent= mirage_signalled= mirage_stands= mirage_inherits= mirage_answered= mirage_leads=
mirage_since=$(date +%s)
mirage_script_at=$mirage_since
mirage_read_settings
case $mirage_tag in
place:*)
    mirage_place
    exit
    ;;
next:*)
    mirage_submit_next
    exit
    ;;
esac
mirage_signals='HUP INT QUIT USR1 USR2 ALRM TERM'
for mirage_signal in $mirage_signals; do
    # shellcheck disable=SC2064 # the name as it is now
    trap "mirage_on $mirage_signal" "$mirage_signal"
done
if [ -n "$mirage_alone" ]; then
    mirage_say "this is the carrier of chain $mirage_chain, submitted by hand: the script runs once, as a plain job"
elif [ -d "$mirage_dir" ] && [ ! -L "$mirage_dir" ] && [ -O "$mirage_dir" ]; then
    mirage_usable=yes
    mirage_begin
else
    mirage_say "$mirage_dir cannot be used here; the chain ends with this link"
    mirage_read_deadline
    mirage_await_unseen
fi
[ -n "$mirage_alone" ] || mirage_tell_script
if ! mirage_unpack; then
    mirage_say "the script cannot be unpacked: no folder has room for it (TMPDIR, /tmp, /var/tmp, /dev/shm)"
    mirage_end_loops
    exit 1
fi
mirage_find_launcher
mirage_find_leader
mirage_set_streams
mirage_lookout
if [ -n "$mirage_reason" ]; then # terminated before it began
    mirage_finish
    exit 143
fi
mirage_mind "$mirage_tmp/slurm_script" "$@" 7>&- &
mirage_minder=$!
for mirage_signal in $mirage_early; do
    mirage_pass_on "$mirage_signal"
done
mirage_wait
mirage_finish
exit "$mirage_code"
