# --- the standby: the next link, queued with a dependency on this one -----------------------------
#
#   reads   settings; env, env.sh, jobs/, started/, handed.LINK in the chain's directory; the queue
#   sets    mirage_standby (the next link's job), mirage_next_job (the same, if this link has seen to
#           it), mirage_new (a job just submitted), mirage_standby_existed, mirage_error, mirage_why
#   writes  jobs/LINK, lost.LINK, done; new jobs and scancel in Slurm

# Print the job of the next link if it is queued already. Fail if squeue does not answer. The mark
# is the end of a comment, and the user's part of the comment may have several lines; the job id
# comes after the mark.
mirage_find_standby() {
    mirage_queue=$(mirage_slurm 60 squeue -h --all -u "$(id -un)" -o '%k %i' 2>/dev/null) || return 1
    printf '%s\n' "$mirage_queue" |
        while read -r mirage_text; do
            mirage_id=${mirage_text##* }
            case $mirage_text in
            *"mirage:$mirage_chain:$mirage_next $mirage_id") printf '%s\n' "${mirage_id%%+*}" ;;
            esac
        done | grep -vx "$mirage_job" | sort -n | tail -n 1
}

# Submit the next link with the dependency $1, or with none. Set mirage_new to its job; else fail,
# with the reason in mirage_error.
mirage_submit() {
    mirage_error= mirage_new=
    if [ ! -x "$mirage_sbatch" ] && ! mirage_sbatch=$(command -v sbatch); then
        mirage_error="there is no sbatch on this node"
        return 1
    fi
    mirage_output=$(mirage_call_sbatch "$1" 2>&1)
    mirage_n=$?
    if [ "$mirage_n" -ne 0 ]; then
        mirage_error=$(printf '%s\n' "$mirage_output" | LC_ALL=C grep -m 1 '^sbatch: error' ||
            printf '%s\n' "$mirage_output" | LC_ALL=C grep -m 1 .)
        mirage_error=${mirage_error:-sbatch ended with $mirage_n and said nothing}
        return 1
    fi
    mirage_new=$(printf '%s\n' "$mirage_output" | mirage_parse_job_id)
    # If sbatch printed other lines too, such as a site's banner, ask squeue which number is the job's.
    if [ -z "$mirage_new" ] || [ "$(printf '%s\n' "$mirage_output" | grep -c .)" -gt 1 ]; then
        mirage_n=$(mirage_find_standby)
        mirage_new=${mirage_n:-$mirage_new}
    fi
    [ -n "$mirage_new" ] || mirage_error="sbatch ended with 0 and printed no job id, and squeue lists no such job"
    [ -n "$mirage_new" ]
}

