# --- progress: the chain's total time, and links without a result ---------------------------------
#
#   reads   settings; mirage_began, mirage_previous; ran/, ends/, made/, started/, resumed in the chain's
#           directory; the files under the user's checkpoint path
#   sets    mirage_spent (seconds that the chain has run), mirage_why
#   writes  done, paused, ran/LINK, made/LINK (when the newest checkpoint was written); the job's time
#           limit in Slurm

# Has the chain all that the user asked for? Then mark the chain as done, and set mirage_why.
mirage_is_complete() {
    if [ -n "$mirage_until" ] && [ -e "$mirage_until" ]; then
        mirage_why="the file of --mirage-until-file exists"
    elif [ -n "$mirage_total" ] && mirage_sum_run_time && [ "$mirage_spent" -ge "$mirage_total" ]; then
        mirage_why="the chain's links have run $mirage_spent s of the $mirage_total s asked for"
    else
        return 1
    fi
    mirage_put 'done' "$mirage_why"
    return 0
}

# Shorten this job's time limit to the rest of the chain's total. Slurm then ends the link like any
# other, with the user's own --signal before. The owner of a job may shorten it; if Slurm refuses,
# the link keeps its time limit.
mirage_cut_to_total() {
    [ -n "$mirage_total" ] && [ -z "${SLURM_HET_SIZE-}" ] && mirage_sum_run_time || return 0
    # shellcheck disable=SC2046 # squeue's three words are to be split
    set -- $(mirage_ask_job "$mirage_job" '%T %S %e')
    mirage_number "${2-}" '' && mirage_k=$mirage_n # the job's start
    [ -n "$mirage_k" ] || return 0
    mirage_number "${3-}" ''
    set -- "$(((mirage_total - mirage_spent + $(date +%s) - mirage_k + 59) / 60))"
    [ -z "$mirage_n" ] || [ "$((mirage_k + 60 * $1))" -lt "$mirage_n" ] || return 0
    if mirage_slurm 60 scontrol update "JobId=$mirage_job" "TimeLimit=$1" >/dev/null 2>&1; then
        [ -z "${SLURM_JOB_END_TIME-}" ] || SLURM_JOB_END_TIME=$((mirage_k + 60 * $1))
        mirage_log "time limit $1 min: the rest of the $mirage_total s that the chain has in all"
    fi
}

# Set mirage_spent to the seconds that the links' scripts have run so far. The predecessor may still
# be running.
mirage_sum_run_time() {
    mirage_spent=0 mirage_k=0
    while [ "$mirage_k" -lt "$mirage_index" ]; do
        mirage_k=$((mirage_k + 1))
        if [ -f "$mirage_dir/ran/$mirage_k" ]; then
            read -r mirage_seconds <"$mirage_dir/ran/$mirage_k"
            mirage_number "$mirage_seconds" 0
        elif [ "$mirage_k" -eq "$mirage_previous" ] && [ -n "$mirage_began" ]; then
            mirage_find_script_start "$mirage_k" "$mirage_began"
            mirage_n=$(($(date +%s) - mirage_n))
        else
            continue
        fi
        mirage_spent=$((mirage_spent + mirage_n))
    done
}

# Write down how long this link's script has run, with its runs before a requeue.
mirage_write_run_time() {
    mirage_number "$mirage_ran_before" 0
    mirage_put "ran/$mirage_index" "$((mirage_n + $(date +%s) - mirage_script_at))"
}

# Pause the chain if link $1 is the second in a row without a result, or the fifth in a row that ran
# for less than a minute. Fail if the chain is not to pause.
mirage_pause_if_stuck() {
    mirage_note_checkpoint "$1"
    mirage_counted_from=1
    ! mirage_get_number resumed || mirage_counted_from=$mirage_n
    [ "$(($1 - 1))" -ge "$mirage_counted_from" ] || return 1
    if mirage_failed_fast "$1" && mirage_failed_fast "$(($1 - 1))"; then
        mirage_why="links $(($1 - 1)) and $1 each failed within $mirage_min_runtime s"
    elif mirage_saved_nothing "$1" && mirage_saved_nothing "$(($1 - 1))"; then
        mirage_why="links $(($1 - 1)) and $1 left nothing new in $mirage_checkpoint"
    elif mirage_all_were_brief "$(($1 - 4))" "$1"; then
        mirage_why="links $(($1 - 4)) to $1 each ran for less than 60 s"
    else
        return 1
    fi
    mirage_put paused "$mirage_why"
    mirage_why="the chain is paused: $mirage_why; to go on: mirage-link resume $mirage_chain"
}

