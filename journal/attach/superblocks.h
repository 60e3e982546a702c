/* superblocks: finding the copy that counts in an opened journal. */
#ifndef JOURNAL_SUPERBLOCKS_H
#define JOURNAL_SUPERBLOCKS_H

#include "format.h"
#include "storage.h"

struct superblocks {
    enum format_verdict verdict; /* FORMAT_OK: sb is set, else why there is none */
    struct superblock sb;        /* the copy that counts; format_super_free */
    int valid;                   /* copies that are: 0..2 */
    enum format_verdict copies[2];
    bool differ; /* both are valid, but not of one journal (verdict is BAD_FIELD) */
};

/* Reads both copies, past the page cache.  0 or -errno (-ENOMEM, or reading failed so that
 * nothing can be said).  Reports nothing. */
int superblocks_read(struct storage *s, struct superblocks *out);

#endif
