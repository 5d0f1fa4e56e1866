# --- the guard: may this link begin? ------------------------------------------------------------

mirage_may_begin() { # fails with the reason in mirage_why; asks of the predecessor while it is at it
    [ ! -e "$mirage_dir/done" ] || { mirage_why="the chain is done" && return 1; }
    [ ! -e "$mirage_dir/stop" ] || { mirage_why="the chain was stopped" && return 1; }
    if [ -e "$mirage_dir/paused" ]; then
        mirage_why="the chain is paused: $(mirage_get paused)"
        return 1
    fi
    mirage_later_links started
    [ -z "$mirage_later" ] || { mirage_why="link ${mirage_later##* } has begun meanwhile" && return 1; }
    if [ "$mirage_index" -gt 1 ]; then
        mirage_look_back
        mirage_goes_on "$mirage_previous" "$mirage_state" || return 1
    fi
    ! mirage_is_complete || return 1
    [ "$mirage_index" -gt 1 ] && mirage_ended "$mirage_state" || return 0
    ! mirage_judge "$mirage_previous"
}

mirage_claim() { # the first job of a link has it; a second one would be a second writer
    (umask 077 && set -C && printf '%s\n' "$mirage_job" >"$mirage_dir/started/$mirage_index") \
        2>/dev/null || ! mirage_is_taken
}

mirage_is_taken() { # has another job of this link begun?
    mirage_holder=$(mirage_get "started/$mirage_index")
    case $mirage_holder in
    '' | "$mirage_job") return 1 ;; # nobody's, or this job's own before a requeue
    esac
    mirage_why="link $mirage_index has begun as job $mirage_holder"
}

mirage_unclaim() {
    [ -z "$mirage_claimed" ] || mirage_drop "started/$mirage_index"
    mirage_claimed=
}

mirage_leave() { # this link runs nothing, and where the chain is over nobody need stand for it
    mirage_say "$mirage_why; the script is not run"
    mirage_unclaim
    mirage_drop "waits/$mirage_index"
    mirage_end_loops
    ! mirage_is_halted || mirage_take_back
    exit 0
}

mirage_is_halted() {
    [ -n "$mirage_halted" ] || [ -e "$mirage_dir/done" ] || [ -e "$mirage_dir/stop" ] ||
        [ -e "$mirage_dir/paused" ]
}

# --- the predecessor: Slurm's word first; what the link itself wrote where Slurm has forgotten ----

