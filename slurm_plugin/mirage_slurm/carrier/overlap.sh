# --- too early: this link starts beside a link that runs for longer than the user allows -----------
#
# A link that is too early steps back (another job of it is queued behind the running one), gives its
# nodes back (the other job has a planned release), or waits.
#   reads   settings; mirage_state, mirage_began, mirage_ends and mirage_previous of the guard;
#           jobs/, started/, ends/, waits/, requeued/ and returns/ in the chain's directory
#   sets    mirage_behind (the job that this link is to wait for), mirage_earlier_job and mirage_left_s
#           (the running earlier job, the seconds until its end), mirage_bound (the longest overlap in
#           seconds), mirage_new (this link's new job), mirage_must_wait, mirage_why
#   writes  requeued/LINK, jobs/LINK, passed.LINK, ends/LINK; new jobs, dependencies and scancel in
#           Slurm. mirage_return.py writes returns/LINK

# Has this link started too early: before a link in front of it has begun, or beside a link that runs for
# longer than the user allows? Set mirage_behind, the job to stand behind, and mirage_why.
mirage_is_too_early() {
    mirage_behind=
    [ "$mirage_index" -gt 1 ] || return 1
    if mirage_is_previous_waiting; then
        mirage_why="link $((mirage_index - 1)) has not begun"
        return 0
    fi
    if [ -n "$mirage_completing" ] && [ "$mirage_max_overlap" = 0 ]; then
        mirage_behind=$MIRAGE_PREV_JOBID
        mirage_why="job $mirage_behind is about to end"
        return 0
    fi
    mirage_find_earlier_job || return 1
    mirage_bound_overlap
    if [ "$mirage_presubmit" = all ] &&
        [ "$mirage_earlier_job" != "$(mirage_get "jobs/$((mirage_index - 1))")" ]; then
        mirage_why="job $mirage_earlier_job of an earlier link still runs"
    elif [ -z "$mirage_left_s" ]; then
        mirage_why="job $mirage_earlier_job runs without a known end"
    elif [ "$mirage_left_s" -gt "$mirage_bound" ]; then
        mirage_why="job $mirage_earlier_job may run for $mirage_left_s s more, and links of this chain may overlap by $mirage_bound s at most"
    else
        return 1
    fi
    mirage_behind=$mirage_earlier_job
}

# Set mirage_bound to the longest overlap in seconds. If the user states none, the bound is four
# hours, or a quarter of the predecessor's time limit if that is less. Links of style switch run
# nothing twice, so they have no bound. get_allowed_overlap_s in mirage/domain/chain.py has the
# same rule, and tests/data/overlap-bound-cases.json has the cases of both.
mirage_bound_overlap() {
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

# Has the link right before this one not begun yet, because its job is pending or waits for its
# turn? Set mirage_behind to that job.
mirage_is_previous_waiting() {
    [ ! -e "$mirage_dir/started/$((mirage_index - 1))" ] &&
        mirage_behind=$(mirage_get "jobs/$((mirage_index - 1))") || return 1
    case $(mirage_ask_job "$mirage_behind" %T) in
    PENDING | EXPEDITING) [ ! -e "$mirage_dir/requeued/$mirage_index" ] ;; # not after one step back
    RUNNING) [ -e "$mirage_dir/waits/$((mirage_index - 1))" ] ;;
    *) return 1 ;;
    esac
}

# Set mirage_earlier_job to the job of the latest earlier link that still runs, and mirage_left_s to
# the seconds until its end. Fail if no earlier link runs.
mirage_find_earlier_job() {
    mirage_earlier_job= mirage_left_s=
    case $mirage_state in
    RUNNING | SUSPENDED | STOPPED | SIGNALING | STAGE_OUT | RESIZING | CONFIGURING | COMPLETING)
        mirage_earlier_job=$MIRAGE_PREV_JOBID
        ;;
    *)
        # shellcheck disable=SC2046 # squeue's two words are to be split
        mirage_parse_earlier_job $(mirage_ask_earlier_jobs)
        ;;
    esac
    [ -n "$mirage_earlier_job" ] || return 1
    [ -z "$mirage_ends" ] || mirage_left_s=$((mirage_ends - $(date +%s)))
    [ -z "$mirage_left_s" ] || [ "$mirage_left_s" -ge 1 ] || mirage_left_s=1 # the job runs, though its end is past
}

