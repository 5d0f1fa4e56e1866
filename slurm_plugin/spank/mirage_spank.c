/*
 * mirage_spank.c: `sbatch --mirage-chain=N` and `#SBATCH --mirage-chain=N` with no wrapper on PATH.
 *
 * The plugin makes no chain itself. If a call asks for a chain, sbatch becomes Mirage's wrapper
 * (execv with the same words). The wrapper makes the carrier and calls the real sbatch.
 * The plugin acts in sbatch alone: in srun, salloc, slurmd and slurmstepd each function returns at
 * once. After any failure one line says so, and sbatch goes on as if the plugin were not there.
 *
 * plugstack.conf:  optional mirage_spank.so [wrapper=/opt/mirage/slurm_plugin/sbatch]
 * Options must be registered in slurm_spank_init: sbatch ignores a static spank_options[] (22.05).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(mirage, 1)

#define DEFAULT_WRAPPER "/opt/mirage/slurm_plugin/sbatch"
/* PID:WHEN of the process that became the wrapper; the real sbatch is that process again, or its
 * child. The wrapper keeps no SLURM_ variable for later links, and no job gets it: see post_opt.
 * WHEN is 0 before the script was read: its #SBATCH lines may still come. Afterwards it is 1. */
#define MARK "SLURM_MIRAGE_PID"
enum { BEFORE_SCRIPT, AFTER_SCRIPT, NEVER };
#define OPTION "mirage-"
#define TAG "mirage:"
#define ID_LETTERS "0123456789abcdefghjkmnpqrstvwxyz" /* of a chain id, 20 of them */
#define ID_LENGTH 20

static int on_option(int index, const char *value, int remote);

/* The wrapper's options (wrapper/options.py); it is the wrapper that reads and judges the values. */
static struct spank_option options[] = {
	{ "mirage-chain", "N", "run as a chain of N jobs (Mirage)", 1, 0, on_option },
	{ "mirage-total", "time", "end the chain when its links have run this long in all", 1, 1, on_option },
	{ "mirage-until-file", "path", "end the chain once this file exists", 1, 2, on_option },
	{ "mirage-policy", "name", "rule or model that says when the next link may start", 1, 3, on_option },
	{ "mirage-overlap-price", "x", "price of an hour of overlap", 1, 4, on_option },
	{ "mirage-never-overlap", NULL, "never let two links run at once", 0, 5, on_option },
	{ "mirage-max-overlap", "time", "longest overlap of two links", 1, 6, on_option },
	{ "mirage-presubmit", "next|all", "queue one link behind the running one, or all from the start", 1, 7, on_option },
	{ "mirage-style", "sequential|concurrent|switch|wait|serve", "how a link takes over from the link before it", 1, 8, on_option },
	{ "mirage-mode", "standby|submit", "standby: queue the next link early; submit: when it may start", 1, 9, on_option },
	{ "mirage-continue", "states", "link ends after which the chain goes on", 1, 10, on_option },
	{ "mirage-min-runtime", "time", "two links in a row that fail sooner pause the chain", 1, 11, on_option },
	{ "mirage-checkpoint", "path", "two links in a row without a newer file there pause the chain", 1, 12, on_option },
	{ "mirage-lead", "time", "release the next link this long before the end", 1, 13, on_option },
	{ "mirage-service", "site|none", "none: ask no Mirage service", 1, 14, on_option },
	{ "mirage-returns", "N", "how often an early link may give its nodes back", 1, 15, on_option },
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))
enum { NEVER_OVERLAP = 5, MAX_OVERLAP = 6, STYLE = 8 };

static const char *wrapper = DEFAULT_WRAPPER;
static bool is_active;         /* in sbatch, not switched off, and the wrapper has not been run yet */
static char *directive_values[OPTIONS]; /* the options in #SBATCH lines, by index */
static bool has_directive;
static off_t stdin_start = -1; /* where a script on standard input begins; -1: cannot be reread */

/* This process's words, as /proc has them. */
static char **words;
static int word_count;

static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

