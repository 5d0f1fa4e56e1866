# --- the guard: may this link begin? ------------------------------------------------------------
#
#   reads   settings; of the chain's directory done, stop, paused, started/, jobs/, ends/, began/,
#           deadline/, beat/ and passed.LINK; the queue
#   sets    the predecessor: mirage_previous (its link), MIRAGE_PREV_JOBID, mirage_state, mirage_began,
#           mirage_ends, mirage_completing, mirage_silent (Slurm does not answer); mirage_claimed;
#           mirage_holder (the job that has begun as this link); mirage_why (a sentence for the user)
#   writes  started/LINK (the claim), stop; ends/ and ran/ of a predecessor that could not write them

# May this link begin? Fail with the reason in mirage_why. This also reads how the predecessor
# stands.
mirage_may_begin() {
    [ ! -e "$mirage_dir/done" ] || { mirage_why="the chain is done" && return 1; }
    [ ! -e "$mirage_dir/stop" ] || { mirage_why="the chain was stopped" && return 1; }
    if [ -e "$mirage_dir/paused" ]; then
        mirage_why="the chain is paused: $(mirage_get paused)"
        return 1
    fi
    mirage_find_later_links started
    [ -z "$mirage_later" ] || { mirage_why="link ${mirage_later##* } has begun meanwhile" && return 1; }
    if [ "$mirage_index" -gt 1 ]; then
        mirage_read_previous_state
        mirage_continue_or_stop "$mirage_previous" "$mirage_state" || return 1
    fi
    ! mirage_is_complete || return 1
    [ "$mirage_index" -gt 1 ] && mirage_is_end_state "$mirage_state" || return 0
    ! mirage_pause_if_stuck "$mirage_previous"
}

# Claim the link for this job: the first job that makes started/LINK has the link. A second job
# would be a second writer.
mirage_claim() {
    (umask 077 && set -C && printf '%s\n' "$mirage_job" >"$mirage_dir/started/$mirage_index") \
        2>/dev/null || ! mirage_has_begun_elsewhere
}

# Has another job of this link begun? Set mirage_holder to the job in started/LINK, and mirage_why.
# A claim of this job itself is from before a requeue, and does not count.
mirage_has_begun_elsewhere() {
    mirage_holder=$(mirage_get "started/$mirage_index")
    case $mirage_holder in
    '' | "$mirage_job") return 1 ;; # no claim, or this job's own
    esac
    mirage_why="link $mirage_index has begun as job $mirage_holder"
}

# Give back the claim that this run of the job has made.
mirage_unclaim() {
    [ -z "$mirage_claimed" ] || mirage_drop "started/$mirage_index"
    mirage_claimed=
}

# End this job without running the script. If the chain is over, also cancel its queued links.
mirage_leave() {
    mirage_say "$mirage_why; the script is not run"
    mirage_unclaim
    mirage_drop "waits/$mirage_index"
    mirage_end_loops
    ! mirage_is_halted || mirage_cancel_queued_links
    exit 0
}

# Is the chain done, stopped or paused?
mirage_is_halted() {
    [ -n "$mirage_halted" ] || [ -e "$mirage_dir/done" ] || [ -e "$mirage_dir/stop" ] ||
        [ -e "$mirage_dir/paused" ]
}

# --- the predecessor: Slurm's answer first; the link's own files if Slurm has forgotten the job -----

