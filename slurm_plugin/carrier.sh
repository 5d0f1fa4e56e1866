# mirage-link: what a link does before, around and after the user's script. POSIX sh, run by dash and
# bash alike; set above it are mirage_{chain,links,dir,cwd,comment,sbatch,append,offset,size} and two
# functions. Whatever fails in here, the user's script is run. `umask`, `cd` and `set` happen in
# subshells only: the script must find everything as Slurm left it.

mirage_tag=$1
shift
mirage_index=${mirage_tag##*:}
mirage_next=$((mirage_index + 1))
mirage_job=${SLURM_JOB_ID:-0}
mirage_caught= mirage_child= mirage_code= mirage_early= mirage_later= mirage_reason=
mirage_tmp= mirage_watch=

mirage_say() { # a line for the user, and one for the chain's log
    printf 'mirage: %s\n' "$1" >&2
    mirage_log "$1"
}

mirage_log() {
    (umask 077 && printf '%s link %s job %s: %s\n' "$(date +%s)" "$mirage_index" "$mirage_job" "$1" \
        >>"$mirage_dir/log") 2>/dev/null
}

mirage_put() { # write a file of the chain whole or not at all
    (umask 077 && printf '%s\n' "$2" >"$mirage_dir/$1.new.$mirage_job" &&
        mv -f "$mirage_dir/$1.new.$mirage_job" "$mirage_dir/$1") 2>/dev/null
}

mirage_get() { # the first line of a file of the chain, or nothing
    [ -f "$mirage_dir/$1" ] && [ ! -L "$mirage_dir/$1" ] || return 1
    head -n 1 "$mirage_dir/$1" 2>/dev/null
}

mirage_limit() { # run a command for at most so many seconds: a backstop, Slurm's own come first
    if command -v timeout >/dev/null 2>&1; then
        timeout "$@"
    else
        shift
        "$@"
    fi
}

mirage_ask() { # what squeue says of a job: mirage_ask JOB FORMAT; fails when it cannot say
    SLURM_TIME_FORMAT=%s mirage_limit 60 squeue -h -t all -j "$1" -o "$2" 2>/dev/null | head -n 1
}

mirage_read_deadline() {
    MIRAGE_DEADLINE=$SLURM_JOB_END_TIME
    case $MIRAGE_DEADLINE in
    '' | *[!0-9]*) MIRAGE_DEADLINE=$(mirage_ask "$mirage_job" %e) ;;
    esac
    case $MIRAGE_DEADLINE in
    *[!0-9]*) MIRAGE_DEADLINE= ;;
    esac
}

# --- the guard: may this link begin? ------------------------------------------------------------

mirage_may_begin() {
    [ ! -e "$mirage_dir/done" ] || { mirage_why="the chain is done" && return 1; }
    [ ! -e "$mirage_dir/stop" ] || { mirage_why="the chain was stopped" && return 1; }
    if [ "${SLURM_RESTART_COUNT:-0}" != 0 ] && [ -e "$mirage_dir/started/$mirage_next" ]; then
        mirage_why="this job was requeued and link $mirage_next has begun since" && return 1
    fi
    [ "$mirage_index" -gt 1 ] || return 0
    mirage_previous_end
    case $mirage_end in
    CANCELLED* | cancelled*)
        mirage_why="link $((mirage_index - 1)) was cancelled"
        mirage_put stop "$mirage_why"
        return 1
        ;;
    esac
}

mirage_claim() { # the first job of a link has it; a second one would be a second writer
    (umask 077 && set -C && printf '%s\n' "$mirage_job" >"$mirage_dir/started/$mirage_index") \
        2>/dev/null && return 0
    mirage_holder=$(mirage_get "started/$mirage_index")
    case $mirage_holder in
    '' | "$mirage_job") return 0 ;; # nobody's, or this job's own before a requeue
    esac
    mirage_why="link $mirage_index has begun as job $mirage_holder"
    return 1
}

