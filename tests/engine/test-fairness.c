/* P8: who writes a lot does not starve who writes a little: space in the ring is given out by bytes,
 * client by client, and not in order of arrival. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "served.h"
#include "stats.h"

#define DISK (4u << 20)
#define JOURNAL (1u << 20)
#define STREAM 65536u
#define SMALL 8192u
#define WRITERS 40u
#define WAITING 6u

static int setup(void **state)
{
    return files_make(state, DISK, JOURNAL);
}

static struct engine *engine;
static unsigned started;
static atomic_uint answered;

struct writer {
    pthread_t thread;
    struct engine_client who;
    uint64_t offset;
    uint32_t count;
};

/* Records that are written into the ring from the release on, each at its place in it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool released;
static struct placed {
    uint64_t offset;
    uint64_t count;
} placed[WRITERS];
static unsigned placed_count;

static void note(void *opaque, enum faulty_op op, uint64_t offset, uint64_t count)
{
    (void)opaque;
    pthread_mutex_lock(&lock);
    /* Not superblocks, pads and the first lap. */
    count -= FORMAT_RECORD_BYTES;
    if (op == FAULTY_WRITE && released && (count == STREAM || count == SMALL)) {
        CHECK(placed_count < WRITERS);
        placed[placed_count++] = (struct placed){offset, count};
    }
    pthread_mutex_unlock(&lock);
}

static int by_offset(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;

    return x->offset < y->offset ? -1 : 1;
}

/* How many records were admitted before the small one: its place among those after the release,
 * which are neighbours, perhaps around the ring's end. */
static unsigned admitted_before_small(void)
{
    unsigned first = 0, i;

    qsort(placed, placed_count, sizeof(placed[0]), by_offset);
    for (i = 1; i < placed_count; i++) {
        if (placed[i].offset - placed[i - 1].offset - placed[i - 1].count > JOURNAL / 4)
            first = i;
    }
    for (i = 0; placed[(first + i) % placed_count].count > STREAM / 2; i++)
        CHECK(i < placed_count);
    return i;
}

static void *write_once(void *arg)
{
    struct writer *w = arg;
    uint8_t *bytes = calloc(1, w->count);

    CHECK(engine_write(served_disk(engine), bytes, w->count, w->offset, false, &w->who) == 0);
    free(bytes);
    atomic_fetch_add(&answered, 1);
    return NULL;
}

static unsigned waiting(void)
{
    struct snapshot s;
    unsigned count;

    CHECK(engine_snapshot(engine, &s) == 0);
    count = s.waiting;
    snapshot_free(&s);
    return count;
}

static bool is_answered_or_waits(void *opaque)
{
    (void)opaque;
    return atomic_load(&answered) + waiting() == started;
}

static void start(struct writer *w, uint64_t client, uint32_t count)
{
    *w = (struct writer){.who = {.client = client, .connection = client},
                         .offset = (uint64_t)started * STREAM,
                         .count = count};
    assert_int_equal(pthread_create(&w->thread, NULL, write_once, w), 0);
    started++;
    eventually(is_answered_or_waits, NULL);
}

static void test_small_beside_stream(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct writer writers[WRITERS];
    unsigned count = 0, late;

    engine = files_serve_faulty(files, &journal, &image);
    faulty_watch(journal, note, NULL);
    faulty_block(image, FAULTY_WRITE);
    do {
        assert_true(count < WRITERS - 1);
        start(&writers[count++], 1, STREAM);
    } while (waiting() < WAITING);
    start(&writers[count++], 2, SMALL);
    /* There may be space for it at once. */
    late = waiting() - WAITING;
    pthread_mutex_lock(&lock);
    released = true;
    pthread_mutex_unlock(&lock);
    faulty_release(image, FAULTY_WRITE);
    for (unsigned i = 0; i < count; i++)
        pthread_join(writers[i].thread, NULL);
    assert_int_equal(placed_count, WAITING + late);
    if (late > 0)
        assert_in_range(admitted_before_small(), 0, 1);
    served_stop(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_small_beside_stream, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