# Did this link find nothing left to do? That is so if it ended well within a minute, after a link
# that ran at least ten times as long; the next link would find nothing either. Then mark the chain
# as done, and set mirage_why. The service has no such rule: for it the chain is finished anyhow.
mirage_had_nothing_to_do() {
    [ "$mirage_brief" = ends ] && [ "$mirage_code" = 0 ] && [ -z "$mirage_signalled" ] || return 1
    mirage_find_later_links started
    [ -z "$mirage_later" ] && [ -e "$mirage_dir/ends/$mirage_previous" ] || return 1
    mirage_get_number "ran/$mirage_index" && [ "$mirage_n" -le 60 ] || return 1
    mirage_k=$mirage_n
    [ "$mirage_k" -ge 1 ] || mirage_k=1
    mirage_get_number "ran/$mirage_previous" && [ "$mirage_n" -ge "$((10 * mirage_k))" ] || return 1
    mirage_why="the chain is done: link $mirage_index had nothing to do and ended after $mirage_k s (link $mirage_previous ran for $mirage_n s)"
    mirage_put 'done' "$mirage_why"
}

# Did each link from $1 to $2 run for less than a minute, however it ended? Never so in a chain
# whose links are all queued from the start: links that remain when the work is done are brief.
# _is_loop in mirage/chains/chain_state.py has the same rule, for links of older wrappers, and
# tests/data/brief-links-cases.json has the cases of both.
mirage_all_were_brief() {
    [ "$mirage_presubmit" != all ] && [ "$1" -ge "$mirage_counted_from" ] || return 1
    mirage_k=$1
    while [ "$mirage_k" -le "$2" ]; do
        mirage_get_number "ran/$mirage_k" && [ "$mirage_n" -lt 60 ] || return 1
        mirage_k=$((mirage_k + 1))
    done
}

# Did link $1 fail before it had run for the least run time?
mirage_failed_fast() {
    case $(mirage_print_written_state "$1") in
    FAILED | OUT_OF_MEMORY) mirage_get_number "ran/$1" && [ "$mirage_n" -lt "$mirage_min_runtime" ] ;;
    *) return 1 ;;
    esac
}

# Did link $1 end without a new file under the checkpoint path? Compare two instants of the file
# server: its clock may differ from this node's.
mirage_saved_nothing() {
    [ -n "$mirage_checkpoint" ] && mirage_get_number "made/$1" || return 1
    mirage_checkpoint_time=$mirage_n
    mirage_number "$(stat -c %Y "$mirage_dir/started/$1" 2>/dev/null)" ''
    [ -n "$mirage_n" ] && [ "$mirage_checkpoint_time" -lt "$mirage_n" ]
}

# Write down, once for link $1, when the newest file under the checkpoint path was written.
mirage_note_checkpoint() {
    [ -n "$mirage_checkpoint" ] && [ ! -e "$mirage_dir/made/$1" ] || return 0
    mirage_newest=$(mirage_find_checkpoint_time) || return 0
    mirage_put "made/$1" "$mirage_newest"
    if mirage_saved_nothing "$1"; then
        mirage_say "link $1 ended before it saved anything in $mirage_checkpoint"
    fi
}

# Print when the newest file under the checkpoint path was written, 0 if there is no file. Fail if
# find does not answer.
mirage_find_checkpoint_time() {
    [ -e "$mirage_checkpoint" ] || { echo 0 && return; }
    mirage_times=$(mirage_limit 60 find -H "$mirage_checkpoint" -type f -exec stat -c %Y {} + \
        2>/dev/null) || [ -n "$mirage_times" ] || return 1
    mirage_number "$(printf '%s\n' "$mirage_times" | sort -n | tail -n 1)" 0
    echo "$mirage_n"
}
