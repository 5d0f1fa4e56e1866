# --- the user's script: run it below this shell, which stays to write down how the script ended ----
#
# File descriptors: 9 is the script's standard input, 8 its standard error, 7 the lookout's pipe.
#   reads   settings; mirage_offset and mirage_size (where the script is in the carrier); values/LINK
#   sets    mirage_tmp (a folder of this job), mirage_supervisor (the process id of the script's
#           parent), mirage_code (the script's exit code), mirage_reason (why Slurm ends the job),
#           mirage_early_signals (signals before the script began), mirage_lookout_pid
#   writes  slurm_script, child, code, lookout in mirage_tmp; ends/LINK, ran/LINK, start.LINK in the
#           chain's directory

# Set mirage_launcher to a program that restores INT and QUIT for the script: a shell starts
# background commands with both ignored.
mirage_find_launcher() {
    mirage_launcher=
    if env --default-signal=INT,QUIT true 2>/dev/null; then # coreutils 8.31 and later
        mirage_launcher='env'
    elif command -v perl >/dev/null 2>&1; then
        mirage_launcher=perl
    fi
}

# Replace this shell by a command with INT and QUIT restored, in a process group of its own if
# mirage_exec_leader says so.
mirage_exec() {
    [ "$mirage_exec_leader" != setsid ] || set -- setsid "$@"
    case $mirage_exec_leader,$mirage_launcher in
    perl,* | *,perl)
        exec perl -e 'setpgrp if shift eq "perl"; $SIG{INT} = $SIG{QUIT} = "DEFAULT"; exec { $ARGV[0] } @ARGV; exit 127' \
            "$mirage_exec_leader" "$@"
        ;;
    *,env) exec env --default-signal=INT,QUIT "$@" ;;
    *) exec "$@" ;;
    esac
}

# Set mirage_leader to the means by which the script becomes the leader of a process group, as under
# slurmstepd: signals that the script sends to its group must not reach this shell. bash does it by
# itself; dash cannot without a terminal. If Slurm knows the job by the process group of this shell
# (proctrack/pgid), the script has to stay in the group.
mirage_find_leader() {
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

# Write the user's script into a new temporary folder, the first that has room. Check the size: a
# full disk gives a shorter file.
mirage_unpack_script() {
    for mirage_folder in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm "$mirage_dir"; do
        mirage_tmp=$(mktemp -d "$mirage_folder/mirage.XXXXXX" 2>/dev/null) || continue
        mirage_extract_script "$mirage_tmp/slurm_script" 2>/dev/null && return 0
        rm -rf "$mirage_tmp"
    done
    return 1
}

# Cut the user's script out of the carrier, into the file $1: by its offset, or by the marker line
# if the carrier was changed on its way. sbatch drops the blank lines of a heterogeneous job's
# script.
mirage_extract_script() {
    (umask 077 && tail -c "+$mirage_offset" "$0" >"$1")
    if [ "$(wc -c <"$1")" -ne "$mirage_size" ]; then
        LC_ALL=C sed '1,/^# --- the script as submitted ---$/d' "$0" >"$1" || return 1
        [ "$(head -c 2 "$1")" = '#!' ] || return 1
    fi
    chmod 700 "$1"
}

# Keep the user's standard input as 9 and standard error as 8. A shell gives background commands no
# input, and bash reports each of them that a signal has ended on standard error.
mirage_set_streams() {
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

# Start the lookout: a process that any signal to the whole job ends. It reads from a pipe of this
# shell, so it ends with the shell even if Slurm loses sight of it (proctrack/linuxproc).
mirage_start_lookout() {
    [ -p "$mirage_tmp/lookout" ] || return 0
    mirage_exec cat <"$mirage_tmp/lookout" >/dev/null 7>&- 8>&- 9<&- &
    mirage_lookout_pid=$!
}

# Did the signal reach every process of the job, and not this shell alone? Then the lookout has
# died.
mirage_reached_whole_job() {
    sleep 0.2 2>/dev/null || sleep 1
    [ -n "$mirage_lookout_pid" ] && ! kill -0 "$mirage_lookout_pid" 2>/dev/null
}

# Handle signal $1: forward the signal to the script unless the script has got it too.
mirage_handle_signal() {
    mirage_signalled=yes
    if [ -z "$mirage_supervisor" ]; then
        [ "$1" != TERM ] || mirage_record_ending
        if [ -n "$mirage_waiting" ]; then
            [ -n "$mirage_reason" ] || mirage_warnings=" $1"
        elif [ "$1" != TERM ]; then
            mirage_early_signals="$mirage_early_signals $1"
        fi
    elif mirage_reached_whole_job; then
        if [ "$1" = TERM ]; then mirage_record_ending; fi
        [ -n "$mirage_reason" ] || mirage_start_lookout
    else
        mirage_forward_signal "$1"
        [ "$1" != TERM ] || case $(mirage_ask_job "$mirage_job" %T) in
        COMPLETING | CANCELLED | TIMEOUT | PREEMPTED | NODE_FAIL) mirage_record_ending ;;
        esac
    fi
}

# Slurm is ending the job. Write down why at once, since KILL may follow within seconds; ask Slurm
# for the exact reason after that.
mirage_record_ending() {
    mirage_reason=timeout
    if [ -z "$MIRAGE_DEADLINE" ] || [ "$(date +%s)" -lt "$((MIRAGE_DEADLINE - 5))" ]; then
        mirage_reason=cancelled
    fi
    # Where Slurm has not told the time limit, it alone knows which of the two: the next link asks
    [ -z "$mirage_timed" ] || mirage_write_end
    mirage_sure=yes
    case $(mirage_ask_job "$mirage_job" '%T %r') in
    RUNNING*) mirage_reason= ;; # a warning, or somebody's kill: the job goes on
    PREEMPTED* | *Preempt*) mirage_reason=preempted ;;
    TIMEOUT* | *TimeLimit*) mirage_reason=timeout ;;
    NODE_FAIL*) mirage_reason=node_fail ;;
    CANCELLED*) mirage_reason=cancelled ;;
    PENDING* | REQUEUE* | EXPEDITING* | SPECIAL_EXIT*) mirage_reason=requeued ;;
    COMPLETING*)
        mirage_find_end_reason
        [ "$mirage_reason" != cancelled ] || mirage_sure=$mirage_timed
        ;;
    *) mirage_sure=$mirage_timed ;;
    esac
    if [ -z "$mirage_sure$mirage_waiting" ]; then
        mirage_reason=timeout # nobody's word against the chain
    elif [ -n "$mirage_reason" ]; then
        mirage_write_end
        # A link that has written its end leaves the rest to the next link, which reads the end.
        [ "$mirage_reason" != cancelled ] || [ -z "$mirage_usable" ] || [ -n "$mirage_waiting" ] ||
            [ -e "$mirage_dir/ends/$mirage_index" ] || mirage_cancel_queued_links
    else
        mirage_drop "ends/$mirage_index" "ran/$mirage_index"
    fi
    mirage_log "terminated: ${mirage_reason:-still running}"
}