# Set mirage_previous and MIRAGE_PREV_JOBID to the last earlier link that has begun, and its job. A
# link between that one and this one may have been cancelled before it began.
mirage_find_previous() {
    MIRAGE_PREV_JOBID= mirage_previous=$((mirage_index - 1))
    [ "$mirage_index" -gt 1 ] || return 0
    while [ "$mirage_previous" -gt 1 ] && [ ! -e "$mirage_dir/started/$mirage_previous" ]; do
        mirage_previous=$((mirage_previous - 1))
    done
    [ -e "$mirage_dir/started/$mirage_previous" ] || mirage_previous=$((mirage_index - 1))
    MIRAGE_PREV_JOBID=$(mirage_get "jobs/$mirage_previous" || mirage_get "started/$mirage_previous")
    [ "$mirage_previous" -lt "$((mirage_index - 1))" ] || [ -z "$MIRAGE_PREV_JOBID" ] || return 0
    # The link right before this one has not begun, or could not write that it has: ask the queue.
    # shellcheck disable=SC2046 # two words are to be split
    set -- $(mirage_list_begun_links 1 "$((mirage_index - 1))" "$mirage_unwritable" | sort -n | tail -n 1)
    [ $# -eq 2 ] && { [ -z "$MIRAGE_PREV_JOBID" ] || [ "$1" -gt "$mirage_previous" ]; } || return 0
    mirage_previous=$1 MIRAGE_PREV_JOBID=$2
}

# Does another job of this link, or of a later link, run? Then set mirage_why.
mirage_is_overtaken() {
    # shellcheck disable=SC2046 # the words are to be split
    set -- $(mirage_list_begun_links "$mirage_index" "$mirage_links" '' | grep -v " $mirage_job\$")
    [ $# -gt 0 ] && mirage_why="link $1 runs as job $2"
}

# Print "LINK JOB" for each running link of the chain from link $1 to $2, by the marks in the queue.
# If $3 is not empty, also print links that have run and that Slurm has not forgotten.
mirage_list_begun_links() {
    mirage_slurm 60 squeue -h --all -t all -u "$(id -un)" -o '%k %i %T %S %e' 2>/dev/null |
        while read -r mirage_text; do
            case $mirage_text in
            *"mirage:$mirage_chain:"*) ;;
            *) continue ;;
            esac
            # shellcheck disable=SC2086 # $1 and $2 are the range, and squeue's words are to be split
            set -- $1 $2 "${3:+yes}" mirage:${mirage_text##*mirage:}
            [ $# -eq 8 ] || continue
            if mirage_is_end_state "$6"; then
                [ -n "$3" ] && [ "$7" != "$8" ] || continue # a job with start = end was cancelled before it began
            elif mirage_is_not_running "$6" || [ "$6" = EXPEDITING ]; then
                continue
            fi
            mirage_number "${4##*:}" 0
            if [ "$mirage_n" -ge "$1" ] && [ "$mirage_n" -le "$2" ]; then echo "$mirage_n ${5%%+*}"; fi
        done
}

# Set mirage_n to the instant at which the script of link $1 began. The link's job began at $2; its
# wait for its turn is no run time of the script.
mirage_find_script_start() {
    mirage_get_number "began/$1" && [ "$mirage_n" -ge "$2" ] || mirage_n=$2
}

# Set mirage_state to the state of the predecessor's job, and mirage_began and mirage_ends to its
# start and end. Set mirage_silent if Slurm does not answer; then the link's own files count.
mirage_read_previous_state() {
    mirage_state= mirage_began= mirage_ends= mirage_completing= mirage_silent=
    [ -z "$MIRAGE_PREV_JOBID" ] || mirage_query_previous "$MIRAGE_PREV_JOBID"
    mirage_tries=0
    [ "$mirage_style" != sequential ] || mirage_tries=5 # a sequential link has to wait for the end anyhow
    while [ "$mirage_state" = COMPLETING ] && [ "$mirage_tries" -lt 5 ]; do
        sleep 1
        mirage_tries=$((mirage_tries + 1))
        mirage_query_previous "$MIRAGE_PREV_JOBID"
    done
    if mirage_is_end_state "$mirage_state"; then
        mirage_record_end "$mirage_previous"
    elif [ -z "$mirage_state" ] || [ "$mirage_state" = COMPLETING ]; then
        mirage_completing=$mirage_state
        mirage_state=$(mirage_print_written_state "$mirage_previous")
    fi
    if [ "$mirage_state" = CANCELLED ] && mirage_was_passed_over "$mirage_previous"; then
        mirage_state=REQUEUED
    fi
}

# Was the job of link $1 cancelled by a link that took over from it, or before the user resumed the
# chain? Such a cancellation says nothing against the chain.
mirage_was_passed_over() {
    mirage_passed_job=$(mirage_get "passed.$1") && [ "$mirage_passed_job" = "$(mirage_get "jobs/$1")" ]
}

# Ask Slurm about job $1, unless Slurm's last answer on this job has just ended a wait.
mirage_query_previous() {
    [ "$1" = "$mirage_answered_job" ] || mirage_query_job "$1"
    mirage_answered_job=
    mirage_state=${mirage_job_state#forgotten} mirage_began=$mirage_job_start mirage_ends=$mirage_job_end
    mirage_silent=
    [ -z "$mirage_job_state" ] || return 0
    mirage_silent=yes # then take what the link has written
    ! mirage_get_number "began/$mirage_previous" || mirage_began=$mirage_n
    ! mirage_get_number "deadline/$mirage_previous" || mirage_ends=$mirage_n
}

# Is $1 the state of a job that has ended?
mirage_is_end_state() {
    case $1 in
    COMPLETED | FAILED | TIMEOUT | PREEMPTED | NODE_FAIL | CANCELLED | OUT_OF_MEMORY | BOOT_FAIL | DEADLINE) ;;
    *) return 1 ;;
    esac
}

# Print the end that link $1 itself wrote down, as one of Slurm's states; RUNNING if the link wrote
# none and its heartbeat is fresh.
mirage_print_written_state() {
    case $(mirage_get "ends/$1") in
    'exit 0') echo COMPLETED ;;
    'exit '*) echo FAILED ;;
    cancelled*) echo CANCELLED ;;
    ?*) mirage_get "ends/$1" | tr '[:lower:]' '[:upper:]' ;;
    *) ! mirage_has_heartbeat "$1" || echo RUNNING ;;
    esac
}