mirage_previous_end() { # Slurm's word first; what the link itself wrote where Slurm has forgotten
    mirage_end=
    [ -z "$MIRAGE_PREV_JOBID" ] || mirage_end=$(mirage_ask "$MIRAGE_PREV_JOBID" %T)
    mirage_tries=0
    while [ "$mirage_end" = COMPLETING ] && [ "$mirage_tries" -lt 5 ]; do
        sleep 1
        mirage_tries=$((mirage_tries + 1))
        mirage_end=$(mirage_ask "$MIRAGE_PREV_JOBID" %T)
    done
    case $mirage_end in
    '' | COMPLETING) mirage_end=$(mirage_get "ends/$((mirage_index - 1))") ;;
    esac
}

# --- the standby: the next link, pending on this one ---------------------------------------------

mirage_standing() { # the id of the next link if it stands in the queue already; fails when squeue does
    mirage_queue=$(mirage_limit 60 squeue -h -u "$(id -un)" -o '%i %k' 2>/dev/null) || return 1
    printf '%s\n' "$mirage_queue" |
        while read -r mirage_id mirage_text; do
            case $mirage_text in
            *"mirage:$mirage_chain:$mirage_next") printf '%s\n' "$mirage_id" ;;
            esac
        done | head -n 1
}

mirage_submit() { # sbatch with the first submission's words, environment and directory
    [ -x "$mirage_sbatch" ] || mirage_sbatch=$(command -v sbatch) || return 1
    {
        cat "$mirage_dir/env" &&
            mirage_sbatch_words --parsable --dependency="afterany:$mirage_job" \
                --comment="${mirage_comment:+$mirage_comment }mirage:$mirage_chain:$mirage_next" \
                ${SLURM_JOB_NAME:+"--job-name=$SLURM_JOB_NAME"} $mirage_append
    } | (cd "$mirage_cwd" && mirage_limit 120 xargs -0 -x -s 1000000 env -i --)
}

mirage_stand() { # put the standby in place; says nothing but its success or the error
    # An unanswered question is no "none stands": asking sbatch then could make two.
    mirage_standby=$(mirage_standing) || {
        mirage_put "error.$mirage_job" "squeue does not answer"
        return 1
    }
    if [ -z "$mirage_standby" ]; then
        mirage_standby=$(mirage_submit 2>"$mirage_dir/error.$mirage_job") || return 1
        mirage_standby=${mirage_standby%%;*}
    fi
    case $mirage_standby in
    '' | *[!0-9]*) return 1 ;;
    esac
    rm -f "$mirage_dir/error.$mirage_job"
    mirage_put "jobs/$mirage_next" "$mirage_standby"
    mirage_log "link $mirage_next stands as job $mirage_standby"
}

mirage_put_standby() {
    [ "$mirage_index" -lt "$mirage_links" ] || return 0
    mirage_stand && return 0
    mirage_say "no standby for link $mirage_next yet: $(mirage_get "error.$mirage_job")"
    mirage_stand_later </dev/null >/dev/null 2>&1 &
    mirage_later=$!
}

mirage_stand_later() {
    trap 'kill "$mirage_sleep"; exit 0' TERM
    for mirage_pause in 30 60 120 240 480 960 1920 3600 3600 3600 3600; do
        sleep "$mirage_pause" &
        mirage_sleep=$!
        wait "$mirage_sleep"
        mirage_stand && return 0
    done
}

# --- the user's script, as a child: this shell stays to write down how it ended -------------------

mirage_find_launcher() { # a shell starts background commands with INT and QUIT ignored: undo that
    mirage_launcher=
    if env --default-signal=INT,QUIT true 2>/dev/null; then # coreutils 8.31
        mirage_launcher=env
    elif command -v perl >/dev/null 2>&1; then
        mirage_launcher=perl
    fi
}

