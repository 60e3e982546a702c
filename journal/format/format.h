/* format: the bytes of a journal on disk, version 1.
 *
 *   +--------------+--------------+------------------------------------------+
 *   | superblock 0 | superblock 1 | ring of records                          |
 *   +--------------+--------------+------------------------------------------+
 *   0         super_bytes    2*super_bytes = ring_start        ring_start+ring_bytes
 *
 * Everything is little-endian.  Checksums are XXH3-64 (xxHash 0.8), seeded with the first
 * eight bytes of the journal's random UUID: a record of another journal, or of an earlier life
 * of this file, never verifies here.
 *
 * Superblocks.  Two copies, the copy that is written is the one whose generation is even or
 * odd (slot = generation % 2), so a torn write destroys only the one that nobody needs.  The
 * valid copy with the higher generation counts.  A copy is a 4096-byte header, followed by the
 * table of images, 256 bytes each, all under one checksum.  A superblock is written when a
 * journal is created, at the first writable open after a start (new epoch), at the end of a
 * checkpoint (new tail) and at a clean stop: never as part of a commit.
 *
 * The ring.  Positions in it are *virtual*: they only grow, the byte at virtual position v is
 * at ring_start + v % ring_bytes of the file.  Records lie back to back, each on a boundary of
 * 128 bytes (FORMAT_UNIT); none wraps around the end of the ring, a pad record fills what is
 * left there.
 *
 * A record is a 128-byte header and payload_bytes of payload, and occupies span_bytes of the
 * ring, a multiple of 128 that may be larger than what is written (a gap).  Kinds:
 *
 *   WRITE  payload belongs at [offset, offset+length) of the image
 *   TRIM   [offset, offset+length) reads as zeroes; a hole if possible
 *   ZERO   [offset, offset+length) reads as zeroes and stays allocated
 *   PAD    nothing: it seals a commit (up to the next boundary of a sector, so that
 *          a later commit never rewrites a sector that an earlier one made
 *          durable), fills the end of the ring, or is a gap
 *   EPOCH  the first record after a start: says where recovery cut
 *   REVOKE reserved: records up to `length` of a range are void (not written by version 1)
 *
 * What makes a record valid, on its own: magic, header checksum, a virtual position that is
 * where it was found, fields in range, payload checksum.  What makes it *the next one* after
 * record p, which ended at virtual position e:
 *   - found at e, same epoch as p, lsn = p.lsn + 1, chain = p's header checksum; or
 *   - an EPOCH record found at e rounded up to a sector, with a later epoch,
 *     cut_lsn = p.lsn, chain = p's header checksum, and a larger lsn.
 * The superblock's tail gives (position, lsn, chain, epoch) of an imaginary record p that ends
 * at the tail.  Recovery goes from there until no next record proves itself.
 *
 * Why one barrier per commit is enough: header and payload prove each other and the chain
 * proves everything before it, so all can go out together in any order. Why `durable_lsn` is
 * in each header: a valid record that says "lsn 90 was durable when I was written" turns a
 * broken record 90 from a torn tail, which is cut, into damage, which is reported (DESIGN
 * 5.5). Why the lsn jumps at an EPOCH record: records behind the cut may have used lsns that
 * recovery could not see, those of this epoch and of others that were lost altogether.  In each
 * epoch they all lay in one ring, at most ring_bytes/128 of them; so an EPOCH record takes
 * cut_lsn + (its epoch - the cut's epoch) * (1 + ring_bytes/128), which is beyond all of them.
 */
#ifndef JOURNAL_FORMAT_H
#define JOURNAL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FORMAT_VERSION 1
#define FORMAT_SUPER_MAGIC "NBDKJRNL"
#define FORMAT_UNIT 128u          /* records start on multiples of this */
#define FORMAT_SECTOR 4096u       /* default; a superblock may say 512..65536 */
#define FORMAT_SUPER_BYTES 65536u /* default size of one superblock copy */
#define FORMAT_SUPER_MIN 8192u    /* power of two between these */
#define FORMAT_SUPER_MAX (1u << 20)
#define FORMAT_HEADER_BYTES 4096u /* of it, the header; the image table follows */
#define FORMAT_RECORD_BYTES 128u  /* a record's header */
#define FORMAT_IMAGE_BYTES 256u   /* an entry of the image table */
#define FORMAT_NAME_BYTES 160u    /* of it, the path for people, NUL-padded */
#define FORMAT_UUID_BYTES 16u
#define FORMAT_RECORD_MAX (64u << 20)          /* largest payload of one record */
#define FORMAT_JOURNAL_MIN (UINT64_C(1) << 20) /* smallest journal, see format_atomic_max */
#define FORMAT_JOURNAL_MAX \
    (UINT64_C(1) << 46)                    /* 64 TiB: keeps sums of positions far from 2^64 */
