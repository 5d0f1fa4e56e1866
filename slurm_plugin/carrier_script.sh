# --- the user's script, below this shell, which stays to write down how it ended ------------------

mirage_find_launcher() { # a shell starts background commands with INT and QUIT ignored: undo that
    mirage_launcher=
    if env --default-signal=INT,QUIT true 2>/dev/null; then # coreutils 8.31
        mirage_launcher='env'
    elif command -v perl >/dev/null 2>&1; then
        mirage_launcher=perl
    fi
}

mirage_exec() {
    [ "$mirage_leads" != setsid ] || set -- setsid "$@"
    case $mirage_leads,$mirage_launcher in
    perl,* | *,perl)
        exec perl -e 'setpgrp if shift eq "perl"; $SIG{INT} = $SIG{QUIT} = "DEFAULT"; exec { $ARGV[0] } @ARGV; exit 127' \
            "$mirage_leads" "$@"
        ;;
    *,env) exec env --default-signal=INT,QUIT "$@" ;;
    *) exec "$@" ;;
    esac
}

mirage_find_leader() { # by which the script comes to lead a process group, as slurmstepd starts a script: what
    # it sends its group is not for this shell. bash can do that by itself; dash cannot without a terminal.
    # Where Slurm knows a job by the group of this shell (proctrack/pgid) the script has to stay in it
    mirage_leader=
    if grep -qis '^ *ProctrackType *= *proctrack/pgid' "${SLURM_CONF:-/etc/slurm/slurm.conf}" \
        /etc/slurm/slurm.conf /run/slurm/conf/slurm.conf; then
        :
    elif [ -n "${BASH_VERSION-}" ]; then
        mirage_leader=shell
    elif command -v setsid >/dev/null 2>&1; then
        mirage_leader=setsid
    elif command -v perl >/dev/null 2>&1; then
        mirage_leader=perl
    fi
}

mirage_unpack() { # by size, since a full disk gives a shorter file
    for mirage_place in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm "$mirage_dir"; do
        mirage_tmp=$(mktemp -d "$mirage_place/mirage.XXXXXX" 2>/dev/null) || continue
        mirage_cut "$mirage_tmp/slurm_script" 2>/dev/null && return 0
        rm -rf "$mirage_tmp"
    done
    return 1
}

mirage_cut() { # by offset; by the marker where the carrier was changed on its way: for heterogeneous
    # jobs sbatch drops the blank lines of every script
    (umask 077 && tail -c "+$mirage_offset" "$0" >"$1")
    if [ "$(wc -c <"$1")" -ne "$mirage_size" ]; then
        LC_ALL=C sed '1,/^# --- the script as submitted ---$/d' "$0" >"$1" || return 1
        [ "$(head -c 2 "$1")" = '#!' ] || return 1
    fi
    chmod 700 "$1"
}

mirage_set_streams() { # the user's input as 9 and errors as 8: a shell gives background commands no
    # input, and bash reports on standard error each of them that a signal has ended
    if (exec 9<&0) 2>/dev/null; then exec 9<&0; else exec 9</dev/null; fi
    if (exec 8>&2) 2>/dev/null; then exec 8>&2; else exec 8>/dev/null; fi
    exec 2>/dev/null
    mirage_err=8
    if mkfifo -m 600 "$mirage_tmp/lookout" && (exec 7<>"$mirage_tmp/lookout"); then
        exec 7<>"$mirage_tmp/lookout"
    else
        rm -f "$mirage_tmp/lookout"
    fi
}

mirage_lookout() { # a process that dies of any signal, to tell what the whole job was sent; it reads
    # from us, and so ends with us even where Slurm loses sight of it (proctrack/linuxproc)
    [ -p "$mirage_tmp/lookout" ] || return 0
    mirage_exec cat <"$mirage_tmp/lookout" >/dev/null 7>&- 8>&- 9<&- &
    mirage_watch=$!
}

mirage_whole_job() { # did every process of the job get this signal, or this shell alone?
    sleep 0.2 2>/dev/null || sleep 1
    [ -n "$mirage_watch" ] && ! kill -0 "$mirage_watch" 2>/dev/null
}

mirage_on() { # a signal has come: pass it on unless the script has had it too
    mirage_signalled=yes
    if [ -z "$mirage_minder" ]; then
        [ "$1" != TERM ] || mirage_ending
        if [ -n "$mirage_waiting" ]; then
            [ -n "$mirage_reason" ] || mirage_warned=" $1"
        elif [ "$1" != TERM ]; then
            mirage_early="$mirage_early $1"
        fi
    elif mirage_whole_job; then
        if [ "$1" = TERM ]; then mirage_ending; fi
        [ -n "$mirage_reason" ] || mirage_lookout
    else
        mirage_pass_on "$1"
        [ "$1" != TERM ] || case $(mirage_ask "$mirage_job" %T) in
        COMPLETING | CANCELLED | TIMEOUT | PREEMPTED | NODE_FAIL) mirage_ending ;;
        esac
    fi
}

