# --- what the chain has come to: its total time, and links that come to nothing -------------------

mirage_is_complete() { # has the chain all that was asked for? sets mirage_why
    if [ -n "$mirage_until" ] && [ -e "$mirage_until" ]; then
        mirage_why="the file of --mirage-until-file exists"
    elif [ -n "$mirage_total" ] && mirage_sum_up && [ "$mirage_spent" -ge "$mirage_total" ]; then
        mirage_why="the chain's links have run $mirage_spent s of the $mirage_total s asked for"
    else
        return 1
    fi
    mirage_put 'done' "$mirage_why"
    return 0
}

mirage_cut_to_total() { # the link that uses the total up gets no longer a time limit than that: Slurm ends
    # it as any other, with the user's own --signal before. Whoever owns a job may shorten it; where
    # that fails the link is as long as it was
    [ -n "$mirage_total" ] && [ -z "${SLURM_HET_SIZE-}" ] && mirage_sum_up || return 0
    # shellcheck disable=SC2046 # squeue's three words
    set -- $(mirage_ask "$mirage_job" '%T %S %e')
    mirage_number "${2-}" '' && mirage_k=$mirage_n # its start
    [ -n "$mirage_k" ] || return 0
    mirage_number "${3-}" ''
    set -- "$(((mirage_total - mirage_spent + $(date +%s) - mirage_k + 59) / 60))"
    [ -z "$mirage_n" ] || [ "$((mirage_k + 60 * $1))" -lt "$mirage_n" ] || return 0
    if mirage_slurm 60 scontrol update "JobId=$mirage_job" "TimeLimit=$1" >/dev/null 2>&1; then
        [ -z "${SLURM_JOB_END_TIME-}" ] || SLURM_JOB_END_TIME=$((mirage_k + 60 * $1))
        mirage_log "time limit $1 min: the rest of the $mirage_total s that the chain has in all"
    fi
}

mirage_sum_up() { # the seconds that links have run so far; the predecessor may still be at it
    mirage_spent=0 mirage_k=0
    while [ "$mirage_k" -lt "$mirage_index" ]; do
        mirage_k=$((mirage_k + 1))
        if [ -f "$mirage_dir/ran/$mirage_k" ]; then
            read -r mirage_seconds <"$mirage_dir/ran/$mirage_k"
            mirage_number "$mirage_seconds" 0
        elif [ "$mirage_k" -eq "$mirage_previous" ] && [ -n "$mirage_began" ]; then
            mirage_first_line_of "$mirage_k" "$mirage_began"
            mirage_n=$(($(date +%s) - mirage_n))
        else
            continue
        fi
        mirage_spent=$((mirage_spent + mirage_n))
    done
}

mirage_write_ran() { # a link that was requeued has run more than once
    mirage_number "$mirage_ran_before" 0
    mirage_put "ran/$mirage_index" "$((mirage_n + $(date +%s) - mirage_script_at))"
}

mirage_judge() { # was this link the second in a row that came to nothing, or the fifth that ran for
    # less than a minute? Then the chain pauses
    mirage_note_checkpoint "$1"
    mirage_from=1
    ! mirage_get_number resumed || mirage_from=$mirage_n
    [ "$(($1 - 1))" -ge "$mirage_from" ] || return 1
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

mirage_found_nothing() { # did this link end well at once, after one that ran at least ten times as long?
    # Then there is nothing left to do, and the next link would find that out too. Sets mirage_why
    [ "$mirage_brief" = ends ] && [ "$mirage_code" = 0 ] && [ -z "$mirage_signalled" ] || return 1
    mirage_later_links started
    [ -z "$mirage_later" ] && [ -e "$mirage_dir/ends/$mirage_previous" ] || return 1
    mirage_get_number "ran/$mirage_index" && [ "$mirage_n" -le 60 ] || return 1
    mirage_k=$mirage_n
    [ "$mirage_k" -ge 1 ] || mirage_k=1
    mirage_get_number "ran/$mirage_previous" && [ "$mirage_n" -ge "$((10 * mirage_k))" ] || return 1
    mirage_why="the chain is done: link $mirage_index had nothing to do and ended after $mirage_k s (link $mirage_previous ran for $mirage_n s)"
    mirage_put 'done' "$mirage_why"
}

mirage_all_were_brief() { # mirage_all_were_brief FIRST LAST: however they ended. Where all links stand from
    # the start, those that are left when the work is done are brief. The service has the same rule
    # (chain_state.py), for links of older wrappers
    [ "$mirage_presubmit" != all ] && [ "$1" -ge "$mirage_from" ] || return 1
    mirage_k=$1
    while [ "$mirage_k" -le "$2" ]; do
        mirage_get_number "ran/$mirage_k" && [ "$mirage_n" -lt 60 ] || return 1
        mirage_k=$((mirage_k + 1))
    done
}

mirage_failed_fast() {
    case $(mirage_written_state "$1") in
    FAILED | OUT_OF_MEMORY) mirage_get_number "ran/$1" && [ "$mirage_n" -lt "$mirage_min_runtime" ] ;;
    *) return 1 ;;
    esac
}

mirage_saved_nothing() { # both instants are the file system's: its clock need not be this node's
    [ -n "$mirage_checkpoint" ] && mirage_get_number "made/$1" || return 1
    mirage_made=$mirage_n
    mirage_number "$(stat -c %Y "$mirage_dir/started/$1" 2>/dev/null)" ''
    [ -n "$mirage_n" ] && [ "$mirage_made" -lt "$mirage_n" ]
}

mirage_note_checkpoint() { # once a link: the newest file under the checkpoint path as it had ended
    [ -n "$mirage_checkpoint" ] && [ ! -e "$mirage_dir/made/$1" ] || return 0
    mirage_newest=$(mirage_find_newest) || return 0
    mirage_put "made/$1" "$mirage_newest"
    if mirage_saved_nothing "$1"; then
        mirage_say "link $1 ended before it saved anything in $mirage_checkpoint"
    fi
}

mirage_find_newest() { # its mtime, 0 where there is none; fails when that cannot be said
    [ -e "$mirage_checkpoint" ] || { echo 0 && return; }
    mirage_times=$(mirage_limit 60 find -H "$mirage_checkpoint" -type f -exec stat -c %Y {} + \
        2>/dev/null) || [ -n "$mirage_times" ] || return 1
    mirage_number "$(printf '%s\n' "$mirage_times" | sort -n | tail -n 1)" 0
    echo "$mirage_n"
}
