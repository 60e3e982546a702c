/* match: which image belongs to which journal, and the marks that images bear.
 *
 * Needs a file system with user attributes, as images have them in real life.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "attach.h"
#include "place.h"
#include "words.h"

#define MIB (UINT64_C(1) << 20)
#define MARK "user.nbdkit.journal"

static const char *disk;

/* A journal and an image that belong together, as after `epoch` writable opens. */
struct pair {
    struct journal_file jf;
    struct image_entry table[2];
    char journal_path[512], image_path[512];
};

/* ---- tools ---- */

static struct storage *open_image(const char *path)
{
    struct storage *s;

    assert_int_equal(storage_open_file(&s, path, "image", false, false, true), 0);
    return s;
}

static void mark_of(const struct pair *p, struct image_mark *mark)
{
    *mark = (struct image_mark){.present = true, .epoch = p->jf.sb.epoch};
    memcpy(mark->journal_uuid, p->jf.sb.uuid, FORMAT_UUID_BYTES);
    memcpy(mark->image_uuid, p->table[0].uuid, FORMAT_UUID_BYTES);
    snprintf(mark->journal_path, sizeof(mark->journal_path), "%s", p->journal_path);
}

static void put_mark(const char *path, const struct image_mark *mark)
{
    struct storage *s = open_image(path);
    bool supported = false;

    assert_int_equal(image_mark_write(s, mark, &supported), 0);
    assert_true(supported);
    storage_close(s);
}

static void drop_mark(const char *path)
{
    struct storage *s = open_image(path);

    assert_int_equal(image_mark_remove(s), 0);
    storage_close(s);
}

/* A pair in the state of a server that died: marked. */
static void make_pair(struct pair *p, const char *name)
{
    char text[64];
    struct image_mark mark;
    struct storage *s;

    memset(p, 0, sizeof(*p));
    snprintf(text, sizeof(text), "%s.journal", name);
    snprintf(p->journal_path, sizeof(p->journal_path), "%s", place_path(disk, text));
    snprintf(p->image_path, sizeof(p->image_path), "%s", place_file(disk, name, MIB));
    unlink(p->journal_path);
    assert_int_equal(journal_create_file(p->journal_path, MIB, false), 0);
    assert_int_equal(journal_open(&p->jf, p->journal_path, ATTACH_SERVE), 0);
    s = open_image(p->image_path);
    assert_int_equal(image_identify(s, &p->table[0]), 0);
    storage_close(s);
    p->table[0].id = 1;
    p->table[0].flags = IMAGE_FLAG_PENDING | IMAGE_FLAG_MARKED;
    memset(p->table[0].uuid, 7, FORMAT_UUID_BYTES);
    p->jf.sb.images = p->table;
    p->jf.sb.image_count = 1;
    p->jf.sb.epoch = 5;
    mark_of(p, &mark);
    put_mark(p->image_path, &mark);
    words_forget();
}

static void free_pair(struct pair *p)
{
    p->jf.sb.images = NULL;
    journal_close(&p->jf);
}

static enum image_match compare_entry(struct pair *p, bool clean, const char *path,
                                      const struct image_entry **known)
{
    struct storage *s = open_image(path);
    struct image_entry now;
    struct image_mark mark;
    enum image_match match;

    assert_int_equal(image_mark_read(s, &mark), 0);
    assert_int_equal(image_identify(s, &now), 0);
    match = image_compare(&p->jf, clean, s, &mark, &now, known);
    storage_close(s);
    return match;
}

static void accepted(struct pair *p, bool clean, const char *path, enum image_match want)
{
    const struct image_entry *known;

    words_forget();
    assert_int_equal(compare_entry(p, clean, path, &known), want);
    if (want == MATCH_NEW)
        assert_null(known);
    else
        assert_ptr_equal(known, &p->table[0]);
    assert_string_equal(words_text(), "");
}

/* Refused, in one line that names both files. */
static void refused(struct pair *p, bool clean, const char *path, const char *words)
{
    const struct image_entry *known;

    words_forget();
    assert_int_equal(compare_entry(p, clean, path, &known), MATCH_REFUSED);
    assert_null(known);
    assert_int_equal(words_count("error:"), 1);
    assert_true(words_contain(path));
    assert_true(words_contain(p->jf.storage->name));
    if (!words_contain(words))
        fail_msg("not said: %s\nbut: %s", words, words_text());
}