#define FORMAT_LSN_MAX (UINT64_C(1) << 63) /* writing stops with an error before this */

enum record_kind {
    RECORD_WRITE = 1,
    RECORD_TRIM = 2,
    RECORD_ZERO = 3,
    RECORD_PAD = 4,
    RECORD_EPOCH = 5,
    RECORD_REVOKE = 6,
};

#define RECORD_FLAG_FUA 1u /* the request had FUA (for people and dump --datalog) */

/* A record's header, decoded.  Units: bytes, virtual positions, microseconds. */
struct record {
    enum record_kind kind;
    uint16_t flags;         /* RECORD_FLAG_x */
    uint32_t epoch;         /* from 1 */
    uint32_t image_id;      /* entry of the image table; 0 for PAD and EPOCH */
    uint64_t lsn;           /* from 1 */
    uint64_t durable_lsn;   /* known durable when this was written; < lsn */
    uint64_t position;      /* virtual, multiple of FORMAT_UNIT */
    uint64_t chain;         /* header checksum of the predecessor */
    uint64_t offset;        /* in the image */
    uint64_t length;        /* in the image; payload_bytes for WRITE */
    uint64_t cut_lsn;       /* EPOCH: last record that recovery kept; else 0 */
    uint64_t time_us;       /* wall clock, for people only */
    uint64_t payload_sum;   /* of payload_bytes; 0 if there is none */
    uint32_t payload_bytes; /* 0..FORMAT_RECORD_MAX */
    uint64_t span_bytes;    /* occupied in the ring, multiple of FORMAT_UNIT */
    uint64_t header_sum;    /* set by format_record_encode and _decode */
};

/* An image that this journal serves. */
enum image_kind { IMAGE_FILE = 1, IMAGE_BLOCK = 2, IMAGE_REMOTE = 3 };

#define IMAGE_FLAG_PENDING 1u /* the ring may hold records for it: identity must match */
#define IMAGE_FLAG_MARKED 2u  /* bears a mark while data waits: one without is another file */
#define IMAGE_FLAG_BYPASS \
    4u /* may have been written without a record since the last clean stop */
#define IMAGE_FLAGS (IMAGE_FLAG_PENDING | IMAGE_FLAG_MARKED | IMAGE_FLAG_BYPASS)

struct image_entry {
    uint8_t uuid[FORMAT_UUID_BYTES]; /* given by us, also in the image's mark */
    uint32_t id; /* from 1, never reused while the ring holds records of it */
    enum image_kind kind;
    uint32_t flags;      /* IMAGE_FLAG_x */
    uint32_t mark_epoch; /* of the mark that it bears; 0: not known */
    uint64_t size;       /* bytes, 1..2^63-1 */
    uint64_t fsid;       /* file: the file system's id (statfs); block device: see attach.h */
    uint64_t inode;      /* file: inode; block device: its device number */
    char name[FORMAT_NAME_BYTES + 1]; /* path when it was last opened, for people */
};

/* Where the ring's live part begins: an imaginary record that ends there. */
struct ring_mark {
    uint64_t position; /* virtual, multiple of the sector */
    uint64_t lsn;      /* of the last record before it; 0 for a new journal */
    uint64_t chain;    /* its header checksum; 0 for a new journal */
    uint32_t epoch;    /* its epoch; 0 for a new journal */
};

/* Feature bits that this version knows.  A writer that does not know a compatible feature keeps
 * its bit, and writes zeroes where its fields may be. */
#define FORMAT_COMPAT_KNOWN 0u
#define FORMAT_RO_KNOWN 0u
/* An entry has IMAGE_FLAG_BYPASS.  Set and cleared by format_super_encode.  Without it a program
 * that does not know that flag would take the newest superblock for a damaged one, and go on with
 * the one before. */
#define FORMAT_INCOMPAT_BYPASS 1u
#define FORMAT_INCOMPAT_KNOWN FORMAT_INCOMPAT_BYPASS

#define SUPER_STATE_CLEAN 1u /* drained: the ring holds nothing, recovery needs no scan */