# Print "JOB END" of the latest running job of the links before the predecessor. Only links without
# a written end are asked for, the last fifty.
mirage_ask_earlier_jobs() {
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

# Set mirage_earlier_job to $1 and mirage_ends to $2. mirage_began was the predecessor's, and
# becomes unknown.
mirage_parse_earlier_job() {
    mirage_earlier_job=${1-}
    [ -z "$mirage_earlier_job" ] || mirage_began= # this is another job than the predecessor's
    mirage_number "${2-}" '' && mirage_ends=$mirage_n
}

# Queue another job of this link behind mirage_behind, once; the caller then leaves. A running job
# cannot be given a dependency, and a job that requeues itself is killed before it can be given one.
# So the new job is queued first, and this job ends after that.
mirage_step_back() {
    [ -z "$mirage_completing" ] && [ ! -e "$mirage_dir/requeued/$mirage_index" ] || return 1 # only once
    mirage_resubmit_behind || return 1
    mirage_why="$mirage_why: link $mirage_index now waits behind job $mirage_behind, as job $mirage_new"
}

# Submit another job of this link that waits for the end of mirage_behind. Set mirage_new to the
# job.
mirage_resubmit_behind() {
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

# Make the later links that are already queued wait for this link's new job too.
mirage_move_later_links() {
    mirage_dependency=afterany:$mirage_behind:$mirage_new
    mirage_find_later_links jobs
    # shellcheck disable=SC2086 # a list of numbers
    for mirage_k in $(printf '%s\n' $mirage_later | sort -n); do
        mirage_id=$(mirage_get "jobs/$mirage_k")
        mirage_slurm 60 scontrol update "JobId=$mirage_id" "Dependency=$mirage_dependency" >/dev/null 2>&1
        mirage_dependency=$mirage_dependency:$mirage_id
    done
}

# If the predecessor was requeued and is pending, cancel its job and take its place.
mirage_take_over() {
    [ "$mirage_index" -gt 1 ] && [ "$mirage_state" = PENDING ] || return 0
    mirage_put "passed.$mirage_previous" "$MIRAGE_PREV_JOBID" # before scancel: CANCELLED may be read at once
    mirage_slurm 60 scancel --state=PENDING "$MIRAGE_PREV_JOBID" >/dev/null 2>&1
    mirage_log "took over from job $MIRAGE_PREV_JOBID, which was requeued"
    mirage_query_job "$MIRAGE_PREV_JOBID"
    if [ -z "$mirage_job_state" ] && [ "$mirage_style" = sequential ]; then # the job may have begun
        mirage_behind=$MIRAGE_PREV_JOBID mirage_must_wait=yes
        mirage_why="Slurm does not answer"
    elif [ -n "$mirage_job_state" ] && ! mirage_is_not_running "$mirage_job_state"; then # the job has just begun
        mirage_drop "passed.$mirage_previous"
        mirage_read_previous_state
        ! mirage_is_too_early && ! mirage_has_to_wait || mirage_must_wait=yes
    else
        mirage_put "ends/$mirage_previous" requeued # a lost node could not write this
    fi
}

# --- giving back: a new wait may cost less than nodes that are idle until the predecessor's end ------

# Give this job's nodes back: queue another job of this link with a planned release, set mirage_why,
# and let the caller leave. Fail if this job keeps its nodes. $1 is max-overlap if this link is
# earlier than that, else empty. mirage_asked_sbatch says afterwards whether sbatch was asked.
mirage_give_back() {
    mirage_asked_sbatch=
    mirage_leave_to_waiting_job
    mirage_may_return || return 1
    ! mirage_has_begun_elsewhere || mirage_leave
    mirage_waiting=yes # mirage_handle_signal is to treat this link as not begun
    mirage_ask_verdict "$1" && mirage_resubmit_with_plan
    set -- $?
    [ "$1" = 0 ] || [ -z "$mirage_reason" ] || mirage_end_waiting
    mirage_waiting=
    return "$1"
}

# Leave if another job of this link waits for its turn already. There is one if that job tried to give
# its nodes back and did not see this job in the queue, or if two jobs of the link before have each
# queued this link. This is no mirage_leave, which would remove the other job's file in waits/.
mirage_leave_to_waiting_job() {
    [ -e "$mirage_dir/waits/$mirage_index" ] &&
        mirage_holder=$(mirage_get "jobs/$mirage_index") && [ "$mirage_holder" != "$mirage_job" ] &&
        [ "$(mirage_ask_job "$mirage_holder" %T)" = RUNNING ] || return 0
    mirage_say "link $mirage_index waits already, as job $mirage_holder; the script is not run"
    exit 0
}

# Make the next link wait for this job. Two jobs of this link may have waited for its turn (see
# mirage_leave_to_waiting_job); the next link may depend on the job that leaves.
mirage_adopt_standby() {
    [ -n "$mirage_standby_existed" ] && [ -e "$mirage_dir/returns/$mirage_index" ] &&
        [ "$mirage_presubmit" = next ] && [ "${SLURM_RESTART_COUNT:-0}" = 0 ] || return 0
    mirage_slurm 60 scontrol update "JobId=$mirage_standby" "Dependency=afterany:$mirage_job" \
        >/dev/null 2>&1
}

# May this link give its nodes back, by what is known here? Only behind the one link that runs,
# whose end is known. mirage/provision/return_costs.py says the same for the service.
mirage_may_return() {
    [ "$mirage_returns" -gt 0 ] && [ "$mirage_style" = sequential ] &&
        [ "$mirage_presubmit" = next ] && [ "$mirage_mode" = standby ] &&
        [ "$mirage_max_overlap" != 0 ] && [ "$mirage_lead" != 0 ] &&
        [ -z "${SLURM_HET_SIZE-}" ] && [ "${SLURM_RESTART_COUNT:-0}" = 0 ] || return 1
    [ "$mirage_state" = RUNNING ] && [ -z "$mirage_silent$mirage_completing" ] &&
        [ "$mirage_behind" = "$MIRAGE_PREV_JOBID" ] && [ -n "$mirage_left_s" ] &&
        [ "$mirage_previous" -eq "$((mirage_index - 1))" ] &&
        [ -e "$mirage_dir/started/$mirage_previous" ] || return 1
    [ -z "$mirage_unwritable$mirage_reason$mirage_early_signals" ] &&
        [ -x "$mirage_python" ] && [ -r "$mirage_plugin/mirage_return.py" ]
}

# Ask mirage_return.py whether to give the nodes back. If yes, set mirage_minutes and mirage_verdict
# (words for the log); mirage_return.py has counted the return by then.
mirage_ask_verdict() {
    mirage_verdict=$(MIRAGE_URL=${MIRAGE_URL:-$mirage_url} &&
        MIRAGE_CLUSTER_NAME=${MIRAGE_CLUSTER_NAME:-$mirage_cluster} &&
        export MIRAGE_URL MIRAGE_CLUSTER_NAME &&
        mirage_limit 120 "$mirage_python" -IS "$mirage_plugin/mirage_return.py" "dir=$mirage_dir" \
            "chain=$mirage_chain" "link=$mirage_index" "job=$mirage_job" "behind=$mirage_behind" \
            "since=$mirage_since" \
            "left=$mirage_left_s" "bound=$1" "style=$mirage_style" "price=$mirage_price" \
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

# Submit the new job, and look for it in the queue. This job leaves only if squeue shows the new
# one.
mirage_resubmit_with_plan() {
    [ -z "$mirage_reason$mirage_warnings" ] || return 1
    mirage_asked_sbatch=yes mirage_next=$mirage_index
    mirage_submit "afterany:$mirage_behind?after:$mirage_behind+$mirage_minutes"
    mirage_confirm_new_job
    mirage_k=$?
    mirage_next=$((mirage_index + 1))
    if [ "$mirage_k" != 0 ]; then
        mirage_say "link $mirage_index keeps its nodes: ${mirage_error:-squeue does not show its new job}"
        return 1
    fi
    mirage_query_job "$mirage_behind"
    if mirage_is_return_overtaken; then
        mirage_take_return_back || return 1
    else
        mirage_why="$mirage_verdict, as job $mirage_new"
    fi
    mirage_put "jobs/$mirage_index" "$mirage_new"
    mirage_move_later_links
}

# Cancel this link's new job, and fail: this job waits. If the new job runs already (the predecessor's
# end has released it), this job leaves instead: if both waited, each would queue the next link.
mirage_take_return_back() {
    # If scancel fails, the new job leaves by itself: it sees this job wait, or the chain's end.
    mirage_k="its new job $mirage_new stands"
    ! mirage_slurm 20 scancel --state=PENDING "$mirage_new" >/dev/null 2>&1 ||
        mirage_k="cancelled its new job $mirage_new"
    if [ -z "$mirage_reason" ] && [ "$(mirage_ask_job "$mirage_new" %T)" = RUNNING ]; then
        mirage_why="link $mirage_index gives its nodes back: $mirage_cause, and its new job $mirage_new has started"
        return 0
    fi
    mirage_say "link $mirage_index does not give its nodes back: $mirage_cause; $mirage_k"
    return 1
}

# Has something happened while Slurm was asked that makes the return wrong? Set mirage_cause.
mirage_is_return_overtaken() {
    mirage_find_awaited_link
    if [ -n "$mirage_reason$mirage_warnings" ]; then
        mirage_cause="a signal came"
    elif mirage_is_halted; then
        mirage_cause="the chain is done, stopped or paused"
    elif [ "$mirage_job_state" != RUNNING ]; then
        mirage_cause="job $mirage_behind is ${mirage_job_state:-not seen} now"
    elif mirage_has_released_lease; then
        mirage_cause="link $mirage_awaited_link writes no more"
    else
        return 1
    fi
}

# Set mirage_new to the other job of this link, by its mark in the queue, whatever sbatch has said.
# The three tries together outlast a restart of slurmctld.
mirage_confirm_new_job() {
    set -- "$mirage_new"
    for mirage_pause in 0 $((mirage_pace_s / 6)) $((mirage_pace_s / 2)); do
        sleep "$mirage_pause"
        if mirage_new=$(mirage_find_standby); then
            [ -n "$mirage_new" ] && [ "${1:-$mirage_new}" = "$mirage_new" ]
            return
        fi
    done
    return 1
}
