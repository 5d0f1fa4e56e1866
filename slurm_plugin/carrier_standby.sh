# --- the standby: the next link, pending on this one ---------------------------------------------

mirage_standing() { # the id of the next link if it stands in the queue already; fails when squeue does
    # The tag is the end of a comment, whose own words may have several lines; the id comes after it.
    mirage_queue=$(mirage_slurm 60 squeue -h --all -u "$(id -un)" -o '%k %i' 2>/dev/null) || return 1
    printf '%s\n' "$mirage_queue" |
        while read -r mirage_text; do
            mirage_id=${mirage_text##* }
            case $mirage_text in
            *"mirage:$mirage_chain:$mirage_next $mirage_id") printf '%s\n' "${mirage_id%%+*}" ;;
            esac
        done | grep -vx "$mirage_job" | sort -n | tail -n 1
}

mirage_submit() { # submit the next link with this dependency: mirage_submit [DEPENDENCY]. Sets mirage_new, its
    # job; else fails, and mirage_error says why
    mirage_error= mirage_new=
    if [ ! -x "$mirage_sbatch" ] && ! mirage_sbatch=$(command -v sbatch); then
        mirage_error="there is no sbatch on this node"
        return 1
    fi
    mirage_said=$(mirage_call_sbatch "$1" 2>&1)
    mirage_n=$?
    if [ "$mirage_n" -ne 0 ]; then
        mirage_error=$(printf '%s\n' "$mirage_said" | LC_ALL=C grep -m 1 '^sbatch: error' ||
            printf '%s\n' "$mirage_said" | LC_ALL=C grep -m 1 .)
        mirage_error=${mirage_error:-sbatch ended with $mirage_n and said nothing}
        return 1
    fi
    mirage_new=$(printf '%s\n' "$mirage_said" | mirage_find_id)
    # Beside other lines, of a site's banner, Slurm knows better than we which number is the job's.
    if [ -z "$mirage_new" ] || [ "$(printf '%s\n' "$mirage_said" | grep -c .)" -gt 1 ]; then
        mirage_n=$(mirage_standing)
        mirage_new=${mirage_n:-$mirage_new}
    fi
    [ -n "$mirage_new" ] || mirage_error="sbatch ended with 0 and printed no job id, and squeue lists no such job"
    [ -n "$mirage_new" ]
}