# Write down the end and the run time of this link. A link that waits for its turn has not begun,
# and writes none.
mirage_write_end() {
    [ -z "$mirage_waiting" ] || return 0
    mirage_put "ends/$mirage_index" "$mirage_reason"
    mirage_write_run_time
}

# Set mirage_reason while the job is COMPLETING: the state hides the reason, but RestartCnt and
# PreemptTime tell it (Slurm 22.05). scontrol also shows both, but among words of the user that may
# look like them.
mirage_find_end_reason() {
    # shellcheck disable=SC2046 # squeue's two words are to be split
    set -- $(mirage_slurm 20 squeue -h -t all -j "$mirage_job" -O RestartCnt:16,PreemptTime:32 \
        2>/dev/null | head -n 1)
    mirage_number "${1-}" 0
    if [ "$mirage_n" -gt "${SLURM_RESTART_COUNT:-0}" ]; then
        mirage_reason=requeued
    else
        case ${2-} in
        *[0-9]*) mirage_reason=preempted ;; # otherwise squeue prints N/A
        esac
    fi
}

# Run the script as its parent, in a shell that no signal interrupts. If a signal comes while a
# child dies, bash's `wait` may lose the child's end, and a second `wait` never returns. The signals
# get handlers before the script starts, because the script would inherit signals that are ignored.
mirage_supervise_script() {
    # shellcheck disable=SC2086 # a list of names, here and below
    trap : $mirage_signals
    mirage_take_values
    mirage_exec_leader=$mirage_leader
    [ "$mirage_exec_leader" != shell ] || set -m
    mirage_run_script "$@" <&9 2>&8 8>&- 9<&- &
    [ "$mirage_exec_leader" != shell ] || set +m
    # shellcheck disable=SC2086
    trap '' $mirage_signals
    echo "$!" >"$mirage_tmp/child"
    wait "$!"
    mirage_code=$?
    echo "$mirage_code" >"$mirage_tmp/code"
    exit "$mirage_code"
}

# Set the variables that scripts of earlier links have given to later links by calling sbatch
# (wrapper/state.py), for the script alone; then write down the script's environment.
# state.py looks for this function's name in the carrier of a running chain: do not rename it.
mirage_take_values() {
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

# Send signal $1 to the script.
mirage_forward_signal() {
    until [ -s "$mirage_tmp/child" ] || ! kill -0 "$mirage_supervisor"; do
        sleep 0.1 || sleep 1
    done
    read -r mirage_child <"$mirage_tmp/child" && kill -s "$1" "$mirage_child"
}

# Wait for the end of the script, and set mirage_code to its exit code. Every signal cuts `wait`
# short, and the code of `wait` is then the signal's, so the code comes from a file.
mirage_wait_for_script() {
    wait "$mirage_supervisor"
    mirage_code=$?
    while [ ! -s "$mirage_tmp/code" ] && kill -0 "$mirage_supervisor"; do
        wait "$mirage_supervisor"
        mirage_code=$?
    done
    [ ! -s "$mirage_tmp/code" ] || read -r mirage_code <"$mirage_tmp/code"
    [ "$mirage_code" -le 128 ] || sleep 0.2 # the signal that ended the script may reach this shell a moment later
}