# Print the job id in sbatch's output on standard input: the number in the one line that is sbatch's
# own answer. Print nothing if a site's banner holds another such line. parse_job_id in
# wrapper/process.py has the same rule.
mirage_parse_job_id() {
    # shellcheck disable=SC2046 # a list of numbers
    set -- $(LC_ALL=C sed -n -e 's/^Submitted batch job \([1-9][0-9]*\)$/\1/p' \
        -e 's/^Submitted batch job \([1-9][0-9]*\) on cluster [^ ]*$/\1/p' \
        -e 's/^\([1-9][0-9]*\)$/\1/p' -e 's/^\([1-9][0-9]*\);[^ ]*$/\1/p' | sort -u)
    [ $# -ne 1 ] || echo "$1"
}

# Run sbatch with the options, environment and directory of the chain's first submission, and the
# dependency $1. sbatch gives the job sbatch's own umask, so the user's umask is set first: in
# `mirage-link resume` the shell has another one.
mirage_call_sbatch() {
    # shellcheck disable=SC2086 # mirage_append is one word or none
    (${mirage_umask:+umask "$mirage_umask"} && cd "$mirage_cwd" &&
        mirage_run_sbatch --parsable ${1:+"--dependency=$1"} \
            --comment="${mirage_comment:+$mirage_comment }mirage:$mirage_chain:$mirage_next" \
            ${SLURM_JOB_NAME:+"--job-name=$SLURM_JOB_NAME"} $mirage_append </dev/null)
}

mirage_python=/usr/bin/python3
# Run a command in the environment of the first submission. The environment comes from a file,
# because everybody can read the words of a command.
mirage_run_in_environment() {
    if [ -x "$mirage_python" ]; then
        mirage_limit 120 "$mirage_python" -IS -c '
import os, signal, sys
for ignored in signal.SIGPIPE, signal.SIGXFSZ:  # Python ignores both
    signal.signal(ignored, signal.SIG_DFL)
try:
    with open(sys.argv[1], "rb") as env:
        pairs = [entry.split(b"=", 1) for entry in env.read().split(b"\0")[:-1]]
    os.execve(sys.argv[2], sys.argv[2:], dict(pairs))
except OSError as error:
    sys.exit("sbatch cannot be run: %s" % (error,))
' "$mirage_dir/env" "$@"
    else
        # shellcheck disable=SC2016 # the other shell expands it
        mirage_limit 120 env -i /bin/sh -c '. "$0" || exit; exec "$@"' "$mirage_dir/env.sh" "$@"
    fi
}

# Submit the next link with dependency $1 unless it is queued already. Set mirage_standby to its
# job; else fail, with the reason in mirage_error. No answer from squeue is a failure: submitting
# then could make two jobs.
mirage_ensure_standby() {
    mirage_standby=$(mirage_find_standby) || {
        mirage_error="squeue does not answer"
        return 1
    }
    if [ -z "$mirage_standby" ]; then
        mirage_submit "$1" || return 1
        mirage_standby=$mirage_new
    else
        mirage_standby_existed=yes
    fi
    mirage_next_job=$mirage_standby # kept here too: the directory may take no file
    mirage_put "jobs/$mirage_next" "$mirage_standby"
    mirage_log "link $mirage_next stands as job $mirage_standby"
}

# See to it that the next link is queued, in the way of the chain's mode, now or in a loop beside
# the script.
mirage_arrange_standby() {
    [ "$mirage_index" -lt "$mirage_links" ] || return 0
    if [ "$mirage_presubmit" = all ]; then # the wrapper may still be submitting
        mirage_is_next_submitted || mirage_start_loop mirage_retry_standby
    elif [ "$mirage_mode" = submit ]; then
        mirage_start_loop mirage_submit_when_due
    elif ! mirage_ensure_standby "afterany:$mirage_job"; then
        mirage_say "link $mirage_next is not in the queue yet: $mirage_error"
        mirage_start_loop mirage_retry_standby
    fi
}

# Try to queue the next link until that succeeds or this link ends. A submit limit of the site is
# lifted when other jobs end.
mirage_retry_standby() {
    mirage_pause=$mirage_pace_s
    until mirage_sleep "$mirage_pause" && { mirage_is_next_submitted || mirage_ensure_standby "afterany:$mirage_job"; }; do
        [ "$mirage_pause" -ge 1800 ] || mirage_pause=$((2 * mirage_pause))
    done
}

# Queue the next link if it is not queued as this link ends: nobody else will do it. The tries
# outlast a restart of slurmctld.
mirage_ensure_standby_at_end() {
    [ "$mirage_index" -lt "$mirage_links" ] || return 0
    ! mirage_is_next_submitted || mirage_is_standby_lost || return 0
    ! mirage_ensure_standby "afterany:$mirage_job" || return 0
    mirage_say "link $mirage_next is not in the queue yet: $mirage_error; if the link does not come: mirage-link resume $mirage_chain"
    for mirage_pause in $((mirage_pace_s / 6)) $((mirage_pace_s / 2)); do
        sleep "$mirage_pause"
        ! mirage_ensure_standby "afterany:$mirage_job" || return 0
    done
}

# Was the next link cancelled before it began, and is it to be submitted anew? A link is submitted
# anew once. If all links were queued from the start, another link stands behind the lost one.
mirage_is_standby_lost() {
    [ "$mirage_presubmit" != all ] && [ ! -e "$mirage_dir/started/$mirage_next" ] || return 1
    mirage_id=$(mirage_get "jobs/$mirage_next") || mirage_id=$mirage_next_job
    [ -n "$mirage_id" ] || return 1
    mirage_query_job "$mirage_id"
    [ "$mirage_job_state" = forgotten ] || mirage_is_end_state "$mirage_job_state" || return 1 # no answer is no end
    [ "$mirage_job_state" != COMPLETED ] || return 1 # its guard found the chain over
    if [ "$mirage_job_state" = CANCELLED ] && mirage_has_script_cancelled; then
        mirage_why="link $mirage_next (job $mirage_id), which the script knew from sbatch, was cancelled as the script ran: no further link is wanted"
        mirage_put 'done' "$mirage_why"
        mirage_say "the chain is done: $mirage_why"
        mirage_cancel_queued_links
        return 1
    fi
    if [ -e "$mirage_dir/lost.$mirage_next" ]; then
        [ "$mirage_job_state" != CANCELLED ] || mirage_pause_for_lost "$mirage_next"
        return 1
    fi
    mirage_put "lost.$mirage_next" "$mirage_id" || { # a replacement that cannot be counted is not made
        [ -n "$(mirage_find_standby)" ] ||
            mirage_say "link $mirage_next (job $mirage_id) was cancelled before it began; to go on: mirage-link resume $mirage_chain"
        return 1
    }
    mirage_log "link $mirage_next (job $mirage_id) was cancelled before it began: a new job is submitted for the link"
}

# Has the script cancelled the next link without the plugin's scancel, which would have ended the
# chain itself? It may have if sbatch told the script the job, and the script calls a scancel that
# is not the plugin's.
mirage_has_script_cancelled() {
    [ "$(mirage_get "handed.$mirage_next")" = "$mirage_id" ] &&
        grep -q scancel "$mirage_tmp/slurm_script" 2>/dev/null || return 1
    ! [ "$(command -v scancel)" -ef "$mirage_plugin/scancel" ] ||
        grep -q '[^[:space:]]/scancel' "$mirage_tmp/slurm_script"
}

# Has the next link been submitted?
mirage_is_next_submitted() {
    [ -n "$mirage_next_job" ] || [ -e "$mirage_dir/jobs/$mirage_next" ]
}

# Cancel the pending jobs of the chain: later links, and earlier links that were requeued. The chain
# is over.
mirage_cancel_queued_links() {
    mirage_jobs=
    mirage_find_later_links jobs
    for mirage_k in $mirage_later; do
        [ -e "$mirage_dir/started/$mirage_k" ] ||
            mirage_jobs="$mirage_jobs $(mirage_get "jobs/$mirage_k")"
    done
    [ -z "$mirage_next_job" ] || [ -e "$mirage_dir/jobs/$mirage_next" ] || mirage_jobs="$mirage_jobs $mirage_next_job"
    mirage_jobs=$mirage_jobs$(mirage_list_requeued_before)
    [ -n "$mirage_jobs" ] || return 0
    # shellcheck disable=SC2086 # a list of numbers
    mirage_slurm 20 scancel --state=PENDING $mirage_jobs >/dev/null 2>&1
    mirage_log "cancelled pending links: job$mirage_jobs"
}

# Print the pending jobs of this link and of earlier links, each with a space before it.
mirage_list_requeued_before() {
    mirage_next=$mirage_index
    mirage_print_dependency PENDING | sed 's/^[^:]*//' | tr ':' ' '
}

# Serve `mirage-link resume`: queue this link behind those that still live. If all links are queued
# from the start, queue the later ones too.
mirage_resume_links() {
    mirage_next=$mirage_index mirage_err=2
    if [ "$mirage_next" -gt "$mirage_links" ]; then
        mirage_say "all $mirage_links links of the chain have begun"
        return 1
    fi
    while [ "$mirage_next" -le "$mirage_links" ]; do
        mirage_ensure_standby "$(mirage_print_dependency)" || {
            mirage_say "link $mirage_next was not submitted: $mirage_error"
            return 1
        }
        printf 'link %s\tjob %s\n' "$mirage_next" "$mirage_standby"
        [ "$mirage_presubmit" = all ] || return 0
        mirage_next=$((mirage_next + 1))
    done
}

# Serve `mirage-link next`: queue this link, eligible at once.
mirage_submit_next() {
    mirage_next=$mirage_index mirage_err=2
    if [ "$mirage_mode" != submit ] || [ "$mirage_next" -gt "$mirage_links" ]; then
        mirage_why="the chain is of mode $mirage_mode, with $mirage_links links"
        mirage_say "link $mirage_next cannot be submitted: $mirage_why"
        return 1
    fi
    mirage_ensure_standby '' || {
        mirage_say "link $mirage_next was not submitted: $mirage_error"
        return 1
    }
    printf 'link %s\tjob %s\n' "$mirage_next" "$mirage_standby"
}

# Print a dependency on every earlier link that is in the queue; with $1 only on those in state $1.
mirage_print_dependency() {
    mirage_slurm 60 squeue -h --all ${1:+-t "$1"} -u "$(id -un)" -o '%k %i' 2>/dev/null |
        while read -r mirage_text; do
            case $mirage_text in
            *"mirage:$mirage_chain:"*)
                mirage_id=${mirage_text##* } mirage_text=${mirage_text% *}
                mirage_number "${mirage_text##*:}" "$mirage_next"
                [ "$mirage_n" -ge "$mirage_next" ] || printf ':%s' "${mirage_id%%+*}"
                ;;
            esac
        done | sed 's/^:/afterany:/'
}