mirage_find_id() { # the job in what sbatch printed: the one line that is nothing but sbatch's own answer.
    # Where a banner holds another such line nothing is printed (process.py, parse_job_id, is the same)
    # shellcheck disable=SC2046 # numbers
    set -- $(LC_ALL=C sed -n -e 's/^Submitted batch job \([1-9][0-9]*\)$/\1/p' \
        -e 's/^Submitted batch job \([1-9][0-9]*\) on cluster [^ ]*$/\1/p' \
        -e 's/^\([1-9][0-9]*\)$/\1/p' -e 's/^\([1-9][0-9]*\);[^ ]*$/\1/p' | sort -u)
    [ $# -ne 1 ] || echo "$1"
}

mirage_call_sbatch() { # with the first submission's words, environment and directory. sbatch gives the job its
    # own umask, and that may be another here: the user's of later, in mirage-link
    # shellcheck disable=SC2086 # the last is one word or none
    (${mirage_umask:+umask "$mirage_umask"} && cd "$mirage_cwd" &&
        mirage_run_sbatch --parsable ${1:+"--dependency=$1"} \
            --comment="${mirage_comment:+$mirage_comment }mirage:$mirage_chain:$mirage_next" \
            ${SLURM_JOB_NAME:+"--job-name=$SLURM_JOB_NAME"} $mirage_append </dev/null)
}

mirage_python=/usr/bin/python3
mirage_in_env() { # a command in the first submission's environment, which comes from a file: everybody
    # can read the words of a command
    if [ -x "$mirage_python" ]; then
        mirage_limit 120 "$mirage_python" -IS -c '
import os, signal, sys
for ignored in signal.SIGPIPE, signal.SIGXFSZ:  # by Python
    signal.signal(ignored, signal.SIG_DFL)
try:
    with open(sys.argv[1], "rb") as env:
        pairs = [entry.split(b"=", 1) for entry in env.read().split(b"\0")[:-1]]
    os.execve(sys.argv[2], sys.argv[2:], dict(pairs))
except OSError as error:
    sys.exit("sbatch cannot be run: %s" % (error,))
' "$mirage_dir/env" "$@"
    else
        # shellcheck disable=SC2016 # for the other shell
        mirage_limit 120 env -i /bin/sh -c '. "$0" || exit; exec "$@"' "$mirage_dir/env.sh" "$@"
    fi
}

mirage_stand() { # put the standby in place; says nothing but its success, or sets mirage_error
    # An unanswered question is no "none stands": asking sbatch then could make two.
    mirage_standby=$(mirage_standing) || {
        mirage_error="squeue does not answer"
        return 1
    }
    if [ -z "$mirage_standby" ]; then
        mirage_submit "$1" || return 1
        mirage_standby=$mirage_new
    else
        mirage_inherits=yes
    fi
    mirage_noted=$mirage_standby # where the directory takes no file this one keeps it
    mirage_put "jobs/$mirage_next" "$mirage_standby"
    mirage_log "link $mirage_next stands as job $mirage_standby"
}

mirage_put_standby() {
    [ "$mirage_index" -lt "$mirage_links" ] || return 0
    if [ "$mirage_presubmit" = all ]; then # the wrapper may still be at it
        mirage_is_noted || mirage_start_loop mirage_stand_later
    elif [ "$mirage_mode" = submit ]; then
        mirage_start_loop mirage_ask_service
    elif ! mirage_stand "afterany:$mirage_job"; then
        mirage_say "link $mirage_next is not in the queue yet: $mirage_error"
        mirage_start_loop mirage_stand_later
    fi
}

mirage_stand_later() { # as long as the link runs: submit limits are lifted by other jobs' ends
    mirage_pause=$mirage_pace_s
    until mirage_nap "$mirage_pause" && { mirage_is_noted || mirage_stand "afterany:$mirage_job"; }; do
        [ "$mirage_pause" -ge 1800 ] || mirage_pause=$((2 * mirage_pause))
    done
}

mirage_stand_at_last() { # the link ends and none stands: the last moment to see to that, which
    # outlasts a restart of slurmctld
    [ "$mirage_index" -lt "$mirage_links" ] || return 0
    ! mirage_is_noted || mirage_is_lost || return 0
    ! mirage_stand "afterany:$mirage_job" || return 0
    mirage_say "link $mirage_next is not in the queue yet: $mirage_error; if the link does not come: mirage-link resume $mirage_chain"
    for mirage_pause in $((mirage_pace_s / 6)) $((mirage_pace_s / 2)); do
        sleep "$mirage_pause"
        ! mirage_stand "afterany:$mirage_job" || return 0
    done
}

mirage_is_lost() { # was the next link cancelled before it began? It is made anew, once. Where all
    # links stand already another one stands behind it
    [ "$mirage_presubmit" != all ] && [ ! -e "$mirage_dir/started/$mirage_next" ] || return 1
    mirage_id=$(mirage_get "jobs/$mirage_next") || mirage_id=$mirage_noted
    [ -n "$mirage_id" ] || return 1
    mirage_query "$mirage_id"
    [ "$mirage_word" = forgotten ] || mirage_ended "$mirage_word" || return 1 # no answer is no end
    [ "$mirage_word" != COMPLETED ] || return 1 # its guard turned it away
    if [ "$mirage_word" = CANCELLED ] && mirage_is_scripts_word; then
        mirage_why="link $mirage_next (job $mirage_id), which the script knew from sbatch, was cancelled as the script ran: no further link is wanted"
        mirage_put 'done' "$mirage_why"
        mirage_say "the chain is done: $mirage_why"
        mirage_take_back
        return 1
    fi
    if [ -e "$mirage_dir/lost.$mirage_next" ]; then
        [ "$mirage_word" != CANCELLED ] || mirage_pause_for_lost "$mirage_next"
        return 1
    fi
    mirage_put "lost.$mirage_next" "$mirage_id" || { # what cannot be counted is not repeated
        [ -n "$(mirage_standing)" ] ||
            mirage_say "link $mirage_next (job $mirage_id) was cancelled before it began; to go on: mirage-link resume $mirage_chain"
        return 1
    }
    mirage_log "link $mirage_next (job $mirage_id) was cancelled before it began: a new job is submitted for the link"
}

mirage_is_scripts_word() { # has the script cancelled the next link out of sight of the plugin's scancel, which
    # else says so? It may have where sbatch told it the job, and it names a scancel that is not that one
    [ "$(mirage_get "handed.$mirage_next")" = "$mirage_id" ] &&
        grep -q scancel "$mirage_tmp/slurm_script" 2>/dev/null || return 1
    ! [ "$(command -v scancel)" -ef "$mirage_plugin/scancel" ] ||
        grep -q '[^[:space:]]/scancel' "$mirage_tmp/slurm_script"
}

mirage_is_noted() { # has the next link been submitted?
    [ -n "$mirage_noted" ] || [ -e "$mirage_dir/jobs/$mirage_next" ]
}

mirage_take_back() { # the chain is over: cancel what stands in the queue for its later links, and for
    # earlier ones that were requeued
    mirage_jobs=
    mirage_later_links jobs
    for mirage_k in $mirage_later; do
        [ -e "$mirage_dir/started/$mirage_k" ] ||
            mirage_jobs="$mirage_jobs $(mirage_get "jobs/$mirage_k")"
    done
    [ -z "$mirage_noted" ] || [ -e "$mirage_dir/jobs/$mirage_next" ] || mirage_jobs="$mirage_jobs $mirage_noted"
    mirage_jobs=$mirage_jobs$(mirage_requeued_before)
    [ -n "$mirage_jobs" ] || return 0
    # shellcheck disable=SC2086 # numbers
    mirage_slurm 20 scancel --state=PENDING $mirage_jobs >/dev/null 2>&1
    mirage_log "cancelled pending links: job$mirage_jobs"
}

mirage_requeued_before() { # a space before each job
    mirage_next=$mirage_index
    mirage_behind_the_living PENDING | sed 's/^[^:]*//' | tr ':' ' '
}

mirage_place() { # for `mirage-link resume`: put this link in the queue, with none before it that lives
    mirage_next=$mirage_index mirage_err=2
    if [ "$mirage_next" -gt "$mirage_links" ]; then
        mirage_say "all $mirage_links links of the chain have begun"
        return 1
    fi
    while [ "$mirage_next" -le "$mirage_links" ]; do
        mirage_stand "$(mirage_behind_the_living)" || {
            mirage_say "link $mirage_next was not submitted: $mirage_error"
            return 1
        }
        printf 'link %s\tjob %s\n' "$mirage_next" "$mirage_standby"
        [ "$mirage_presubmit" = all ] || return 0
        mirage_next=$((mirage_next + 1))
    done
}

mirage_submit_next() { # for `mirage-link next`: put this link in the queue, eligible at once
    mirage_next=$mirage_index mirage_err=2
    if [ "$mirage_mode" != submit ] || [ "$mirage_next" -gt "$mirage_links" ]; then
        mirage_why="the chain is of mode $mirage_mode, with $mirage_links links"
        mirage_say "link $mirage_next cannot be submitted: $mirage_why"
        return 1
    fi
    mirage_stand '' || {
        mirage_say "link $mirage_next was not submitted: $mirage_error"
        return 1
    }
    printf 'link %s\tjob %s\n' "$mirage_next" "$mirage_standby"
}

mirage_behind_the_living() { # a dependency on every link before the next one that has not ended, or
    # is in this state: mirage_behind_the_living [STATE]
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
