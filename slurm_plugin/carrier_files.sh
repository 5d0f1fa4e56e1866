# mirage-link, the part of a link that travels in its job: it submits the next link and runs the
# user's script. POSIX sh, for dash and bash. Above stand the settings (mirage_{chain,links,dir,...})
# and two functions with the user's own words. Below come the other pieces; the last one, carrier.sh,
# runs them. Whatever fails in here, the user's script is run. `umask`, `cd` and `set` happen in
# subshells only: the script must find everything as Slurm left it.

# --- settings ------------------------------------------------------------------------------------

mirage_number() { # sets mirage_n: the first word where it is a whole number, else the second. What
    # is none would end the shell in its arithmetic, and the user's script with it
    case $1 in
    '' | *[!0-9]* | 0?* | ????????????*) mirage_n=$2 ;;
    *) mirage_n=$1 ;;
    esac
}

mirage_read_settings() { # an older head lacks some of them
    mirage_number "${mirage_total-}" '' && mirage_total=$mirage_n
    mirage_overlap_said=${mirage_max_overlap-} # mirage_plan.py says where it is no number
    mirage_number "${mirage_max_overlap-}" '' && mirage_max_overlap=$mirage_n
    mirage_number "${mirage_min_runtime-}" 600 && mirage_min_runtime=$mirage_n
    mirage_number "${mirage_beat_s-}" 60 && mirage_beat_s=$mirage_n
    mirage_number "${mirage_pace_s-}" 30 && mirage_pace_s=$mirage_n
    mirage_number "${mirage_look_s-}" 2 && mirage_look_s=$mirage_n
    mirage_from_cwd "${mirage_until-}" && mirage_until=$mirage_path
    mirage_from_cwd "${mirage_checkpoint-}" && mirage_checkpoint=$mirage_path
    mirage_presubmit=${mirage_presubmit-next} mirage_mode=${mirage_mode-standby}
    mirage_style=${mirage_style:-concurrent} mirage_plugin=${mirage_plugin-} mirage_url=${mirage_url-}
    mirage_cluster=${mirage_cluster-} mirage_umask=${mirage_umask-} mirage_brief=${mirage_brief-}
    mirage_price=${mirage_price-} mirage_lead=${mirage_lead-} mirage_service=${mirage_service:-site}
    mirage_plans=${mirage_plans-} mirage_max_lead=${mirage_max_lead-}
    mirage_number "${mirage_returns-}" 0
    [ "$mirage_n" -le 9 ] || mirage_n=0
    mirage_returns=$mirage_n mirage_max_returns=${mirage_max_returns-}
    mirage_continue=${mirage_continue:-TIMEOUT,PREEMPTED,NODE_FAIL,COMPLETED,FAILED}
}

mirage_from_cwd() { # sets mirage_path: a path as seen from where the chain was submitted
    case $1 in
    '' | /*) mirage_path=$1 ;;
    *) mirage_path=$mirage_cwd/$1 ;;
    esac
}

# --- words, and the files of the chain -----------------------------------------------------------

mirage_say() { # a line for the user, and one for the chain's log
    mirage_one_line "$1"
    printf 'mirage: %s\n' "$mirage_line" >&"$mirage_err"
    mirage_log "$1"
}

mirage_log() {
    mirage_one_line "$1"
    (umask 077 && printf '%s link %s job %s: %s\n' "$(date +%s)" "$mirage_index" "$mirage_job" \
        "$mirage_line" >>"$mirage_dir/log") 2>/dev/null || :
}

mirage_one_line() { # a user's path or sbatch's words may hold anything
    case $1 in
    *[[:cntrl:]]*) mirage_line=$(printf '%s' "$1" | LC_ALL=C tr '\001-\037\177' '?') ;;
    *) mirage_line=$1 ;;
    esac
}

mirage_put() { # write a file of the chain whole or not at all. A directory that takes none does not take
    # away what this link has come to: that it has halted the chain
    (umask 077 && printf '%s\n' "$2" >"$mirage_dir/$1.new.$mirage_job" &&
        mv -f "$mirage_dir/$1.new.$mirage_job" "$mirage_dir/$1") 2>/dev/null && return 0
    case $1 in
    stop | 'done' | paused) mirage_halted=yes ;;
    esac
    return 1
}

mirage_drop() { # remove files of the chain; of a directory that cannot be written they stay
    (cd "$mirage_dir" && rm -f "$@") 2>/dev/null
}

mirage_try_to_write() { # sets mirage_unwritable: why the chain's directory takes no file (read-only, full),
    # in the system's words
    mirage_unwritable=$( (umask 077 && echo 1 >"$mirage_dir/try.$mirage_job") 2>&1) ||
        mirage_unwritable=${mirage_unwritable:-it is full}
    mirage_unwritable=${mirage_unwritable##*: }
    mirage_drop "try.$mirage_job"
    [ -z "$mirage_unwritable" ]
}

mirage_read() { # sets mirage_line: the first line of a file of the chain, or nothing
    mirage_line=
    [ -f "$mirage_dir/$1" ] && [ ! -L "$mirage_dir/$1" ] || return 1
    { IFS= read -r mirage_line <"$mirage_dir/$1"; } 2>/dev/null
    return 0
}

mirage_get() { # the same, printed
    mirage_read "$1" && printf '%s\n' "$mirage_line"
}

mirage_get_number() { # sets mirage_n; fails where the file holds none
    mirage_number '' ''
    [ ! -f "$mirage_dir/$1" ] || mirage_number "$(mirage_get "$1")" ''
    [ -n "$mirage_n" ]
}

mirage_lists() { # is this name in this folder of the chain? A listing asks the file server; of a name
    # that was not there NFS may answer from its cache
    for mirage_file in "$mirage_dir/$1"/*; do
        [ "${mirage_file##*/}" != "$2" ] || return 0
    done
    return 1
}