mirage_exec() {
    case $mirage_launcher in
    env) exec env --default-signal=INT,QUIT "$@" ;;
    perl) exec perl -e '$SIG{INT} = $SIG{QUIT} = "DEFAULT"; exec { $ARGV[0] } @ARGV; exit 127' "$@" ;;
    *) exec "$@" ;;
    esac
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
    mirage_caught=$1
    if [ -z "$mirage_child" ]; then
        if [ "$1" = TERM ]; then mirage_ending; else mirage_early="$mirage_early $1"; fi
    elif mirage_whole_job; then
        if [ "$1" = TERM ]; then mirage_ending; fi
        [ -n "$mirage_reason" ] || mirage_lookout
    else
        kill -s "$1" "$mirage_child" 2>/dev/null
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
    mirage_put "ends/$mirage_index" "$mirage_reason"
    case $(mirage_ask "$mirage_job" '%T %r') in
    RUNNING*) mirage_reason= ;; # a warning, or somebody's kill: the job goes on
    PREEMPTED* | *Preempt*) mirage_reason=preempted ;;
    TIMEOUT* | *TimeLimit*) mirage_reason=timeout ;;
    NODE_FAIL*) mirage_reason=node_fail ;;
    CANCELLED*) mirage_reason=cancelled ;;
    PENDING* | REQUEUED*) mirage_reason=requeued ;;
    esac
    if [ -n "$mirage_reason" ]; then
        mirage_put "ends/$mirage_index" "$mirage_reason"
    else
        rm -f "$mirage_dir/ends/$mirage_index"
    fi
    mirage_log "terminated: ${mirage_reason:-still running}"
}

mirage_wait() { # wait is cut short by every signal; 127 is the shell's word for a child it has reaped
    wait "$mirage_child"
    mirage_code=$?
    while [ -n "$mirage_caught" ]; do
        mirage_caught=
        wait "$mirage_child"
        mirage_again=$?
        [ "$mirage_again" -ne 127 ] || break
        mirage_code=$mirage_again
    done
    [ "$mirage_code" -le 128 ] || sleep 0.2 # the signal that ended it may be on its way to us too
}

mirage_finish() {
    [ -z "$mirage_watch" ] || exec 7>&-
    [ -z "$mirage_later" ] || kill "$mirage_later" 2>/dev/null
    [ -n "$mirage_reason" ] || mirage_put "ends/$mirage_index" "exit $mirage_code"
    if [ -e "$mirage_dir/done" ] && mirage_standby=$(mirage_get "jobs/$mirage_next"); then
        mirage_limit 20 scancel --state=PENDING "$mirage_standby" >/dev/null 2>&1
        mirage_log "done: link $mirage_next taken back"
    fi
    rm -rf "$mirage_tmp"
}

# --- in order ------------------------------------------------------------------------------------

for mirage_signal in HUP INT QUIT USR1 USR2 ALRM TERM; do
    trap "mirage_on $mirage_signal" "$mirage_signal"
done
if [ -d "$mirage_dir" ] && [ ! -L "$mirage_dir" ] && [ -O "$mirage_dir" ]; then
    MIRAGE_PREV_JOBID=
    [ "$mirage_index" -le 1 ] || MIRAGE_PREV_JOBID=$(mirage_get "jobs/$((mirage_index - 1))")
    if ! mirage_may_begin || ! mirage_claim; then
        mirage_say "$mirage_why; the script is not run"
        exit 0
    fi
    rm -f "$mirage_dir/ends/$mirage_index" # of a run before a requeue
    mirage_put "jobs/$mirage_index" "$mirage_job"
    mirage_put_standby
else
    mirage_say "$mirage_dir cannot be used here; the chain ends with this link"
fi
mirage_read_deadline
MIRAGE_CHAIN_ID=$mirage_chain MIRAGE_LINK=$mirage_index MIRAGE_LINKS=$mirage_links
MIRAGE_DIR=$mirage_dir
export MIRAGE_CHAIN_ID MIRAGE_LINK MIRAGE_LINKS MIRAGE_PREV_JOBID MIRAGE_DIR MIRAGE_DEADLINE
if ! mirage_unpack; then
    mirage_say "no place to unpack the script"
    exit 1
fi
mirage_find_launcher
mirage_set_streams
mirage_lookout
if [ -n "$mirage_reason" ]; then # terminated before it began
    mirage_finish
    exit 143
fi
mirage_run_script "$mirage_tmp/slurm_script" "$@" <&9 2>&8 7>&- 8>&- 9<&- &
mirage_child=$!
for mirage_signal in $mirage_early; do
    kill -s "$mirage_signal" "$mirage_child" 2>/dev/null
done
mirage_wait
mirage_finish
exit "$mirage_code"
