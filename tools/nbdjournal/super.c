/* super: see super.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report.h"
#include "super.h"

int super_write(struct journal_file *jf, struct superblock *sb)
{
    uint8_t *bytes = malloc(sb->super_bytes);
    struct superblock old = jf->sb;
    struct timespec now;
    uint64_t offset;
    int r = -ENOMEM;

    if (bytes == NULL) {
        report_error("%s: %s", jf->storage->name, report_reason(ENOMEM));
        return r;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    sb->generation = jf->sb.generation + 1;
    sb->updated_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    format_super_encode(sb, bytes);
    offset = sb->generation % 2 * sb->super_bytes;
    r = storage_write(jf->storage, bytes, sb->super_bytes, offset);
    if (r == 0)
        r = storage_barrier(jf->storage);
    free(bytes);
    if (r < 0) {
        report_error("%s: writing the superblock: %s", jf->storage->name, report_reason(-r));
        return r;
    }
    jf->sb = *sb;
    jf->sb.images = old.images;
    jf->sb.image_count = old.image_count;
    return 0;
}

bool super_empty_ring(const struct journal_file *jf, struct superblock *sb)
{
    uint64_t lsn = format_lsn_beyond(&sb->tail, sb->epoch, sb->ring_bytes);

    if (sb->epoch == UINT32_MAX || lsn >= FORMAT_LSN_MAX - 2 ||
        sb->tail.position > INT64_MAX - sb->ring_bytes) {
        report_error("%s: its sequence numbers are used up: make a new journal",
                     jf->storage->name);
        return false;
    }
    sb->epoch++;
    sb->tail = (struct ring_mark){
        .position = sb->tail.position + sb->ring_bytes, .lsn = lsn, .epoch = sb->epoch};
    sb->state = SUPER_STATE_CLEAN;
    sb->staging_bytes = 0;
    sb->staging_uid = 0;
    memset(sb->staging_boot, 0, sizeof(sb->staging_boot));
    return true;
}
