/* served: see served.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "place.h"
#include "served.h"

int files_make(void **state, uint64_t image_bytes, uint64_t journal_bytes)
{
    struct files *files = calloc(1, sizeof(*files));
    const char *place = place_make(NULL);

    CHECK(files != NULL);
    words_begin();
    snprintf(files->image, sizeof(files->image), "%s", place_file(place, "disk", image_bytes));
    snprintf(files->journal, sizeof(files->journal), "%s", place_path(place, "disk.journal"));
    files->config = (struct engine_config){
        .image_path = files->image,
        .journal_size = journal_bytes,
        .recover = ENGINE_RECOVER_YES,
        .commit_interval_s = 3600,
        .memory_bytes = 64u << 20,
    };
    *state = files;
    return 0;
}

void drop_staging(const char *journal)
{
    uint8_t uuid[FORMAT_UUID_BYTES];
    char path[100], text[37];
    int fd = open(journal, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    for (int slot = 0; slot < 2; slot++) {
        if (pread(fd, uuid, sizeof(uuid), slot * FORMAT_SUPER_BYTES + 16) == sizeof(uuid)) {
            format_uuid_text(uuid, text);
            snprintf(path, sizeof(path), "/dev/shm/nbdkit-journal-%s", text);
            unlink(path);
        }
    }
    close(fd);
}

int files_drop(void **state)
{
    struct files *files = *state;

    drop_staging(files->journal);
    unlink(files->journal);
    unlink(files->image);
    free(files);
    return 0;
}

struct engine_disk *served_disk(struct engine *e)
{
    static _Atomic(struct engine_disk *) last;
    struct engine_disk *d;
    int r = engine_disk_open(e, "", true, &d);

    if (r == -ESHUTDOWN) /* it stops; the disk is there until it is closed */
        return last;
    CHECK(r == 0);
    engine_disk_close(d); /* with file= it stays */
    last = d;
    return d;
}

int served_activate(struct engine *e)
{
    struct engine_disk *d;
    int r = engine_disk_open(e, "", false, &d);

    if (r < 0)
        return r;
    engine_disk_close(d);
    return engine_disk_read_only(d) ? -EROFS : 0;
}

struct engine *files_serve(const struct files *files)
{
    struct engine *e;

    CHECK(engine_open(&e, &files->config) == 0);
    CHECK(engine_start(e) == 0);
    CHECK(served_activate(e) == 0);
    return e;
}

int files_open_faulty(const struct files *files, struct engine **e, struct storage **journal,
                      struct storage **image)
{
    if (access(files->journal, F_OK) != 0)
        CHECK(journal_create_file(files->journal, files->config.journal_size, false) == 0);
    CHECK(storage_open_file(image, files->image, "image", false, false, true) == 0);
    CHECK(storage_open_file(journal, files->journal, "journal", false, false, true) == 0);
    *image = faulty_create(*image, false);
    *journal = faulty_create(*journal, false);
    CHECK(*image != NULL && *journal != NULL);
    return engine_open_storages(e, &files->config, *journal, *image);
}

struct engine *files_serve_faulty(const struct files *files, struct storage **journal,
                                  struct storage **image)
{
    struct engine *e;

    CHECK(files_open_faulty(files, &e, journal, image) == 0);
    CHECK(engine_start(e) == 0);
    CHECK(served_activate(e) == 0);
    return e;
}

void served_stop(struct engine *e)
{
    CHECK(engine_stop(e, 60) == 0);
    engine_close(e);
}

/* ---- comparing ---- */

static void compare(const uint8_t *got, const uint8_t *wanted, size_t count, uint64_t at)
{
    if (memcmp(got, wanted, count) == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        if (got[i] != wanted[i])
            fail_msg("byte %llu is %02x, should be %02x", (unsigned long long)(at + i), got[i],
                     wanted[i]);
    }
}

void assert_file(const char *path, const uint8_t *model, size_t count)
{
    uint8_t buf[65536];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, count);
    for (size_t at = 0; at < count;) {
        ssize_t n = pread(fd, buf, sizeof(buf), at);
        assert_true(n > 0);
        compare(buf, model + at, n, at);
        at += n;
    }
    close(fd);
}

void assert_disk(struct engine *e, const uint8_t *model, size_t count)
{
    uint8_t *buf = malloc(1 << 20);

    assert_non_null(buf);
    assert_int_equal(engine_disk_size(served_disk(e)), count);
    for (size_t at = 0; at < count;) {
        size_t n = count - at < 1 << 20 ? count - at : 1 << 20;
        assert_int_equal(engine_read(served_disk(e), buf, n, at), 0);
        compare(buf, model + at, n, at);
        at += n;
    }
    free(buf);
}

uint8_t *file_bytes(const char *path, size_t *count)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *bytes;

    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    bytes = malloc(st.st_size);
    CHECK(bytes != NULL && pread(fd, bytes, st.st_size, 0) == st.st_size);
    close(fd);
    *count = st.st_size;
    return bytes;
}

uint64_t random_next(uint64_t *state)
{
    /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void eventually(bool (*done)(void *opaque), void *opaque)
{
    for (int i = 0; i < 6000; i++) {
        if (done(opaque))
            return;
        usleep(10000);
    }
    fail_msg("it did not happen");
}