# Has link $1 written a heartbeat within the last three periods?
mirage_has_heartbeat() {
    mirage_get_number "beat/$1" && [ "$(($(date +%s) - mirage_n))" -lt "$((3 * mirage_beat_s))" ]
}

# Write down the end and the run time of link $1 if the link had no time to do so.
mirage_record_end() {
    [ "$(mirage_print_written_state "$1")" = "$mirage_state" ] ||
        { [ -e "$mirage_dir/ends/$1" ] && mirage_was_passed_over "$1"; } ||
        mirage_put "ends/$1" "$(echo "$mirage_state" | tr '[:upper:]' '[:lower:]')"
    if [ ! -e "$mirage_dir/ran/$1" ] && [ -n "$mirage_began" ] && [ -n "$mirage_ends" ]; then
        mirage_find_script_start "$1" "$mirage_began"
        [ "$mirage_n" -lt "$mirage_ends" ] || mirage_n=$mirage_ends
        mirage_put "ran/$1" "$((mirage_ends - mirage_n))"
    fi
}

# Does the chain go on after link $1 ended as $2? If not, stop the chain and fail with the reason in
# mirage_why.
mirage_continue_or_stop() {
    mirage_is_continued_after "$2" && return 0
    mirage_why="link $1 ended as $2, and this chain goes on only after $mirage_continue"
    [ "$2" != CANCELLED ] || mirage_why="link $1 was cancelled"
    mirage_put stop "$mirage_why"
    return 1
}

# Does the chain go on after a link whose job is in state $1? It does if the job has not ended, or
# the state is unknown.
mirage_is_continued_after() {
    case $1 in
    OUT_OF_MEMORY) set -- FAILED ;;
    BOOT_FAIL) set -- NODE_FAIL ;;
    DEADLINE) set -- TIMEOUT ;;
    esac
    mirage_is_end_state "$1" || return 0
    case ,$mirage_continue, in
    *,"$1",*) return 0 ;;
    esac
    return 1
}