static bool begins(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static const char *own_program(char *path, size_t size)
{
	ssize_t length = readlink("/proc/self/exe", path, size - 1);

	if (length <= 0)
		return NULL;
	path[length] = '\0';
	return path;
}

static bool is_sbatch(void)
{
	char path[PATH_MAX];
	const char *program, *slash;

	if (spank_context() != S_CTX_ALLOCATOR || !(program = own_program(path, sizeof(path))))
		return false;
	slash = strrchr(program, '/');
	return strcmp(slash ? slash + 1 : program, "sbatch") == 0;
}

static char *read_whole(const char *path, size_t *length)
{
	size_t room = 16384, got = 0, part;
	char *text = NULL, *larger;
	FILE *file = fopen(path, "re");

	if (!file)
		return NULL;
	do {
		if (!(larger = realloc(text, room + 1)))
			break;
		text = larger;
		part = fread(text + got, 1, room - got, file);
		got += part;
		room *= 2;
	} while (part && got * 2 == room);
	fclose(file);
	if (text)
		text[got] = '\0';
	*length = got;
	return text;
}

static bool read_words(void)
{
	size_t length = 0, at;
	char *text = read_whole("/proc/self/cmdline", &length);
	int n = 0;

	for (at = 0; text && at < length; at += strlen(text + at) + 1)
		n++;
	if (!n || !(words = calloc(n + 1, sizeof(*words)))) {
		free(text);
		return false;
	}
	for (at = 0; word_count < n; at += strlen(text + at) + 1)
		words[word_count++] = text + at;
	return true;
}

/* Inside a link the chain's own script asks for no chain but must submit nothing: the wrapper decides. */
static bool maybe_in_a_link(void)
{
	return is_set("MIRAGE_LINK") && is_set("MIRAGE_DIR") && is_set("SLURM_JOB_ID");
}

/* A link's own mark, mirage:<chain>:<link>: the first argument of every carrier. */
static bool is_carrier_mark(const char *word)
{
	const char *id = word + strlen(TAG);
	const char *link = id + ID_LENGTH + 1;

	return begins(word, TAG) && strspn(id, ID_LETTERS) == ID_LENGTH && id[ID_LENGTH] == ':' &&
	       *link && strspn(link, "0123456789") == strlen(link);
}

/* When the wrapper handled this call, here or in the link that submits it; NEVER: not yet. */
static int find_wrapper_run(void)
{
	const char *mark = getenv(MARK);
	long pid = 0;
	int when, i;

	/* A link's carrier submits the next link with its mark, without a link's variables. A script may
	 * use the mark too, but it has the variables. */
	for (i = 1; i < word_count; i++)
		if (is_carrier_mark(words[i]) && !maybe_in_a_link())
			return AFTER_SCRIPT;
	if (!mark || sscanf(mark, "%ld:%d", &pid, &when) != 2)
		return NEVER;
	if (pid != (long) getpid() && pid != (long) getppid())
		return NEVER; /* left over from an earlier process */
	return when == BEFORE_SCRIPT ? BEFORE_SCRIPT : AFTER_SCRIPT;
}

static bool switched_off(void)
{
	return is_set("MIRAGE_DISABLE") && strcmp(getenv("MIRAGE_DISABLE"), "0") != 0;
}

static bool has_word(const char *wanted)
{
	int i;

	for (i = 1; i < word_count; i++)
		if (strcmp(words[i], wanted) == 0)
			return true;
	return false;
}

static bool asked_before_the_script_is_read(void)
{
	int i;

	for (i = 1; i < word_count; i++)
		if (begins(words[i], "--" OPTION))
			return true;
	return is_set("MIRAGE_CHAIN") || is_set("MIRAGE_TOTAL") || maybe_in_a_link();
}

static void say(const char *what, const char *why)
{
	if (!has_word("-Q") && !has_word("--quiet") && !has_word("--parsable"))
		fprintf(stderr, "mirage: %s (%s); submitted without a chain\n", what, why);
}

/* sbatch's order of precedence: a #SBATCH line gives way to the environment. */
static bool environment_has(size_t index)
{
	char name[64] = "MIRAGE_";
	const char *from = options[index].name + strlen(OPTION);
	size_t at = strlen(name);

	for (; *from && at < sizeof(name) - 1; from++)
		name[at++] = *from == '-' ? '_' : *from - 'a' + 'A';
	if (index == STYLE && is_set("MIRAGE_LINK"))
		return false; /* inside a link the variable is that of the link's own chain */
	if (index == NEVER_OVERLAP || index == MAX_OVERLAP)
		return is_set("MIRAGE_NEVER_OVERLAP") || is_set("MIRAGE_MAX_OVERLAP");
	return is_set(name);
}

/* Format an option for the wrapper, as one word: a new string, NULL without memory. */
static char *as_word(size_t index)
{
	char *word = NULL;

	if (!options[index].has_arg)
		return asprintf(&word, "--%s", options[index].name) < 0 ? NULL : word;
	return asprintf(&word, "--%s=%s", options[index].name, directive_values[index]) < 0 ? NULL : word;
}

/* The wrapper finds sbatch on PATH or in /usr/bin. If this sbatch is neither, name it to the wrapper. */
static bool name_real_sbatch(void)
{
	char own[PATH_MAX], beside[PATH_MAX];
	const char *path = getenv("PATH"), *end;

	if (is_set("MIRAGE_REAL_SBATCH") || !own_program(own, sizeof(own)) ||
	    strcmp(own, "/usr/bin/sbatch") == 0)
		return false;
	for (; path && *path; path = *end ? end + 1 : end) {
		end = strchrnul(path, ':');
		snprintf(beside, sizeof(beside), "%.*s/sbatch", (int) (end - path), path);
		if (strcmp(beside, own) == 0)
			return false;
	}
	return setenv("MIRAGE_REAL_SBATCH", own, 1) == 0;
}

/* Become the wrapper, with the options of #SBATCH lines and the words of this call. */
static void become_wrapper(int when)
{
	char **argv = calloc(word_count + OPTIONS + 1, sizeof(*argv));
	char mark[32];
	bool named;
	size_t i;
	int n = 0;

	if (!argv) {
		say(wrapper, "out of memory");
		return;
	}
	argv[n++] = words[0];
	for (i = 0; i < OPTIONS; i++) {
		if (!directive_values[i] || environment_has(i))
			continue;
		if (!(argv[n++] = as_word(i))) {
			say(wrapper, "out of memory");
			return;
		}
	}
	memcpy(argv + n, words + 1, (word_count - 1) * sizeof(*argv));
	snprintf(mark, sizeof(mark), "%ld:%d", (long) getpid(), when);
	setenv(MARK, mark, 1);
	named = name_real_sbatch();
	fflush(NULL);
	execv(wrapper, argv);
	say(wrapper, strerror(errno));
	unsetenv(MARK);
	if (named)
		unsetenv("MIRAGE_REAL_SBATCH");
}

static int on_option(int index, const char *value, int remote)
{
	if (remote || !is_active || index < 0 || (size_t) index >= OPTIONS)
		return 0;
	free(directive_values[index]);
	directive_values[index] = strdup(value ? value : "");
	has_directive = true;
	return 0;
}

/* Slurm hands options on to the job in two variables, and takes the second of them for an option
 * again: sbatch within a link would start a chain. No job is to have either. */
static void forget_options(spank_t spank)
{
	char again[160] = "SLURM_SPANK_", *name = again + strlen(again), *at;
	size_t i;

	for (i = 0; i < OPTIONS; i++) {
		sprintf(name, "_SLURM_SPANK_OPTION_%s_%.75s", plugin_name, options[i].name);
		for (at = name; *at; at++)
			if (*at == '-')
				*at = '_';
		unsetenv(again);
		unsetenv(name);
		spank_job_control_unsetenv(spank, name);
	}
}

/* Whether the script was read from a pipe: then nobody can read it again. getopt_long stopped at
 * the script's name; between the components of a heterogeneous job it stops at a colon as well. */
static bool script_is_gone(void)
{
	if (stdin_start >= 0)
		return lseek(STDIN_FILENO, stdin_start, SEEK_SET) < 0;
	return optind >= word_count || has_word(":");
}

int slurm_spank_init(spank_t spank, int ac, char **av)
{
	size_t i;
	int at, taken;

	if (!is_sbatch())
		return ESPANK_SUCCESS;
	for (at = 0; at < ac; at++)
		if (begins(av[at], "wrapper="))
			wrapper = av[at] + strlen("wrapper=");
	for (i = 0; i < OPTIONS; i++)
		spank_option_register(spank, &options[i]);
	forget_options(spank);
	if (switched_off() || !read_words() || (taken = find_wrapper_run()) == AFTER_SCRIPT)
		return ESPANK_SUCCESS;
	stdin_start = lseek(STDIN_FILENO, 0, SEEK_CUR);
	is_active = true;
	if (taken == NEVER && asked_before_the_script_is_read()) {
		become_wrapper(BEFORE_SCRIPT);
		is_active = false; /* one line has said that the wrapper could not be run */
	}
	return ESPANK_SUCCESS;
}

/* Called for each component of a heterogeneous job; at the first, the script has been read. */
int slurm_spank_init_post_opt(spank_t spank, int ac, char **av)
{
	(void) ac, (void) av;
	if (!is_sbatch())
		return ESPANK_SUCCESS;
	unsetenv(MARK); /* the job's environment is copied after this */
	forget_options(spank);
	if (!is_active || !has_directive)
		return ESPANK_SUCCESS;
	is_active = false;
	if (script_is_gone()) {
		say("#SBATCH --mirage lines are not seen in a script that comes through a pipe",
		    "name the script, or give the options to sbatch");
		return ESPANK_SUCCESS;
	}
	become_wrapper(AFTER_SCRIPT);
	return ESPANK_SUCCESS;
}
