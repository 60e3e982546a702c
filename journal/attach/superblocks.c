/* superblocks: see superblocks.h.
 *
 * The first copy is at the start.  It says how long a copy is, so where the second one begins;
 * if the first is broken, the second is looked for at every place where it could be (powers of
 * two), and must say of itself that it belongs there.
 *
 * A copy is only taken in the place that its generation tells (even first, odd second):
 * otherwise somebody copied one over the other, and the next write could destroy the newer one.
 *
 * "Written by a newer version" counts more than a valid copy beside it: an upgrade that was
 * interrupted halfway looks so, and writing would ruin what it did.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "superblocks.h"

#define ALIGN 4096u

struct reader {
    struct storage *s;
    uint8_t *bytes; /* FORMAT_SUPER_MAX, aligned */
    int error;      /* of the last read that failed */
};

/* Decodes the copy at `offset`, as far as the file reaches. */
static enum format_verdict decode_at(struct reader *r, uint64_t offset, struct superblock *sb)
{
    size_t count = FORMAT_SUPER_BYTES;

    for (;;) {
        enum format_verdict verdict;
        size_t need;
        int e;

        if (offset + FORMAT_HEADER_BYTES > r->s->size)
            return FORMAT_NO_MAGIC;
        if (count > r->s->size - offset)
            count = r->s->size - offset;
        e = storage_read_cold(r->s, r->bytes, count, offset);
        if (e < 0) {
            r->error = e;
            return FORMAT_BAD_SUM;
        }
        verdict = format_super_decode(r->bytes, count, &need, sb);
        if (need <= count)
            return verdict;
        if (need > r->s->size - offset) /* cut off */
            return FORMAT_BAD_SUM;
        count = need;
    }
}

/* Takes a decoded copy only in its place. */
static enum format_verdict check_place(enum format_verdict verdict, struct superblock *sb,
                                       int place, uint64_t offset)
{
    if (verdict != FORMAT_OK)
        return verdict;
    if (sb->generation % 2 == (unsigned)place && (place == 0 || sb->super_bytes == offset))
        return FORMAT_OK;
    format_super_free(sb);
    return FORMAT_BAD_FIELD;
}

/* Which of two reasons says more to a person. */
static enum format_verdict more_telling(enum format_verdict a, enum format_verdict b)
{
    static const int weight[] = {
        [FORMAT_OK] = 0,        [FORMAT_NO_MAGIC] = 1,    [FORMAT_BAD_SUM] = 2,
        [FORMAT_BAD_FIELD] = 3, [FORMAT_OTHER_ORDER] = 4, [FORMAT_NEW_VERSION] = 5,
        [FORMAT_NO_MEMORY] = 6,
    };

    return weight[b] > weight[a] ? b : a;
}

static enum format_verdict find_second(struct reader *r, const struct superblock *first,
                                       struct superblock *sb)
{
    enum format_verdict why = FORMAT_NO_MAGIC;

    if (first != NULL)
        return check_place(decode_at(r, first->super_bytes, sb), sb, 1, first->super_bytes);
    for (uint64_t offset = FORMAT_SUPER_MIN; offset <= FORMAT_SUPER_MAX; offset *= 2) {
        enum format_verdict verdict = check_place(decode_at(r, offset, sb), sb, 1, offset);

        if (verdict == FORMAT_OK)
            return FORMAT_OK;
        why = more_telling(why, verdict);
    }
    return why;
}

/* The rings may differ: nbdjournal resize was killed between the two copies, and the newer one
 * counts. */
static bool one_journal(const struct superblock *a, const struct superblock *b)
{
    return memcmp(a->uuid, b->uuid, FORMAT_UUID_BYTES) == 0 &&
           a->sector_bytes == b->sector_bytes && a->super_bytes == b->super_bytes;
}

static void choose(struct superblocks *out, struct superblock copies[2])
{
    bool valid[2] = {out->copies[0] == FORMAT_OK, out->copies[1] == FORMAT_OK};
    const struct superblock *best =
        format_super_choose(valid[0] ? &copies[0] : NULL, valid[1] ? &copies[1] : NULL);
    enum format_verdict telling = more_telling(out->copies[0], out->copies[1]);

    out->valid = valid[0] + valid[1];
    out->differ = out->valid == 2 && !one_journal(&copies[0], &copies[1]);
    if (out->differ)
        out->verdict = FORMAT_BAD_FIELD;
    else if (out->valid > 0 && telling != FORMAT_OTHER_ORDER && telling != FORMAT_NEW_VERSION)
        out->verdict = FORMAT_OK;
    else
        out->verdict = telling;

    for (int i = 0; i < 2; i++) {
        if (valid[i] && out->verdict == FORMAT_OK && best == &copies[i])
            out->sb = copies[i];
        else if (valid[i])
            format_super_free(&copies[i]);
    }
}

int superblocks_read(struct storage *s, struct superblocks *out)
{
    struct reader r = {.s = s};
    struct superblock copies[2];

    *out = (struct superblocks){.verdict = FORMAT_NO_MAGIC};
    if (posix_memalign((void **)&r.bytes, ALIGN, FORMAT_SUPER_MAX) != 0)
        return -ENOMEM;
    out->copies[0] = check_place(decode_at(&r, 0, &copies[0]), &copies[0], 0, 0);
    out->copies[1] =
        find_second(&r, out->copies[0] == FORMAT_OK ? &copies[0] : NULL, &copies[1]);
    choose(out, copies);
    free(r.bytes);
    if (out->verdict == FORMAT_NO_MEMORY)
        return -ENOMEM;
    if (out->verdict != FORMAT_OK && r.error != 0)
        return r.error;
    return 0;
}
