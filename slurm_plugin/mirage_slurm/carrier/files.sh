# The carrier: the part of Mirage that travels in each job of a chain. The carrier submits the next
# link and runs the user's script. wrapper/carrier.py puts it together: first the settings
# (mirage_chain, mirage_links, mirage_dir, ...) and two functions with the user's own words, then
# these pieces, then the user's script. The last piece, main.sh, calls the functions of the others.
#
# The carrier is POSIX sh, for dash and bash. Whatever fails in here, the user's script is run.
# `umask`, `cd` and `set` happen in subshells only: the script must find everything as Slurm left it.
# All variables are global. mirage_n and mirage_k are scratch: any function may change them.
# A function that prints its result is called in `$(...)`; any other sets the variables that its
# comment names. A predicate (is, has, may, should) answers by its exit code.
#
# This piece: settings, messages, the files of the chain, questions to Slurm.
#   reads   the settings in the head of the carrier; mirage_index and mirage_job; SLURM_JOB_END_TIME
#   sets    defaults of settings; mirage_n, mirage_line, mirage_path, mirage_later; mirage_unwritable;
#           mirage_job_state, mirage_job_start, mirage_job_end; MIRAGE_DEADLINE
#   writes  log and deadline/LINK in the chain's directory; standard error

# --- settings ------------------------------------------------------------------------------------

# Set mirage_n to $1 if $1 is a whole number of at most 11 digits, else to $2. Every number that
# comes from outside goes through here: a word that is no number would end the shell in its
# arithmetic, and the user's script with it.
mirage_number() {
    case $1 in
    '' | *[!0-9]* | 0?* | ????????????*) mirage_n=$2 ;;
    *) mirage_n=$1 ;;
    esac
}

# Check the settings in the head of the carrier, and give a default to each setting that the head of
# an older wrapper lacks.
mirage_read_settings() {
    mirage_number "${mirage_total-}" '' && mirage_total=$mirage_n
    mirage_stated_overlap=${mirage_max_overlap-} # as written: mirage_plan.py refuses to plan if it is no number
    mirage_number "${mirage_max_overlap-}" '' && mirage_max_overlap=$mirage_n
    mirage_number "${mirage_min_runtime-}" 600 && mirage_min_runtime=$mirage_n
    mirage_number "${mirage_beat_s-}" 60 && mirage_beat_s=$mirage_n
    mirage_number "${mirage_pace_s-}" 30 && mirage_pace_s=$mirage_n
    mirage_number "${mirage_look_s-}" 2 && mirage_look_s=$mirage_n
    mirage_make_absolute "${mirage_until-}" && mirage_until=$mirage_path
    mirage_make_absolute "${mirage_checkpoint-}" && mirage_checkpoint=$mirage_path
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

# Set mirage_path to the path $1, made absolute from the directory of the submission.
mirage_make_absolute() {
    case $1 in
    '' | /*) mirage_path=$1 ;;
    *) mirage_path=$mirage_cwd/$1 ;;
    esac
}

# --- messages, and the files of the chain ----------------------------------------------------------

# Print a line for the user, and write the line into the chain's log.
mirage_say() {
    mirage_clean_line "$1"
    printf 'mirage: %s\n' "$mirage_line" >&"$mirage_err"
    mirage_log "$1"
}

# Write a line into the chain's log. A log that cannot be written stops nothing.
mirage_log() {
    mirage_clean_line "$1"
    (umask 077 && printf '%s link %s job %s: %s\n' "$(date +%s)" "$mirage_index" "$mirage_job" \
        "$mirage_line" >>"$mirage_dir/log") 2>/dev/null || :
}

# Set mirage_line to $1 with each control character replaced by `?`: a user's path or sbatch's words
# may hold anything.
mirage_clean_line() {
    case $1 in
    *[[:cntrl:]]*) mirage_line=$(printf '%s' "$1" | LC_ALL=C tr '\001-\037\177' '?') ;;
    *) mirage_line=$1 ;;
    esac
}

# Write the line $2 into the chain's file $1, whole or not at all. If the directory takes no file,
# remember at least that this link has halted the chain.
mirage_put() {
    (umask 077 && printf '%s\n' "$2" >"$mirage_dir/$1.new.$mirage_job" &&
        mv -f "$mirage_dir/$1.new.$mirage_job" "$mirage_dir/$1") 2>/dev/null && return 0
    case $1 in
    stop | 'done' | paused) mirage_halted=yes ;;
    esac
    return 1
}

# Remove files of the chain. Files in a directory that cannot be written stay there.
mirage_drop() {
    (cd "$mirage_dir" && rm -f "$@") 2>/dev/null
}

# Test whether the chain's directory takes a file. Set mirage_unwritable to the reason in the
# system's words (read-only, full), or to nothing.
mirage_try_to_write() {
    mirage_unwritable=$( (umask 077 && echo 1 >"$mirage_dir/try.$mirage_job") 2>&1) ||
        mirage_unwritable=${mirage_unwritable:-it is full}
    mirage_unwritable=${mirage_unwritable##*: }
    mirage_drop "try.$mirage_job"
    [ -z "$mirage_unwritable" ]
}

# Set mirage_line to the first line of the chain's file $1. Fail, with an empty mirage_line, if
# there is no such plain file.
mirage_read() {
    mirage_line=
    [ -f "$mirage_dir/$1" ] && [ ! -L "$mirage_dir/$1" ] || return 1
    { IFS= read -r mirage_line <"$mirage_dir/$1"; } 2>/dev/null
    return 0
}

# Print the first line of the chain's file $1. Fail if there is no such file.
mirage_get() {
    mirage_read "$1" && printf '%s\n' "$mirage_line"
}

# Set mirage_n to the number in the chain's file $1. Fail if the file holds no number.
mirage_get_number() {
    mirage_number '' ''
    [ ! -f "$mirage_dir/$1" ] || mirage_number "$(mirage_get "$1")" ''
    [ -n "$mirage_n" ]
}

# Is the name $2 in the chain's folder $1? List the folder, which asks the file server: NFS may
# answer a question for one name from its cache.
mirage_is_listed() {
    for mirage_file in "$mirage_dir/$1"/*; do
        [ "${mirage_file##*/}" != "$2" ] || return 0
    done
    return 1
}

