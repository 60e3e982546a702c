/* legal: see legal.h.
 *
 * The disk is cut into segments that have had the same changes.  Each segment has its
 * candidates: the changes that its bytes may show, with the moment at which each was surely
 * overwritten (its death).  The dead stay for as long as a read is under way that was sent
 * before.  Neighbours that have come to the same single candidate are one again.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bsd/sys/tree.h>

#include "legal.h"

#define NEVER UINT64_MAX
#define READS_MAX 256

struct legal_change {
    uint64_t offset, length, content;
    uint64_t sent, answered;           /* answered: NEVER, as long as it is not */
    bool atomic;                       /* whole or not at all after a crash */
    unsigned segments;                 /* that have it as a candidate */
    bool dropped;                      /* the caller knows it no more */
    bool there, missing;               /* found after a crash */
    struct legal_change *next, **link; /* in flight */
};

struct candidate {
    struct legal_change *change;
    uint64_t died; /* NEVER: lives */
};

struct segment {
    RB_ENTRY(segment) node;
    uint64_t offset, length;
    unsigned count, room;
    struct candidate *candidates;
};

RB_HEAD(segments, segment);

struct legal {
    uint64_t bytes, now;
    struct segments segments;
    struct legal_change *in_flight;
    uint64_t reads[READS_MAX]; /* stamps of those under way; 0: free */
    struct legal_counts counts;
};

