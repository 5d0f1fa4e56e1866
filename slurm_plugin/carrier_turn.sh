# --- one writer: no line of the script is run before the link before it has ended -----------------

mirage_has_to_wait() { # sets mirage_behind, the job to wait for, and mirage_why
    [ "$mirage_style" = sequential ] && [ "$mirage_index" -gt 1 ] || return 1
    if [ -n "$mirage_completing" ]; then
        mirage_behind=$MIRAGE_PREV_JOBID mirage_why="the job is about to end"
    elif [ -n "$mirage_silent" ]; then
        mirage_behind=$MIRAGE_PREV_JOBID mirage_why="Slurm does not answer"
    elif [ -n "$mirage_state" ] && ! mirage_is_settled "$mirage_state"; then
        mirage_behind=$MIRAGE_PREV_JOBID mirage_why="the job still runs"
    elif mirage_find_beside; then # one before it
        mirage_behind=$mirage_beside mirage_why="the job still runs"
    else
        return 1
    fi
    [ "$mirage_behind" != "$mirage_outlived" ] || return 1
    mirage_find_rank
    ! mirage_has_let_go
}

mirage_find_rank() { # sets mirage_rank: the link of the job to wait for
    mirage_rank=$((mirage_index - 1))
    while [ "$mirage_rank" -gt 1 ] && [ "$(mirage_get "jobs/$mirage_rank")" != "$mirage_behind" ]; do
        mirage_rank=$((mirage_rank - 1))
    done
}

mirage_has_let_go() { # of the lease that it had (mirage-link handover release): it writes no more
    [ "$mirage_style" = sequential ] || return 1
    mirage_newest=0
    for mirage_file in "$mirage_dir"/handover/lease/*; do
        mirage_number "${mirage_file##*/}" 0
        [ "$mirage_n" -le "$mirage_newest" ] || mirage_newest=$mirage_n
    done
    mirage_lists handover/lease "$mirage_newest.free" || return 1
    mirage_read "handover/lease/$mirage_newest"
    case $mirage_line in
    "$mirage_rank $mirage_behind "*) ;;
    *) return 1 ;;
    esac
}

mirage_take_turn() { # wait where that is needed, and claim the link; who may not begin leaves
    until [ -z "$mirage_must_wait" ] && mirage_has_claimed; do
        mirage_unclaim
        mirage_must_wait= mirage_waiting=yes
        [ -n "$mirage_loops" ] || mirage_stand_by
        mirage_find_rank
        mirage_await_end
        [ -z "$mirage_reason" ] || mirage_end_waiting
        [ -z "$mirage_warned" ] || mirage_heed_warning
        mirage_find_previous
        mirage_may_begin || mirage_leave
        ! mirage_has_to_wait || mirage_must_wait=yes
    done
    [ -n "$mirage_waiting" ] || return 0
    [ -z "$mirage_reason" ] || mirage_end_waiting
    mirage_waiting= mirage_early=$mirage_early$mirage_warned
}

mirage_has_claimed() { # two that claim at once look for each other after that, and one goes back
    mirage_claim || mirage_leave
    mirage_claimed=yes
    mirage_take_over
    [ -z "$mirage_must_wait" ] || return 1
    [ "$mirage_style" = sequential ] && [ "$mirage_index" -gt 1 ] || return 0
    mirage_later_links started
    mirage_why="link ${mirage_later##* } has begun meanwhile"
    [ -z "$mirage_later" ] || mirage_leave
    mirage_k=$mirage_previous
    mirage_find_previous
    [ "$mirage_previous" -eq "$mirage_k" ] && return 0
    mirage_behind=$MIRAGE_PREV_JOBID mirage_must_wait=yes
    mirage_why="the job has begun at this very moment"
    return 1
}

# --- the wait: a look at the chain's files every few seconds, a question to Slurm where they say so

mirage_await_end() { # of that job; also until nobody's word is to be had and it can run no more, until a
    # signal comes, or the chain is over
    mirage_put "waits/$mirage_index" "$mirage_rank $mirage_behind"
    mirage_say "waits for link $mirage_rank (job $mirage_behind): $mirage_why; the script starts after the job has ended"
    mirage_wait_since=$(date +%s)
    mirage_begin_looking
    until [ -n "$mirage_reason$mirage_warned" ] || mirage_is_halted_now || mirage_has_let_go; do
        if mirage_is_to_ask && mirage_is_over; then
            break
        fi
        mirage_doze
        mirage_unasked=$((mirage_unasked + mirage_look_s)) mirage_still=$((mirage_still + mirage_look_s))
    done
    mirage_waited=yes
    mirage_log "waited $(($(date +%s) - mirage_wait_since)) s for link $mirage_rank (job $mirage_behind)"
}