mirage_find_previous() { # the last link that has begun: one that stood already may have been cancelled
    MIRAGE_PREV_JOBID= mirage_previous=$((mirage_index - 1))
    [ "$mirage_index" -gt 1 ] || return 0
    while [ "$mirage_previous" -gt 1 ] && [ ! -e "$mirage_dir/started/$mirage_previous" ]; do
        mirage_previous=$((mirage_previous - 1))
    done
    [ -e "$mirage_dir/started/$mirage_previous" ] || mirage_previous=$((mirage_index - 1))
    MIRAGE_PREV_JOBID=$(mirage_get "jobs/$mirage_previous" || mirage_get "started/$mirage_previous")
    [ "$mirage_previous" -lt "$((mirage_index - 1))" ] || [ -z "$MIRAGE_PREV_JOBID" ] || return 0
    # The one before this one has not begun, or could not write that it has: the queue knows.
    # shellcheck disable=SC2046 # two words
    set -- $(mirage_list_begun 1 "$((mirage_index - 1))" "$mirage_unwritable" | sort -n | tail -n 1)
    [ $# -eq 2 ] && { [ -z "$MIRAGE_PREV_JOBID" ] || [ "$1" -gt "$mirage_previous" ]; } || return 0
    mirage_previous=$1 MIRAGE_PREV_JOBID=$2
}

mirage_is_outrun() { # does another job of this link run, or of a later one? sets mirage_why
    # shellcheck disable=SC2046 # words
    set -- $(mirage_list_begun "$mirage_index" "$mirage_links" '' | grep -v " $mirage_job\$")
    [ $# -gt 0 ] && mirage_why="link $1 runs as job $2"
}

mirage_list_begun() { # "LINK JOB" a line: the chain's links from $1 to $2 that run, by the marks in the queue;
    # with a third word those, too, that have run and that Slurm has not forgotten
    mirage_slurm 60 squeue -h --all -t all -u "$(id -un)" -o '%k %i %T %S %e' 2>/dev/null |
        while read -r mirage_text; do
            case $mirage_text in
            *"mirage:$mirage_chain:"*) ;;
            *) continue ;;
            esac
            # shellcheck disable=SC2086 # squeue's words: its mark, and from where to where it is asked
            set -- $1 $2 "${3:+yes}" mirage:${mirage_text##*mirage:}
            [ $# -eq 8 ] || continue
            if mirage_ended "$6"; then
                [ -n "$3" ] && [ "$7" != "$8" ] || continue # else cancelled before it began
            elif mirage_is_settled "$6" || [ "$6" = EXPEDITING ]; then
                continue
            fi
            mirage_number "${4##*:}" 0
            if [ "$mirage_n" -ge "$1" ] && [ "$mirage_n" -le "$2" ]; then echo "$mirage_n ${5%%+*}"; fi
        done
}

mirage_first_line_of() { # sets mirage_n: when the script of link $1 began, whose job began at $2; what
    # it waited before is none of its time
    mirage_get_number "began/$1" && [ "$mirage_n" -ge "$2" ] || mirage_n=$2
}

mirage_look_back() { # sets mirage_state, and of a job that Slurm knows mirage_began and mirage_ends;
    # mirage_silent where Slurm says nothing
    mirage_state= mirage_began= mirage_ends= mirage_completing= mirage_silent=
    [ -z "$MIRAGE_PREV_JOBID" ] || mirage_ask_state "$MIRAGE_PREV_JOBID"
    mirage_tries=0
    [ "$mirage_style" != sequential ] || mirage_tries=5 # which waits for it anyhow
    while [ "$mirage_state" = COMPLETING ] && [ "$mirage_tries" -lt 5 ]; do
        sleep 1
        mirage_tries=$((mirage_tries + 1))
        mirage_ask_state "$MIRAGE_PREV_JOBID"
    done
    if mirage_ended "$mirage_state"; then
        mirage_write_down "$mirage_previous"
    elif [ -z "$mirage_state" ] || [ "$mirage_state" = COMPLETING ]; then
        mirage_completing=$mirage_state
        mirage_state=$(mirage_written_state "$mirage_previous")
    fi
    if [ "$mirage_state" = CANCELLED ] && mirage_is_passed "$mirage_previous"; then
        mirage_state=REQUEUED
    fi
}

mirage_is_passed() { # was its job cancelled by a link that took over, or before the user resumed the
    # chain? That is nobody's word against the chain
    mirage_passed=$(mirage_get "passed.$1") && [ "$mirage_passed" = "$(mirage_get "jobs/$1")" ]
}

mirage_ask_state() { # but for the answer that ended a wait a moment ago
    [ "$1" = "$mirage_answered" ] || mirage_query "$1"
    mirage_answered=
    mirage_state=${mirage_word#forgotten} mirage_began=$mirage_word_start mirage_ends=$mirage_word_end
    mirage_silent=
    [ -z "$mirage_word" ] || return 0
    mirage_silent=yes # and so what the link has written of itself
    ! mirage_get_number "began/$mirage_previous" || mirage_began=$mirage_n
    ! mirage_get_number "deadline/$mirage_previous" || mirage_ends=$mirage_n
}

mirage_ended() { # is this the state of a job that runs no more?
    case $1 in
    COMPLETED | FAILED | TIMEOUT | PREEMPTED | NODE_FAIL | CANCELLED | OUT_OF_MEMORY | BOOT_FAIL | DEADLINE) ;;
    *) return 1 ;;
    esac
}

mirage_written_state() { # how a link wrote down its own end, in Slurm's words
    case $(mirage_get "ends/$1") in
    'exit 0') echo COMPLETED ;;
    'exit '*) echo FAILED ;;
    cancelled*) echo CANCELLED ;;
    ?*) mirage_get "ends/$1" | tr '[:lower:]' '[:upper:]' ;;
    *) ! mirage_beats "$1" || echo RUNNING ;;
    esac
}

mirage_beats() { # has this link shown itself within three beats?
    mirage_get_number "beat/$1" && [ "$(($(date +%s) - mirage_n))" -lt "$((3 * mirage_beat_s))" ]
}

mirage_write_down() { # what a link had no time to write itself
    [ "$(mirage_written_state "$1")" = "$mirage_state" ] ||
        { [ -e "$mirage_dir/ends/$1" ] && mirage_is_passed "$1"; } ||
        mirage_put "ends/$1" "$(echo "$mirage_state" | tr '[:upper:]' '[:lower:]')"
    if [ ! -e "$mirage_dir/ran/$1" ] && [ -n "$mirage_began" ] && [ -n "$mirage_ends" ]; then
        mirage_first_line_of "$1" "$mirage_began"
        [ "$mirage_n" -lt "$mirage_ends" ] || mirage_n=$mirage_ends
        mirage_put "ran/$1" "$((mirage_ends - mirage_n))"
    fi
}

mirage_goes_on() { # does the chain go on after link $1 ended as $2?
    mirage_is_followed "$2" && return 0
    mirage_why="link $1 ended as $2, and this chain goes on only after $mirage_continue"
    [ "$2" != CANCELLED ] || mirage_why="link $1 was cancelled"
    mirage_put stop "$mirage_why"
    return 1
}

mirage_is_followed() { # what has not ended, or is not known, is
    case $1 in
    OUT_OF_MEMORY) set -- FAILED ;;
    BOOT_FAIL) set -- NODE_FAIL ;;
    DEADLINE) set -- TIMEOUT ;;
    esac
    mirage_ended "$1" || return 0
    case ,$mirage_continue, in
    *,"$1",*) return 0 ;;
    esac
    return 1
}