mirage_ending() { # Slurm is ending the job: at once, since KILL may follow within seconds, say why
    mirage_reason=timeout
    if [ -z "$MIRAGE_DEADLINE" ] || [ "$(date +%s)" -lt "$((MIRAGE_DEADLINE - 5))" ]; then
        mirage_reason=cancelled
    fi
    # Where Slurm has not told the time limit, it alone knows which of the two: the next link asks
    [ -z "$mirage_timed" ] || mirage_write_end
    mirage_sure=yes
    case $(mirage_ask "$mirage_job" '%T %r') in
    RUNNING*) mirage_reason= ;; # a warning, or somebody's kill: the job goes on
    PREEMPTED* | *Preempt*) mirage_reason=preempted ;;
    TIMEOUT* | *TimeLimit*) mirage_reason=timeout ;;
    NODE_FAIL*) mirage_reason=node_fail ;;
    CANCELLED*) mirage_reason=cancelled ;;
    PENDING* | REQUEUE* | EXPEDITING* | SPECIAL_EXIT*) mirage_reason=requeued ;;
    COMPLETING*)
        mirage_find_ending
        [ "$mirage_reason" != cancelled ] || mirage_sure=$mirage_timed
        ;;
    *) mirage_sure=$mirage_timed ;;
    esac
    if [ -z "$mirage_sure$mirage_waiting" ]; then
        mirage_reason=timeout # nobody's word against the chain
    elif [ -n "$mirage_reason" ]; then
        mirage_write_end
        # The next link reads there that the chain has been cancelled.
        [ "$mirage_reason" != cancelled ] || [ -z "$mirage_usable" ] || [ -n "$mirage_waiting" ] ||
            [ -e "$mirage_dir/ends/$mirage_index" ] || mirage_take_back
    else
        mirage_drop "ends/$mirage_index" "ran/$mirage_index"
    fi
    mirage_log "terminated: ${mirage_reason:-still running}"
}

mirage_write_end() { # not of a link that waits: it has not begun
    [ -z "$mirage_waiting" ] || return 0
    mirage_put "ends/$mirage_index" "$mirage_reason"
    mirage_write_ran
}

mirage_find_ending() { # the state hides why while a job completes; these tell what it left (22.05).
    # scontrol shows them among the job's own words, which may look like them
    # shellcheck disable=SC2046 # its two words
    set -- $(mirage_slurm 20 squeue -h -t all -j "$mirage_job" -O RestartCnt:16,PreemptTime:32 \
        2>/dev/null | head -n 1)
    mirage_number "${1-}" 0
    if [ "$mirage_n" -gt "${SLURM_RESTART_COUNT:-0}" ]; then
        mirage_reason=requeued
    else
        case ${2-} in
        *[0-9]*) mirage_reason=preempted ;; # else N/A
        esac
    fi
}

mirage_mind() { # the script's parent, deaf to all that the script and Slurm may send. Where a signal
    # comes as a child dies bash's `wait` may lose the child's end, and a second one never returns; a
    # shell that no signal interrupts loses none. Handlers first: what is ignored the script would inherit
    # shellcheck disable=SC2086 # names, here and below
    trap : $mirage_signals
    mirage_take_values
    mirage_leads=$mirage_leader
    [ "$mirage_leads" != shell ] || set -m
    mirage_run_script "$@" <&9 2>&8 8>&- 9<&- &
    [ "$mirage_leads" != shell ] || set +m
    # shellcheck disable=SC2086
    trap '' $mirage_signals
    echo "$!" >"$mirage_tmp/child"
    wait "$!"
    mirage_code=$?
    echo "$mirage_code" >"$mirage_tmp/code"
    exit "$mirage_code"
}

mirage_take_values() { # what scripts of earlier links have handed on by the environment of a call of sbatch
    # (mirage_wrapper/state.py), for the script alone; and what it then starts with
    mirage_k=1
    while [ "$mirage_k" -lt "$mirage_index" ]; do
        mirage_k=$((mirage_k + 1))
        if [ -f "$mirage_dir/values/$mirage_k" ] && [ -O "$mirage_dir/values/$mirage_k" ]; then
            # shellcheck source=/dev/null
            . "$mirage_dir/values/$mirage_k"
        fi
    done
    (umask 077 && cd "$mirage_dir" && env -0 >"start.$mirage_index.new" &&
        mv -f "start.$mirage_index.new" "start.$mirage_index") 2>/dev/null
}

mirage_pass_on() { # a signal, to the script
    until [ -s "$mirage_tmp/child" ] || ! kill -0 "$mirage_minder"; do
        sleep 0.1 || sleep 1
    done
    read -r mirage_child <"$mirage_tmp/child" && kill -s "$1" "$mirage_child"
}

mirage_wait() { # wait is cut short by every signal, and what it says then is of that signal
    wait "$mirage_minder"
    mirage_code=$?
    while [ ! -s "$mirage_tmp/code" ] && kill -0 "$mirage_minder"; do
        wait "$mirage_minder"
        mirage_code=$?
    done
    [ ! -s "$mirage_tmp/code" ] || read -r mirage_code <"$mirage_tmp/code"
    [ "$mirage_code" -le 128 ] || sleep 0.2 # the signal that ended it may be on its way to us too
}