# Set mirage_later to the numbers of the later links that have a file in the chain's folder $1.
mirage_find_later_links() {
    mirage_later=
    for mirage_file in "$mirage_dir/$1"/*; do
        mirage_number "${mirage_file##*/}" 0
        [ "$mirage_n" -le "$mirage_index" ] || mirage_later="$mirage_later $mirage_n"
    done
}

# --- Slurm ---------------------------------------------------------------------------------------

# Run a command for at most $1 seconds. This is a backstop: Slurm's own timeouts come first.
mirage_limit() {
    if command -v timeout >/dev/null 2>&1; then
        timeout "$@"
    else
        shift
        "$@"
    fi
}

# Run one of Slurm's commands for at most $1 seconds. Variables of the user that would narrow the
# command's answers are unset, and times are printed in seconds since 1970.
mirage_slurm() {
    (
        for mirage_filter in ACCOUNT LICENSES LOCAL NAMES PARTITION QOS STATES USERS; do
            unset "SQUEUE_$mirage_filter"
        done
        mirage_is_federated || export SQUEUE_LOCAL=yes SCONTROL_LOCAL=yes # one RPC less for each command
        for mirage_filter in ACCOUNT BATCH FULL HURRY INTERACTIVE NAME PARTITION QOS STATE USER WCKEY; do
            unset "SCANCEL_$mirage_filter"
        done
        unset MIRAGE_LINK # the plugin's scancel must not take this for the script's wish
        SLURM_TIME_FORMAT=%s
        export SLURM_TIME_FORMAT
        mirage_limit "$@"
    )
}

# May the chain's jobs run on other clusters too? The first 26 bits of a job id are a local id; a
# job of a federation has its cluster's number above them (slurm.conf(5), MaxJobId).
mirage_is_federated() {
    mirage_number "$mirage_job" 0
    [ "$mirage_n" -gt 67108863 ]
}

# Print what squeue says of job $1 in format $2; print nothing if squeue does not answer.
mirage_ask_job() {
    mirage_slurm 60 squeue -h -t all -j "$1" -o "$2" 2>/dev/null | head -n 1
}

# Ask squeue about job $1. Set mirage_job_state to the state, to `forgotten` if Slurm has no such
# job any more (Slurm forgets within minutes), or to nothing if Slurm does not answer. For a job
# that Slurm knows set mirage_job_start and mirage_job_end too.
mirage_query_job() {
    mirage_job_state= mirage_job_start= mirage_job_end=
    mirage_output=$(mirage_slurm 60 squeue -h -t all -j "$1" -o '%T %S %e' 2>&1)
    case $mirage_output in
    *"Invalid job id"*)
        mirage_job_state=forgotten # Slurm forgets a job some minutes after its end
        return 0
        ;;
    esac
    # shellcheck disable=SC2046 # squeue's three words are to be split
    set -- $(printf '%s\n' "$mirage_output" | LC_ALL=C grep -x '[A-Z_]* [^ ]* [^ ]*' | mirage_pick_row)
    mirage_job_state=${1-}
    [ "$mirage_job_state" != EXPEDITING ] || mirage_job_state=PENDING # on the way back into the queue
    mirage_number "${2-}" '' && mirage_job_start=$mirage_n
    mirage_number "${3-}" '' && mirage_job_end=$mirage_n
}

# Print one of the rows on standard input, a row that has not ended if there is one: each component
# of a heterogeneous job has a row of its own.
mirage_pick_row() {
    mirage_row=
    while read -r mirage_line; do
        if [ -z "$mirage_row" ] || ! mirage_is_end_state "${mirage_line%% *}"; then
            mirage_row=$mirage_line
        fi
    done
    printf '%s\n' "$mirage_row"
}

mirage_read_deadline() { # of this link, for its script and for the link that waits for it. After a wait
    # Slurm is asked first: somebody may have changed the time limit
    MIRAGE_DEADLINE= mirage_timed=
    { [ -n "$mirage_waited" ] && mirage_parse_deadline "$(mirage_ask_job "$mirage_job" %e)"; } ||
        mirage_read_deadline_variable ||
        mirage_parse_deadline "$(mirage_ask_job "$mirage_job" %e)" || return 0
    mirage_put "deadline/$mirage_index" "$mirage_n"
    MIRAGE_DEADLINE=${mirage_n#none} mirage_timed=yes
}

# Read the end from SLURM_JOB_END_TIME (Slurm 23.02 and later). Fail if the end is a year away:
# Slurm says so for a job without a time limit, and squeue tells such a job apart.
mirage_read_deadline_variable() {
    mirage_parse_deadline "${SLURM_JOB_END_TIME-}" &&
        { [ "$mirage_n" = none ] || [ "$((mirage_n - mirage_since))" -lt "$((364 * 86400))" ]; }
}

# Set mirage_n to the instant $1 in seconds, or to `none` for a job without a time limit. Fail for
# any other word.
mirage_parse_deadline() {
    case $1 in
    N/A | NONE) mirage_n=none ;;
    *) mirage_number "$1" '' ;;
    esac
    [ -n "$mirage_n" ]
}