mirage_begin_looking() { # what Slurm said as the guard asked counts as the first answer
    mirage_warned=$mirage_early$mirage_warned mirage_early=
    mirage_unasked=0 mirage_still=0 mirage_asks=0 mirage_own_end= mirage_last_end= mirage_answered=
    [ "$mirage_behind" != "$MIRAGE_PREV_JOBID" ] || mirage_last_end=$mirage_ends
    mirage_read "beat/$mirage_rank"
    mirage_seen_beat=$mirage_line
    mirage_beats "$mirage_rank" || mirage_still=$((3 * mirage_beat_s))
    mirage_find_grace
}

mirage_find_grace() { # how long a job may run after its time limit; the chain asks once a day
    mirage_grace_s=30
    mirage_read grace
    mirage_number "${mirage_line#* }" 0
    mirage_n=$(($(date +%s) - mirage_n))
    if [ "$mirage_n" -lt 86400 ] && [ "$mirage_n" -gt -600 ]; then
        mirage_number "${mirage_line%% *}" 30 && mirage_grace_s=$mirage_n
        return 0
    fi
    # shellcheck disable=SC2046 # words
    set -- $(mirage_slurm 20 scontrol show config 2>/dev/null |
        sed -n 's/^KillWait  *= \([0-9]*\) .*/KillWait \1/p; s/^OverTimeLimit  *= \([0-9A-Z]*\) *.*/OverTimeLimit \1/p')
    mirage_read_grace "$@"
    [ $# -lt 4 ] || mirage_put grace "$mirage_grace_s $(date +%s)"
}

mirage_read_grace() { # from scontrol's words
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

mirage_is_halted_now() {
    mirage_lists . 'done' || mirage_lists . stop || mirage_lists . paused
}

mirage_is_to_ask() { # once the link has written its end at each look; where its heartbeat stands still, or
    # Slurm did not answer, at the usual pace; else seldom
    mirage_read "beat/$mirage_rank"
    [ "$mirage_line" = "$mirage_seen_beat" ] || mirage_still=0
    mirage_seen_beat=$mirage_line mirage_line=
    ! mirage_lists ends "$mirage_rank" || mirage_read "ends/$mirage_rank"
    if [ "$mirage_line" != "$mirage_own_end" ]; then
        mirage_own_end=$mirage_line mirage_asks=0 mirage_own_end_at=$(date +%s)
        return 0
    fi
    if [ -n "$mirage_own_end" ] && [ -z "$mirage_silent" ] && [ "$mirage_asks" -lt 30 ]; then
        return 0
    fi
    mirage_n=$((60 * mirage_pace_s))
    if [ -n "$mirage_own_end$mirage_silent" ] || mirage_stands_still; then
        mirage_n=$mirage_pace_s
    fi
    [ "$mirage_unasked" -ge "$mirage_n" ]
}

mirage_stands_still() { # has the heartbeat not moved for three beats?
    [ "$mirage_still" -ge "$((3 * mirage_beat_s))" ]
}

mirage_is_over() { # has that job ended in Slurm, or been put back into the queue? COMPLETING is no end, and
    # no answer is none before the job can run no more
    mirage_unasked=0 mirage_asks=$((mirage_asks + 1)) mirage_silent=
    mirage_query "$mirage_behind"
    if [ -n "$mirage_word" ]; then
        [ -z "$mirage_word_end" ] || mirage_last_end=$mirage_word_end
        mirage_is_settled "$mirage_word" && mirage_answered=$mirage_behind
        return
    fi
    mirage_silent=yes
    # Whose heartbeat moves runs: somebody has lengthened its time limit since.
    mirage_stands_still && mirage_can_run_no_more || return 1
    mirage_outlived=$mirage_behind
    mirage_say "Slurm does not answer, but the time limit of job $mirage_behind is over: the job can run no more"
}

mirage_is_settled() { # the state of a job that runs no more, or not now; of any other word that is not known
    case $1 in
    forgotten | PENDING | REQUEUED | REQUEUE_HOLD | REQUEUE_FED | SPECIAL_EXIT | REVOKED | RESV_DEL_HOLD) ;;
    *) mirage_ended "$1" ;;
    esac
}