static void __attribute__((format(printf, 1, 2))) run(const char *format, ...)
{
    char command[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

/* ---- marks ---- */

static void marks_come_back(void **state)
{
    struct storage *s = open_image(place_file(disk, "marked", 4096));
    struct image_mark mark = {.epoch = UINT32_MAX, .journal_path = "/a b/c\td\n\x7f/e"}, back;
    bool supported;
    char text[200];

    (void)state;
    memset(mark.journal_uuid, 0xab, FORMAT_UUID_BYTES);
    memset(mark.image_uuid, 0x09, FORMAT_UUID_BYTES);
    assert_int_equal(image_mark_read(s, &back), 0);
    assert_false(back.present);
    assert_int_equal(image_mark_remove(s), 0);
    assert_int_equal(image_mark_write(s, &mark, &supported), 0);
    assert_true(supported);
    text[fgetxattr(s->fd, MARK, text, sizeof(text) - 1)] = '\0';
    assert_string_equal(text, "abababab-abab-abab-abab-abababababab "
                              "09090909-0909-0909-0909-090909090909 4294967295 "
                              "/a b/c\td\n\x7f/e");
    assert_int_equal(image_mark_read(s, &back), 0);
    assert_true(back.present);
    assert_memory_equal(back.journal_uuid, mark.journal_uuid, FORMAT_UUID_BYTES);
    assert_memory_equal(back.image_uuid, mark.image_uuid, FORMAT_UUID_BYTES);
    assert_int_equal(back.epoch, UINT32_MAX);
    assert_false(back.is_opening);
    assert_string_equal(back.journal_path, "/a b/c?d?"
                                           "?/e");

    mark.epoch = 12;
    mark.is_opening = true;
    assert_int_equal(image_mark_write(s, &mark, &supported), 0);
    text[fgetxattr(s->fd, MARK, text, sizeof(text) - 1)] = '\0';
    assert_non_null(strstr(text, " 12+ /a b/"));
    assert_int_equal(image_mark_read(s, &back), 0);
    assert_int_equal(back.epoch, 12);
    assert_true(back.is_opening);

    memset(mark.journal_path, 'p', sizeof(mark.journal_path) - 1);
    assert_int_equal(image_mark_write(s, &mark, &supported), 0);
    assert_int_equal(image_mark_read(s, &back), 0);
    assert_int_equal(strlen(back.journal_path), 1000);
    assert_memory_equal(back.journal_path, "...ppp", 6);

    assert_int_equal(image_mark_remove(s), 0);
    assert_int_equal(image_mark_read(s, &back), 0);
    assert_false(back.present);
    storage_close(s);
}

static void unreadable_marks(void **state)
{
    /* behind the journal's uuid */
    static const char *const texts[] = {
        "",
        " 09090909-0909-0909-0909-090909090909",
        " 09090909-0909-0909-0909-090909090909 ",
        " 09090909-0909-0909-0909-090909090909 1",
        " 09090909-0909-0909-0909-090909090909 1 ",
        " 09090909-0909-0909-0909-090909090909 -1 /x",
        " 09090909-0909-0909-0909-090909090909 4294967296 /x",
        " 09090909-0909-0909-0909-090909090909 1++ /x",
        " 09090909-0909-0909-0909-090909090909 + /x",
        " 09090909-0909-0909-0909-09090909090g 1 /x",
        " 09090909-0909-0909-0909-09090909090 1 /x",
        "b09090909-0909-0909-0909-090909090909 1 /x",
    };
    struct storage *s = open_image(place_file(disk, "unreadable", 4096));
    struct image_mark mark;
    struct image_entry entry;
    static char large[3900];
    char text[200];

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        words_forget();
        snprintf(text, sizeof(text), "abababab-abab-abab-abab-abababababab%s", texts[i]);
        assert_int_equal(fsetxattr(s->fd, MARK, text, strlen(text), 0), 0);
        assert_int_equal(image_mark_read(s, &mark), -EUCLEAN);
        assert_false(mark.present);
        assert_int_equal(words_count("error:"), 1);
        assert_true(words_contain("setfattr -x"));
        words_forget();
        assert_int_equal(image_identify(s, &entry), 0);
        assert_string_equal(words_text(), "");
    }
    snprintf(text, sizeof(text), "%s%s", "abababab-abab-abab-abab-abababababab", texts[4]);
    strcat(text, "/x"); /* right so far, but then a NUL follows */
    assert_int_equal(fsetxattr(s->fd, MARK, text, strlen(text), 0), 0);
    assert_int_equal(image_mark_read(s, &mark), 0);
    assert_int_equal(fsetxattr(s->fd, MARK, text, strlen(text) + 1, 0), 0);
    assert_int_equal(image_mark_read(s, &mark), -EUCLEAN);
    assert_int_equal(fsetxattr(s->fd, MARK, "", 0, 0), 0);
    assert_int_equal(image_mark_read(s, &mark), -EUCLEAN);
    memset(large, 'x', sizeof(large));
    assert_int_equal(fsetxattr(s->fd, MARK, large, sizeof(large), 0), 0);
    assert_int_equal(image_mark_read(s, &mark), -EUCLEAN);
    storage_close(s);
}

static void identity(void **state)
{
    const char *path = place_file(disk, "identity", 12345);
    struct storage *s = open_image(path);
    struct image_entry entry;
    struct stat st;

    (void)state;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(image_identify(s, &entry), 0);
    assert_int_equal(entry.kind, IMAGE_FILE);
    assert_int_equal(entry.size, 12345);
    assert_int_equal(entry.inode, st.st_ino);
    assert_string_equal(entry.name, path);
    assert_int_equal(entry.id, 0);
    assert_int_equal(entry.flags, 0);
    storage_close(s);
}

/* The end of a long path, and the whole one whatever the working directory is. */
static void identity_has_the_path(void **state)
{
    char long_path[512], old[4096];
    struct image_entry entry;
    struct storage *s;

    (void)state;
    snprintf(long_path, sizeof(long_path), "%s/%0200d", disk, 7);
    close(open(long_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(truncate(long_path, 1), 0);
    s = open_image(long_path);
    assert_int_equal(image_identify(s, &entry), 0);
    assert_int_equal(strlen(entry.name), FORMAT_NAME_BYTES);
    assert_memory_equal(entry.name, "...000", 6);
    assert_int_equal(entry.name[FORMAT_NAME_BYTES - 1], '7');
    storage_close(s);

    place_file(disk, "relative", 1);
    assert_non_null(getcwd(old, sizeof(old)));
    assert_int_equal(chdir(disk), 0);
    s = open_image("relative");
    assert_int_equal(chdir(old), 0);
    assert_int_equal(image_identify(s, &entry), 0);
    assert_string_equal(entry.name, place_path(disk, "relative"));
    storage_close(s);
}

/* ---- matching ---- */

static void same_pair(void **state)
{
    struct pair p;

    (void)state;
    make_pair(&p, "same");
    accepted(&p, false, p.image_path, MATCH_KNOWN);
    accepted(&p, true, p.image_path, MATCH_KNOWN); /* died between superblock and mark */
    drop_mark(p.image_path);
    accepted(&p, true, p.image_path, MATCH_KNOWN);
    refused(&p, false, p.image_path, "lacks the mark");
    p.table[0].flags = IMAGE_FLAG_PENDING; /* never could be marked */
    accepted(&p, false, p.image_path, MATCH_KNOWN);
    free_pair(&p);
}

static void new_image(void **state)
{
    struct pair p;

    (void)state;
    make_pair(&p, "new");
    p.jf.sb.image_count = 0;
    accepted(&p, true, p.image_path, MATCH_NEW); /* marked, then died before the superblock */
    drop_mark(p.image_path);
    accepted(&p, true, p.image_path, MATCH_NEW);
    accepted(&p, false, p.image_path, MATCH_NEW);
    free_pair(&p);
}

static void resized(void **state)
{
    struct pair p;

    (void)state;
    make_pair(&p, "resized");
    assert_int_equal(truncate(p.image_path, MIB - 1), 0);
    refused(&p, false, p.image_path, "has shrunk: 1048575 bytes");
    assert_true(words_contain("knows it with 1048576 bytes"));
    assert_true(words_contain("truncate -s 1048576 "));
    accepted(&p, true, p.image_path, MATCH_CLEAN);
    assert_int_equal(truncate(p.image_path, MIB + 1), 0);
    refused(&p, false, p.image_path, "has grown: 1048577 bytes");
    accepted(&p, true, p.image_path, MATCH_CLEAN);
    drop_mark(p.image_path);
    accepted(&p, true, p.image_path, MATCH_CLEAN);
    p.table[0].flags = 0;
    refused(&p, false, p.image_path, "has grown");
    free_pair(&p);
}

static void copied_image(void **state)
{
    const char *copy = place_path(disk, "image-copy");
    struct pair p;

    (void)state;
    make_pair(&p, "original");
    run("cp --preserve=all %s %s", p.image_path, copy);
    /* Even when the original was drained since: the copy lacks what was waiting then. */
    refused(&p, false, copy, "is a copy");
    assert_true(words_contain("adopt"));
    assert_true(words_contain("forget"));
    refused(&p, true, copy, "is a copy");
    unlink(copy);
    run("cp %s %s", p.image_path, copy);
    refused(&p, false, copy, "data waits in journal");
    assert_true(words_contain("inode"));
    drop_mark(p.image_path);
    accepted(&p, true, copy, MATCH_CLEAN);

    /* In the place of the original, perhaps with its inode number. */
    free_pair(&p);
    make_pair(&p, "original");
    run("cp %s %s.tmp", p.image_path, p.image_path);
    run("rm %s; cp %s.tmp %s", p.image_path, p.image_path, p.image_path);
    refused(&p, false, p.image_path, "data waits in journal");
    free_pair(&p);
}

static void inode_used_again(void **state)
{
    struct pair p;
    struct image_mark mark;

    (void)state;
    make_pair(&p, "again");
    drop_mark(p.image_path); /* what a new file with the old number looks like */
    refused(&p, false, p.image_path, "lacks the mark");
    mark_of(&p, &mark);
    put_mark(p.image_path, &mark);
    p.table[0].fsid ^= 1; /* device numbers change, the mark tells */
    accepted(&p, false, p.image_path, MATCH_KNOWN);
    p.table[0].inode ^= 1;
    refused(&p, false, p.image_path, "is a copy");
    free_pair(&p);
}

static void moved_file_system(void **state)
{
    struct pair p;

    (void)state;
    make_pair(&p, "unmarked");
    drop_mark(p.image_path);
    p.table[0].flags = 0;
    p.table[0].fsid ^= 1; /* no mark, so only the numbers count */
    refused(&p, false, p.image_path, "data waits in journal");
    accepted(&p, true, p.image_path, MATCH_CLEAN);
    free_pair(&p);
}

static void foreign_journal(void **state)
{
    struct pair p, other;
    char uuid[37];

    (void)state;
    make_pair(&p, "mine");
    make_pair(&other, "theirs");
    refused(&p, false, other.image_path, "belongs to another journal");
    assert_true(words_contain(other.journal_path));
    format_uuid_text(other.jf.sb.uuid, uuid);
    assert_true(words_contain(uuid));
    format_uuid_text(p.jf.sb.uuid, uuid);
    assert_true(words_contain(uuid));
    refused(&p, true, other.image_path, "belongs to another journal");
    p.jf.sb.image_count = 0;
    refused(&p, true, other.image_path, "belongs to another journal");
    p.jf.sb.image_count = 1;

    /* Two clean pairs, crossed: nothing waits anywhere. */
    drop_mark(other.image_path);
    accepted(&p, true, other.image_path, MATCH_CLEAN);
    refused(&p, false, other.image_path, "data waits in journal");
    assert_true(words_contain(p.image_path)); /* both identities */
    free_pair(&p);
    free_pair(&other);
}

static void restored_from_a_copy(void **state)
{
    struct pair p;
    struct image_mark mark;

    (void)state;
    make_pair(&p, "restored");
    mark_of(&p, &mark);
    mark.epoch = 6; /* died before the superblock of the new epoch */
    mark.is_opening = true;
    put_mark(p.image_path, &mark);
    accepted(&p, false, p.image_path, MATCH_KNOWN);
    accepted(&p, true, p.image_path, MATCH_KNOWN);
    mark.epoch = 5; /* or right behind it */
    put_mark(p.image_path, &mark);
    accepted(&p, false, p.image_path, MATCH_KNOWN);
    mark.epoch = 7;
    put_mark(p.image_path, &mark);
    refused(&p, true, p.image_path, "epoch 7, the journal is at 5");

    /* A copy of the journal of just before this epoch, clean or not. */
    mark.epoch = 6;
    mark.is_opening = false;
    put_mark(p.image_path, &mark);
    for (int clean = 0; clean < 2; clean++) {
        refused(&p, clean, p.image_path, "epoch 6, the journal is at 5");
        assert_true(words_contain("error: journal "));
        assert_true(words_contain("restored from a copy?"));
    }
    p.jf.slots_valid = 1;
    refused(&p, false, p.image_path, "one of its superblocks is damaged");
    p.jf.slots_valid = 2;
    mark.epoch = 4;
    put_mark(p.image_path, &mark);
    for (int clean = 0; clean < 2; clean++) {
        refused(&p, clean, p.image_path, "epoch 4, the journal is at 5");
        assert_true(words_contain("error: image "));
    }
    mark.epoch = 0; /* not known */
    put_mark(p.image_path, &mark);
    accepted(&p, false, p.image_path, MATCH_KNOWN);
    mark.epoch = 5;
    mark.image_uuid[0] ^= 1;
    put_mark(p.image_path, &mark);
    refused(&p, false, p.image_path, "which does not know it");
    refused(&p, true, p.image_path, "which does not know it");
    free_pair(&p);
}

static void copied_journal(void **state)
{
    const char *copy = place_path(disk, "journal-copy");
    char original[512];
    struct pair p;

    (void)state;
    make_pair(&p, "twin");
    snprintf(original, sizeof(original), "%s", p.journal_path);
    run("cp %s %s", p.journal_path, copy);
    storage_close(p.jf.storage);
    assert_int_equal(storage_open_file(&p.jf.storage, copy, "journal", false, false, true), 0);
    refused(&p, false, p.image_path, "is a copy of that one");
    refused(&p, true, p.image_path, "is a copy of that one");

    /* Moved, not copied: nothing is left in the old place, or something else, or a link. */
    assert_int_equal(unlink(original), 0);
    accepted(&p, false, p.image_path, MATCH_KNOWN);
    assert_int_equal(symlink(copy, original), 0);
    accepted(&p, false, p.image_path, MATCH_KNOWN);
    assert_int_equal(unlink(original), 0);
    assert_int_equal(journal_create_file(original, MIB, false), 0);
    accepted(&p, false, p.image_path, MATCH_KNOWN);
    assert_int_equal(unlink(original), 0);
    assert_int_equal(mkfifo(original, 0600), 0);
    accepted(&p, false, p.image_path, MATCH_KNOWN);
    free_pair(&p);
}

static int setup(void **state)
{
    (void)state;
    words_forget();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(marks_come_back, setup),
        cmocka_unit_test_setup(unreadable_marks, setup),
        cmocka_unit_test_setup(identity, setup),
        cmocka_unit_test_setup(identity_has_the_path, setup),
        cmocka_unit_test_setup(same_pair, setup),
        cmocka_unit_test_setup(new_image, setup),
        cmocka_unit_test_setup(resized, setup),
        cmocka_unit_test_setup(copied_image, setup),
        cmocka_unit_test_setup(inode_used_again, setup),
        cmocka_unit_test_setup(moved_file_system, setup),
        cmocka_unit_test_setup(foreign_journal, setup),
        cmocka_unit_test_setup(restored_from_a_copy, setup),
        cmocka_unit_test_setup(copied_journal, setup),
    };

    words_begin();
    disk = place_make(NULL);
    if (setxattr(place_file(disk, "probe", 1), MARK, "x", 1, 0) == -1) {
        printf("skip: no user attributes on files in %s\n", disk);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