struct superblock {
    uint8_t uuid[FORMAT_UUID_BYTES];
    uint32_t feature_compat;   /* unknown bits: go on */
    uint32_t feature_ro;       /* unknown bits: reading is safe, writing is not */
    uint32_t feature_incompat; /* unknown bits: refuse */
    uint32_t sector_bytes;
    uint32_t super_bytes;
    uint64_t ring_start;
    uint64_t ring_bytes; /* multiple of sector_bytes */
    uint64_t generation;
    uint32_t epoch; /* of the last writable open; 0 = never opened */
    uint32_t state; /* SUPER_STATE_x */
    struct ring_mark tail;
    uint64_t
        ring_written; /* bytes of the ring, from its start, known to be allocated and written */
    uint64_t staging_bytes; /* staging in use since the last writable open; 0: none */
    uint8_t
        staging_boot[FORMAT_UUID_BYTES]; /* the boot id under which it is valid; else zero */
    uint32_t staging_uid;                /* the user who made it; else zero */
    uint64_t created_us;                 /* wall clock, for people only */
    uint64_t updated_us;
    uint32_t next_image_id; /* ids of forgotten images are not given again */
    uint32_t image_count;
    struct image_entry
        *images; /* image_count entries; owned by the caller, see format_super_decode */
};

enum format_verdict {
    FORMAT_OK = 0,
    FORMAT_NO_MAGIC,    /* not a journal / no record here */
    FORMAT_BAD_SUM,     /* magic is right, checksum is not */
    FORMAT_BAD_FIELD,   /* checksum is right, a field is out of range */
    FORMAT_OTHER_ORDER, /* a journal of the other byte order */
    FORMAT_NEW_VERSION, /* version or incompatible feature that we do not know */
    FORMAT_NO_MEMORY,
};
const char *format_verdict_words(enum format_verdict verdict);

/* The seed of all checksums of the journal with this UUID. */
uint64_t format_seed(const uint8_t uuid[FORMAT_UUID_BYTES]);

/* Checksum of a payload.  Pure; any thread. */
uint64_t format_sum(uint64_t seed, const void *bytes, size_t count);

/* Largest payload of one record in a ring of ring_bytes: an eighth of the ring in whole
 * 4 KiB, at most FORMAT_RECORD_MAX.  A request up to this size is atomic (P3).
 * An eighth: several writers and a checkpoint are under way at once, and what the end of the
 * ring wastes stays below an eighth. */
uint32_t format_atomic_max(uint64_t ring_bytes);

/* An lsn beyond that of every record that may stand in a ring with this tail, whose last
 * writable open was `epoch`: found by recovery, cut off by one, or damaged.  In each epoch at
 * most one ring of records was written, and each began with a jump of as many lsns for every
 * epoch that it left behind.  UINT64_MAX: there is none. */
uint64_t format_lsn_beyond(const struct ring_mark *tail, uint32_t epoch, uint64_t ring_bytes);

/* Ring space of a record with this payload, without gap. */
uint64_t format_span(uint64_t payload_bytes);

/* Writes FORMAT_RECORD_BYTES to `out` and sets r->header_sum. */
void format_record_encode(uint64_t seed, struct record *r, uint8_t out[FORMAT_RECORD_BYTES]);

/* Reads a header that was found at virtual position `position`.  Checks everything but the
 * payload.  On any verdict but FORMAT_OK *r is undefined. */
enum format_verdict format_record_decode(uint64_t seed, const uint8_t in[FORMAT_RECORD_BYTES],
                                         uint64_t position, uint64_t ring_bytes,
                                         struct record *r);

/* Fills a superblock for a new journal of journal_bytes (>= FORMAT_JOURNAL_MIN; the
 * ring is what is left, in whole sectors): geometry, no images, generation 1, clean. */
void format_super_init(struct superblock *sb, const uint8_t uuid[FORMAT_UUID_BYTES],
                       uint64_t journal_bytes, uint64_t now_us);

/* Encodes sb into out (super_bytes long, all of it is set). */
void format_super_encode(const struct superblock *sb, uint8_t *out);

/* Decodes one copy from in (in_bytes long, at least FORMAT_HEADER_BYTES).  On FORMAT_OK
 * sb->images is malloc'ed (or NULL) and the caller's: format_super_free. A header whose
 * super_bytes is larger than in_bytes is FORMAT_BAD_FIELD unless need_bytes is not NULL: then
 * *need_bytes says how much to read and the verdict is FORMAT_BAD_SUM. */
enum format_verdict format_super_decode(const uint8_t *in, size_t in_bytes, size_t *need_bytes,
                                        struct superblock *sb);
void format_super_free(struct superblock *sb);

/* Of two decoded copies (NULL = invalid) the one that counts. */
const struct superblock *format_super_choose(const struct superblock *a,
                                             const struct superblock *b);

/* Most images a journal with this superblock can serve. */
uint32_t format_images_max(const struct superblock *sb);

/* 36 characters and NUL. */
void format_uuid_text(const uint8_t uuid[FORMAT_UUID_BYTES], char out[37]);

#endif