mirage_can_run_no_more() { # by the last of the ends that Slurm and the link itself have told. Where there
    # is no time limit by its own end; where nothing is known by the longest overlap
    mirage_read "deadline/$mirage_rank"
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

mirage_doze() { # until the next look. In the foreground: a signal is heard after it, and bash's `wait` may
    # lose the end of a child that dies of the same signal
    # shellcheck disable=SC2217 # it holds nothing of the script's
    { sleep "$mirage_look_s" </dev/null >/dev/null; } 2>/dev/null || :
}

# --- a link that is ended, or warned, before a line of its script was run -------------------------

mirage_end_waiting() { # what happens to a standby happens to this link, which has run nothing either: one
    # that was cancelled is made anew once, and the second time the chain pauses
    case $mirage_reason in
    requeued | node_fail) ;; # Slurm has put it back
    *) mirage_is_halted || mirage_lose_itself ;;
    esac
    mirage_unclaim
    mirage_end_loops
    mirage_drop "waits/$mirage_index"
    exit 143
}

mirage_lose_itself() { # where all links stand the chain goes on with the one after it
    if [ "$mirage_reason" != cancelled ]; then
        mirage_stand_anew # its time was up, or another's came first
    elif [ "$mirage_presubmit" = all ]; then
        mirage_say "link $mirage_index was cancelled before it began: the chain goes on without it"
    elif [ -e "$mirage_dir/lost.$mirage_index" ]; then
        mirage_pause_for_lost "$mirage_index"
        mirage_take_back
    elif mirage_put "lost.$mirage_index" "$mirage_job"; then
        mirage_stand_anew
    fi
}

mirage_pause_for_lost() { # who cancels a link twice before it begins means the chain
    mirage_why="link $1 was cancelled twice before it began"
    mirage_put paused "$mirage_why"
    mirage_say "the chain is paused: $mirage_why; to go on: mirage-link resume $mirage_chain"
}

mirage_stand_anew() {
    mirage_stand_behind || return 1
    mirage_say "link $mirage_index (job $mirage_job) was ended before its script began: the link now waits behind job $mirage_behind, as job $mirage_new"
}

mirage_heed_warning() { # there is not the time left for the script, which has not heard of it: another job of
    # this link is to run it. Where that cannot be this one waits on
    mirage_why="a signal (${mirage_warned# }) came before the script began"
    mirage_warned=
    mirage_is_halted || ! mirage_stand_behind || mirage_leave_behind
}

mirage_leave_behind() {
    mirage_why="$mirage_why: link $mirage_index now waits behind job $mirage_behind, as job $mirage_new"
    mirage_leave
}

# --- without the chain's directory: by the marks of its links in the queue -------------------------

mirage_await_unseen() {
    [ "$mirage_style" = sequential ] && [ "$mirage_index" -gt 1 ] || return 0
    mirage_waiting=yes mirage_last_end= mirage_own_end= mirage_line= mirage_grace_s=30
    mirage_unasked=$mirage_pace_s
    until [ -n "$mirage_reason" ] ||
        { [ "$mirage_unasked" -ge "$mirage_pace_s" ] && mirage_unasked=0 && mirage_is_unseen_over; }; do
        mirage_doze
        mirage_unasked=$((mirage_unasked + mirage_look_s))
    done
    mirage_waiting= mirage_early=$mirage_early$mirage_warned
}

mirage_is_unseen_over() {
    if mirage_queue=$(mirage_slurm 60 squeue -h --all -u "$(id -un)" -o '%k %i %T %e' 2>/dev/null); then
        # shellcheck disable=SC2046 # two words
        set -- $(printf '%s\n' "$mirage_queue" | mirage_earlier_in_queue | tail -n 1)
        [ $# -gt 0 ] || return 0
        [ "$1" = "$mirage_behind" ] || mirage_say "waits for job $1, an earlier link that still runs"
        mirage_behind=$1
        mirage_number "$2" "$mirage_last_end" && mirage_last_end=$mirage_n
        return 1
    fi
    mirage_can_run_no_more
}

mirage_earlier_in_queue() { # the job of each that runs, and when it is to end
    while read -r mirage_text; do
        mirage_k=${mirage_text##* } mirage_text=${mirage_text% *}
        mirage_word=${mirage_text##* } mirage_text=${mirage_text% *}
        case $mirage_text,$mirage_word in
        *,PENDING | *,EXPEDITING) ;;
        *"mirage:$mirage_chain:"*)
            mirage_id=${mirage_text##* } mirage_text=${mirage_text% *}
            mirage_number "${mirage_text##*:}" "$mirage_index"
            [ "$mirage_n" -ge "$mirage_index" ] || echo "${mirage_id%%+*} $mirage_k"
            ;;
        esac
    done
}
