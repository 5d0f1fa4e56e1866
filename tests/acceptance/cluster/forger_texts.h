/* Texts that hold rows of another's answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST = 64, TEXT = 1024, LONG = 16384, LINE = 16384, PIDS = 1 << 22 };

typedef struct {
    char *names[MOST];
    int count;
    char separator[256];
    int accounting; /* sacct */
} Call;

static void append(char *text, size_t size, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s", more);
}

static const char *value_of(const char *row, const char *field, char *room)
{
    size_t length = strlen(field);
    for (const char *at = row; at != NULL; at = strchr(at, '\t')) {
        at += *at == '\t';
        if (strncasecmp(at, field, length) == 0 && at[length] == '=') {
            snprintf(room, 256, "%.*s", (int)strcspn(at + length + 1, "\t"), at + length + 1);
            return room;
        }
    }
    return "";
}

/* Ends the row of the field at `place`, and begins another up to that field; `row` may be none. */
static void forge(const Call *call, const char *row, int place, char *text, size_t size)
{
    char room[256];
    append(text, size, call->separator);
    if (*row == '\0')
        return;
    for (int i = place + 1; i < call->count; i++) {
        append(text, size, "x");
        append(text, size, call->separator);
    }
    append(text, size, "\n");
    for (int i = 0; i <= place; i++) {
        append(text, size, value_of(row, call->names[i], room));
        if (i < place)
            append(text, size, call->separator);
    }
}

static int place_of(const Call *call, const char *one, const char *other)
{
    for (int i = 0; i < call->count; i++)
        if (strcasecmp(call->names[i], one) == 0 || strcasecmp(call->names[i], other) == 0)
            return i;
    return -1;
}

static char *text_for(const Call *call, const char *row, const char *one, const char *other, char *text)
{
    int place = place_of(call, one, other);
    if (place < 0)
        return NULL;
    snprintf(text, TEXT, "x");
    forge(call, row, place, text, TEXT);
    /* Accounting cuts a name there: a row without its end would only be a separator astray. */
    if (call->accounting && *row != '\0' && strcmp(one, "JobName") == 0 && strlen(text) > 255)
        return "x";
    return text;
}

static void take_fields(Call *call, char *list)
{
    call->count = 0;
    char *rest = NULL, *word = strtok_r(list, ",", &rest);
    for (; word != NULL && call->count < MOST; word = strtok_r(NULL, ",", &rest)) {
        char *colon = strchr(word, ':');
        if (colon != NULL) {
            snprintf(call->separator, sizeof call->separator, "%s", colon + 1);
            *colon = '\0';
        }
        call->names[call->count++] = word;
    }
}