mirage_later_links() { # sets mirage_later: the links after this one of which a folder has a file
    mirage_later=
    for mirage_file in "$mirage_dir/$1"/*; do
        mirage_number "${mirage_file##*/}" 0
        [ "$mirage_n" -le "$mirage_index" ] || mirage_later="$mirage_later $mirage_n"
    done
}

# --- Slurm ---------------------------------------------------------------------------------------

mirage_limit() { # run a command for at most so many seconds: a backstop, Slurm's own come first
    if command -v timeout >/dev/null 2>&1; then
        timeout "$@"
    else
        shift
        "$@"
    fi
}

mirage_slurm() { # one of Slurm's commands, as mirage_limit, whatever the user's environment narrows
    # its answers to; times in seconds
    (
        for mirage_filter in ACCOUNT LICENSES LOCAL NAMES PARTITION QOS STATES USERS; do
            unset "SQUEUE_$mirage_filter"
        done
        mirage_is_federated || export SQUEUE_LOCAL=yes SCONTROL_LOCAL=yes # an RPC less each
        for mirage_filter in ACCOUNT BATCH FULL HURRY INTERACTIVE NAME PARTITION QOS STATE USER WCKEY; do
            unset "SCANCEL_$mirage_filter"
        done
        unset MIRAGE_LINK # what the link itself cancels is no word of its script
        SLURM_TIME_FORMAT=%s
        export SLURM_TIME_FORMAT
        mirage_limit "$@"
    )
}

mirage_is_federated() { # may the chain's jobs run on other clusters too? slurm.conf(5), MaxJobId: the
    # first 26 bits are a local id; a federation's jobs have their cluster's above
    mirage_number "$mirage_job" 0
    [ "$mirage_n" -gt 67108863 ]
}

mirage_ask() { # what squeue says of a job: mirage_ask JOB FORMAT; fails when it cannot say
    mirage_slurm 60 squeue -h -t all -j "$1" -o "$2" 2>/dev/null | head -n 1
}

mirage_query() { # what Slurm says of a job: sets mirage_word (its state; `forgotten`; nothing where
    # there was no answer), and of one that it knows mirage_word_start and mirage_word_end
    mirage_word= mirage_word_start= mirage_word_end=
    mirage_said=$(mirage_slurm 60 squeue -h -t all -j "$1" -o '%T %S %e' 2>&1)
    case $mirage_said in
    *"Invalid job id"*)
        mirage_word=forgotten # which Slurm does within minutes
        return 0
        ;;
    esac
    # shellcheck disable=SC2046 # squeue's three words
    set -- $(printf '%s\n' "$mirage_said" | LC_ALL=C grep -x '[A-Z_]* [^ ]* [^ ]*' | mirage_pick_row)
    mirage_word=${1-}
    [ "$mirage_word" != EXPEDITING ] || mirage_word=PENDING # on its way back into the queue
    mirage_number "${2-}" '' && mirage_word_start=$mirage_n
    mirage_number "${3-}" '' && mirage_word_end=$mirage_n
}

mirage_pick_row() { # the components of a heterogeneous job have a row each: one that has not ended
    mirage_row=
    while read -r mirage_line; do
        if [ -z "$mirage_row" ] || ! mirage_ended "${mirage_line%% *}"; then
            mirage_row=$mirage_line
        fi
    done
    printf '%s\n' "$mirage_row"
}

mirage_read_deadline() { # of this link, for its script and for the link that waits for it. After a wait
    # Slurm is asked first: somebody may have changed the time limit
    MIRAGE_DEADLINE= mirage_timed=
    { [ -n "$mirage_waited" ] && mirage_take_deadline "$(mirage_ask "$mirage_job" %e)"; } ||
        mirage_take_given_deadline ||
        mirage_take_deadline "$(mirage_ask "$mirage_job" %e)" || return 0
    mirage_put "deadline/$mirage_index" "$mirage_n"
    MIRAGE_DEADLINE=${mirage_n#none} mirage_timed=yes
}

mirage_take_given_deadline() { # from the environment, since Slurm 23.02. Of a job without a limit it is
    # a year after the start: squeue tells the two apart
    mirage_take_deadline "${SLURM_JOB_END_TIME-}" &&
        { [ "$mirage_n" = none ] || [ "$((mirage_n - mirage_since))" -lt "$((364 * 86400))" ]; }
}

mirage_take_deadline() { # sets mirage_n: seconds, `none` of a job without a limit; else fails
    case $1 in
    N/A | NONE) mirage_n=none ;;
    *) mirage_number "$1" '' ;;
    esac
    [ -n "$mirage_n" ]
}
