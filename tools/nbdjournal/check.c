/* nbdjournal check */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "describe.h"
#include "duration.h"
#include "nbdjournal.h"
#include "report.h"
#include "size.h"
#include "survey.h"
#include "text_json.h"

struct check_arguments {
    const char *journal;
    char **images;
    size_t image_count;
    bool json;
};

static const struct argp_option options[] = {
    {.name = "json", .key = 'j', .doc = "For programs: one JSON object"}, {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct check_arguments *a = state->input;

    switch (key) {
    case 'j':
        a->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->journal != NULL)
            return ARGP_ERR_UNKNOWN; /* the images come as ARGP_KEY_ARGS */
        a->journal = argument;
        return 0;
    case ARGP_KEY_ARGS:
        a->images = state->argv + state->next;
        a->image_count = (size_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_END:
        if (a->journal == NULL)
            argp_error(state, "which JOURNAL is to be checked?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static enum tool_exit refuse_stranger(const char **verdict)
{
    *verdict = "not an image of this journal: `nbdjournal info` lists those that it knows";
    return TOOL_DAMAGED;
}

/* Is it the image that the journal knows?  Disagreement is reported and counts as damage: a
 * replay would destroy this image. */
static enum tool_exit check_image(const struct survey *s, const char *path,
                                  const char **verdict)
{
    const struct image_entry *known = NULL;
    struct storage *image = NULL;
    struct image_entry now;
    struct image_mark mark;
    enum tool_exit result = TOOL_FAILED;
    int r;

    *verdict = "could not be read";
    if (storage_open_file(&image, path, "image", true, false, false) < 0)
        return TOOL_FAILED;
    r = image_mark_read(image, &mark);
    if (r < 0)
        result = survey_open_exit(r);
    if (r < 0 || image_identify(image, &now) < 0)
        goto out;
    result = TOOL_OK;
    switch (image_compare(&s->jf, s->state == JOURNAL_CLEAN, image, &mark, &now, &known)) {
    case MATCH_NEW:
        if (s->jf.sb.image_count > 0)
            result = refuse_stranger(verdict);
        else
            *verdict = "new to this journal, and free to be used with it";
        break;
    case MATCH_KNOWN:
        *verdict = "the image that the journal knows";
        break;
    case MATCH_CLEAN:
        /* A server takes any file then; but who asks may have mistaken one for another. */
        if (known->inode != now.inode && strcmp(known->name, now.name) != 0)
            result = refuse_stranger(verdict);
        else
            *verdict = "changed since the journal saw it last, and nothing waits for it";
        break;
    case MATCH_REFUSED:
        *verdict = "refused";
        result = TOOL_DAMAGED;
        break;
    }
out:
    storage_close(image);
    return result;
}

static void print_check(const struct survey *s)
{
    const char *name = s->jf.storage->name;
    uint64_t ring_bytes = s->jf.sb.ring_bytes;
    char text[SURVEY_TEXT_BYTES], size[SIZE_TEXT_BYTES], rate[SIZE_TEXT_BYTES],
        took[DURATION_TEXT_BYTES];

    printf("%s: %d of 2 superblocks valid%s\n", name, s->jf.slots_valid,
           s->jf.slots_valid == 2 ? ""
                                  : ": the other one was torn by a crash, which is harmless");
    if (s->state == JOURNAL_NEEDS_REPLAY)
        printf(
            "%s: %s: every checksum is right (%s read in %s, %s/s)\n", name,
            survey_waiting_text(s->result.records, s->result.payload_bytes, text),
            size_text(ring_bytes, size), duration_text(s->scan_ns, took),
            size_text((uint64_t)((double)ring_bytes * 1e9 / (double)(s->scan_ns + 1)), rate));
    if (s->staging == STAGING_MISSING)
        printf("%s: the newest records are missing: see MISSING RECORDS in nbdjournal(1)\n",
               name);
    if (s->jf.in_use)
        printf("%s: in use: a server is at work on it now\n", name);
    if (!s->jf.in_use || s->state != JOURNAL_NEEDS_REPLAY)
        printf("%s: %s\n", name, describe_state(s->state));
}

static enum tool_exit state_exit(enum journal_state state, const char *name)
{
    switch (state) {
    case JOURNAL_CLEAN:
        return TOOL_OK;
    case JOURNAL_NEEDS_REPLAY:
        return TOOL_OPEN;
    case JOURNAL_DAMAGED:
        return TOOL_DAMAGED;
    case JOURNAL_MOVING:
        report_error(
            "%s is in use and moves faster than it can be checked: try again, or stop its "
            "server",
            name);
        return TOOL_FAILED;
    }
    return TOOL_FAILED;
}

/* All images are looked at; the worst of them counts. */
static enum tool_exit check_images(const struct survey *s, const struct check_arguments *a,
                                   json_t *list)
{
    enum tool_exit result = TOOL_OK, one;
    const char *verdict;

    for (size_t i = 0; i < a->image_count; i++) {
        one = check_image(s, a->images[i], &verdict);
        if (a->json)
            json_array_append_new(list, json_pack("{s:o, s:s}", "path", text_json(a->images[i]),
                                                  "verdict", verdict));
        else
            printf("%s: %s\n", a->images[i], verdict);
        if (one > result)
            result = one;
    }
    return result;
}

static enum tool_exit check(struct survey *s, const struct check_arguments *a)
{
    json_t *list = json_array(), *object;
    enum tool_exit result, images;

    result = survey_open(s, a->journal, ATTACH_INSPECT);
    if (result == TOOL_OK)
        result = survey_scan(s);
    if (result != TOOL_OK)
        goto out;
    if (!a->json)
        print_check(s);
    result = state_exit(s->state, s->jf.storage->name);
    images = check_images(s, a, list);
    if (images > result)
        result = images;
    if (a->json) {
        object = describe_json(s);
        json_object_set(object, "checked_images", list);
        if (describe_json_print(object, JSON_INDENT(2)) != TOOL_OK)
            result = TOOL_FAILED;
    }
out:
    json_decref(list);
    return result;
}

enum tool_exit check_command(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "JOURNAL [IMAGE...]",
        .doc = "Verifies every checksum of a journal, and that each IMAGE is the one that it "
               "knows.  Nothing is changed.\v"
               "Exit status: 0 clean; 1 needs replay; 2 damaged, or an image that is not the "
               "one; 3 usage or I/O."};
    struct check_arguments a = {0};
    struct survey s = {0};
    enum tool_exit result;

    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
        return TOOL_FAILED;
    result = check(&s, &a);
    survey_close(&s);
    return result;
}