static int segment_compare(const struct segment *a, const struct segment *b)
{
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function" /* the macro makes more than we call */
RB_GENERATE_INTERNAL(segments, segment, node, segment_compare, static)
#pragma GCC diagnostic pop

static void *get(size_t bytes)
{
    void *memory = calloc(1, bytes);

    if (memory == NULL)
        abort();
    return memory;
}

/* ---- content ---- */

static uint64_t word(uint64_t content, uint64_t number)
{
    uint64_t z = content * UINT64_C(0x9e3779b97f4a7c15) + number * UINT64_C(0xd1b54a32d192ed03);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ (z >> 31);
}

void legal_bytes(uint64_t content, uint64_t offset, uint8_t *out, uint64_t count)
{
    if (content == 0) {
        memset(out, 0, count);
        return;
    }
    while (count > 0) {
        uint64_t value = word(content, offset / 8), skip = offset % 8, n = 8 - skip;

        if (n > count)
            n = count;
        memcpy(out, (uint8_t *)&value + skip, n);
        out += n;
        offset += n;
        count -= n;
    }
}

static bool shows(uint64_t content, uint64_t offset, const uint8_t *bytes, uint64_t count)
{
    while (count > 0) {
        uint64_t value = content == 0 ? 0 : word(content, offset / 8);
        uint64_t skip = offset % 8, n = 8 - skip;

        if (n > count)
            n = count;
        if (memcmp(bytes, (uint8_t *)&value + skip, n) != 0)
            return false;
        bytes += n;
        offset += n;
        count -= n;
    }
    return true;
}

/* ---- changes and candidates ---- */

static void change_free_if_forgotten(struct legal_change *change)
{
    if (change->segments == 0 && change->dropped)
        free(change);
}

static void candidate_add(struct segment *s, struct legal_change *change, uint64_t died)
{
    if (s->count == s->room) {
        s->room = s->room == 0 ? 2 : 2 * s->room;
        s->candidates = realloc(s->candidates, s->room * sizeof(*s->candidates));
        if (s->candidates == NULL)
            abort();
    }
    s->candidates[s->count++] = (struct candidate){change, died};
    change->segments++;
}

static void candidate_remove(struct segment *s, unsigned i)
{
    struct legal_change *change = s->candidates[i].change;

    s->candidates[i] = s->candidates[--s->count];
    change->segments--;
    change_free_if_forgotten(change);
}

static uint64_t oldest_read(const struct legal *l)
{
    uint64_t oldest = NEVER;

    for (unsigned i = 0; i < READS_MAX; i++) {
        if (l->reads[i] != 0 && l->reads[i] < oldest)
            oldest = l->reads[i];
    }
    return oldest;
}

/* Those whose death no read under way can have missed. */
static void bury(struct segment *s, uint64_t oldest)
{
    for (unsigned i = s->count; i-- > 0;) {
        if (s->candidates[i].died != NEVER && s->candidates[i].died < oldest)
            candidate_remove(s, i);
    }
    assert(s->count > 0);
}

/* `change` is surely there: what was answered before it was sent is overwritten. */
static void kill_older(struct legal *l, struct segment *s, const struct legal_change *change)
{
    for (unsigned i = 0; i < s->count; i++) {
        struct candidate *c = &s->candidates[i];

        if (c->died == NEVER && c->change->answered < change->sent)
            c->died = l->now;
    }
}

/* ---- segments ---- */

static struct segment *segment_at(struct legal *l, uint64_t offset)
{
    struct segment *s = RB_ROOT(&l->segments), *found = NULL;

    while (s != NULL) {
        if (s->offset <= offset) {
            found = s;
            s = RB_RIGHT(s, node);
        } else {
            s = RB_LEFT(s, node);
        }
    }
    assert(found != NULL);
    return found;
}

static void segment_free(struct legal *l, struct segment *s)
{
    RB_REMOVE(segments, &l->segments, s);
    while (s->count > 0)
        candidate_remove(s, s->count - 1);
    free(s->candidates);
    free(s);
}

/* A segment begins at offset, if the disk does not end there. */
static void split(struct legal *l, uint64_t offset)
{
    struct segment *s, *rest;

    if (offset >= l->bytes)
        return;
    s = segment_at(l, offset);
    if (s->offset == offset)
        return;
    rest = get(sizeof(*rest));
    rest->offset = offset;
    rest->length = s->offset + s->length - offset;
    s->length -= rest->length;
    for (unsigned i = 0; i < s->count; i++)
        candidate_add(rest, s->candidates[i].change, s->candidates[i].died);
    RB_INSERT(segments, &l->segments, rest);
}

/* The segments of a range, from the first one; cut at its ends. */
static struct segment *range_begin(struct legal *l, uint64_t offset, uint64_t length)
{
    split(l, offset);
    split(l, offset + length);
    return segment_at(l, offset);
}

static struct segment *range_next(struct segment *s, uint64_t end)
{
    s = RB_NEXT(segments, NULL, s);
    return s != NULL && s->offset < end ? s : NULL;
}

static bool same_and_single(const struct segment *a, const struct segment *b)
{
    return a->count == 1 && b->count == 1 && a->candidates[0].change == b->candidates[0].change;
}

static void range_end(struct legal *l, uint64_t offset, uint64_t length)
{
    uint64_t oldest = oldest_read(l);
    struct segment *s = segment_at(l, offset > 0 ? offset - 1 : 0), *next;

    bury(s, oldest);
    while ((next = RB_NEXT(segments, NULL, s)) != NULL && next->offset <= offset + length) {
        bury(next, oldest);
        if (same_and_single(s, next)) {
            s->length += next->length;
            segment_free(l, next);
        } else {
            s = next;
        }
    }
}

/* ---- what happens ---- */

static struct legal_change *change_make(struct legal *l, uint64_t offset, uint64_t length,
                                        uint64_t content)
{
    struct legal_change *change = get(sizeof(*change));

    assert(length > 0 && offset + length <= l->bytes);
    *change = (struct legal_change){.offset = offset,
                                    .length = length,
                                    .content = content,
                                    .sent = ++l->now,
                                    .answered = NEVER};
    return change;
}

static void flight_leave(struct legal_change *change)
{
    *change->link = change->next;
    if (change->next != NULL)
        change->next->link = change->link;
}

struct legal *legal_create(uint64_t bytes)
{
    struct legal *l = get(sizeof(*l));
    struct segment *all = get(sizeof(*all));
    struct legal_change *zeroes;

    *l = (struct legal){.bytes = bytes};
    RB_INIT(&l->segments);
    zeroes = change_make(l, 0, bytes, 0);
    zeroes->answered = ++l->now;
    zeroes->dropped = true;
    all->length = bytes;
    candidate_add(all, zeroes, NEVER);
    RB_INSERT(segments, &l->segments, all);
    return l;
}

void legal_destroy(struct legal *l)
{
    legal_crashed(l);
    while (!RB_EMPTY(&l->segments))
        segment_free(l, RB_ROOT(&l->segments));
    free(l);
}

struct legal_change *legal_sent(struct legal *l, uint64_t offset, uint64_t length,
                                uint64_t content, bool atomic)
{
    struct legal_change *change = change_make(l, offset, length, content);

    change->atomic = atomic;
    for (struct segment *s = range_begin(l, offset, length); s != NULL;
         s = range_next(s, offset + length))
        candidate_add(s, change, NEVER);
    change->next = l->in_flight;
    change->link = &l->in_flight;
    if (change->next != NULL)
        change->next->link = &change->next;
    l->in_flight = change;
    return change;
}

void legal_answered(struct legal *l, struct legal_change *change)
{
    uint64_t offset = change->offset, length = change->length;

    change->answered = ++l->now;
    flight_leave(change);
    for (struct segment *s = range_begin(l, offset, length); s != NULL;
         s = range_next(s, offset + length))
        kill_older(l, s, change);
    change->dropped = true;
    change_free_if_forgotten(change);
    range_end(l, offset, length);
}

uint64_t legal_read_sent(struct legal *l)
{
    for (unsigned i = 0; i < READS_MAX; i++) {
        if (l->reads[i] == 0)
            return l->reads[i] = ++l->now;
    }
    abort(); /* more reads at a time than we are made for */
}

/* Nobody has seen this byte before: says what was wrong with it. */
static void print_byte(const struct segment *s, uint64_t offset, uint8_t got, uint64_t since)
{
    printf("FAIL: byte %" PRIu64 " is %02x; legal are", offset, got);
    for (unsigned i = 0; i < s->count; i++) {
        const struct legal_change *change = s->candidates[i].change;
        uint8_t wanted;

        legal_bytes(change->content, offset, &wanted, 1);
        printf("%s %02x (content %" PRIu64 " at %" PRIu64 "+%" PRIu64 ", sent %" PRIu64,
               i == 0 ? "" : ",", wanted, change->content, change->offset, change->length,
               change->sent);
        if (change->answered != NEVER)
            printf(", answered %" PRIu64, change->answered);
        if (s->candidates[i].died != NEVER)
            printf(", overwritten %" PRIu64, s->candidates[i].died);
        printf(")");
    }
    printf("; seen since %" PRIu64 "\n", since);
}

static bool bytes_are_legal(const struct segment *s, uint64_t offset, const uint8_t *bytes,
                            uint64_t count, uint64_t since)
{
    for (uint64_t at = 0; at < count; at++) {
        bool legal = false;

        for (unsigned i = 0; i < s->count && !legal; i++)
            legal = s->candidates[i].died > since &&
                    shows(s->candidates[i].change->content, offset + at, bytes + at, 1);
        if (!legal) {
            print_byte(s, offset + at, bytes[at], since);
            return false;
        }
    }
    return true;
}

/* The one change that these bytes show whole.  NULL: none, or several, or too few to tell. */
static struct legal_change *change_shown(const struct segment *s, uint64_t offset,
                                         const uint8_t *bytes, uint64_t count, uint64_t since,
                                         bool *legal)
{
    struct legal_change *found = NULL;
    unsigned matches = 0;

    for (unsigned i = 0; i < s->count; i++) {
        struct legal_change *change = s->candidates[i].change;

        if (s->candidates[i].died > since && shows(change->content, offset, bytes, count)) {
            found = change;
            matches++;
        }
    }
    *legal = matches > 0;
    return matches == 1 && count >= 8 ? found : NULL;
}

bool legal_read_answered(struct legal *l, uint64_t stamp, uint64_t offset, const uint8_t *bytes,
                         uint64_t count)
{
    uint64_t end = offset + count;
    struct segment *s = range_begin(l, offset, count);
    bool ok = true;

    l->now++;
    for (; s != NULL && ok; s = range_next(s, end)) {
        const uint8_t *here = bytes + (s->offset - offset);
        struct legal_change *shown = change_shown(s, s->offset, here, s->length, stamp, &ok);

        if (shown != NULL)
            kill_older(l, s, shown);
        else if (!ok)
            ok = bytes_are_legal(s, s->offset, here, s->length, stamp);
        l->counts.bytes_compared += s->length;
        l->counts.bytes_in_flight += s->count > 1 ? s->length : 0;
    }
    for (unsigned i = 0; i < READS_MAX; i++) {
        if (l->reads[i] == stamp) {
            l->reads[i] = 0;
            break;
        }
    }
    if (ok)
        range_end(l, offset, count);
    return ok;
}

/* ---- crashes ---- */

void legal_crashed(struct legal *l)
{
    memset(l->reads, 0, sizeof(l->reads));
    l->now++;
    while (l->in_flight != NULL) {
        struct legal_change *change = l->in_flight;

        flight_leave(change);
        change->dropped = true;
        l->counts.unanswered++;
        change_free_if_forgotten(change);
    }
}

/* How many of these bytes show the content. */
static uint64_t prefix_shown(uint64_t content, uint64_t offset, const uint8_t *bytes,
                             uint64_t count)
{
    uint64_t at = 0, step;

    if (shows(content, offset, bytes, count))
        return count;
    for (step = 4096; step > 0; step /= 8) {
        while (count - at > step && shows(content, offset + at, bytes + at, step))
            at += step;
    }
    return at;
}

/* The segment, or what of its beginning one change alone shows; the rest becomes a segment of its
 * own.  NULL: several show it, or too few bytes to tell. */
static struct legal_change *found_first(struct legal *l, struct segment *s,
                                        const uint8_t *bytes, bool *legal)
{
    const uint8_t *here = bytes + s->offset;
    struct legal_change *found = NULL;
    uint64_t longest = 0;
    bool several = false;

    for (unsigned i = 0; i < s->count; i++) {
        struct legal_change *change = s->candidates[i].change;
        uint64_t length;

        if (s->candidates[i].died != NEVER)
            continue;
        length = prefix_shown(change->content, s->offset, here, s->length);
        if (length == longest)
            several = true;
        if (length > longest) {
            found = change;
            longest = length;
            several = false;
        }
    }
    *legal = longest > 0;
    if (longest > 0)
        split(l, s->offset + longest);
    return several || longest < 8 ? NULL : found;
}

/* What the bytes of this segment say about the changes that were in flight. */
static void note_found(const struct segment *s, const struct legal_change *shown)
{
    for (unsigned i = 0; i < s->count; i++) {
        struct legal_change *change = s->candidates[i].change;

        if (change->answered != NEVER)
            continue;
        if (change == shown)
            change->there = true;
        else if (shown->answered < change->sent)
            change->missing = true;
    }
}

/* P3: no part of it is there while another part is older. */
static bool is_whole(const struct legal_change *change)
{
    if (!change->there || !change->missing || !change->atomic)
        return true;
    printf("FAIL P3: the change of %" PRIu64 " bytes at %" PRIu64 ", sent at %" PRIu64
           ", is there in part\n",
           change->length, change->offset, change->sent);
    return false;
}

/* From now on the segment is what was found there. */
static void settle(struct legal *l, struct segment *s, const struct legal_change *shown)
{
    for (unsigned i = s->count; i-- > 0;) {
        struct legal_change *change = s->candidates[i].change;

        if (change->answered == NEVER) {
            change->answered = l->now;
            l->counts.unanswered_there += change->there;
        }
        if (shown != NULL && change != shown)
            candidate_remove(s, i);
    }
}

bool legal_found(struct legal *l, const uint8_t *bytes)
{
    struct segment *s;
    bool ok = true, legal;

    assert(l->in_flight == NULL);
    l->now++;
    for (s = RB_MIN(segments, &l->segments); s != NULL; s = RB_NEXT(segments, NULL, s)) {
        struct legal_change *shown;

        l->counts.bytes_in_flight += s->count > 1 ? s->length : 0;
        shown = found_first(l, s, bytes, &legal);
        l->counts.bytes_compared += s->length;
        if (shown != NULL)
            note_found(s, shown);
        else if (!legal)
            return bytes_are_legal(s, s->offset, bytes + s->offset, s->length, l->now - 1);
    }
    RB_FOREACH (s, segments, &l->segments) {
        for (unsigned i = 0; i < s->count; i++)
            ok &= is_whole(s->candidates[i].change);
    }
    RB_FOREACH (s, segments, &l->segments)
        settle(l, s, found_first(l, s, bytes, &legal));
    return ok;
}

const struct legal_counts *legal_counts_get(const struct legal *l)
{
    return &l->counts;
}
