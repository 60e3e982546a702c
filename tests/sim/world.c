/* world: what a seed chooses, the lives, the order of steps.  See world.h. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "world.h"

/* A life that takes that many steps without ending is one that waits for itself (P8). */
#define LIFE_STEPS_MAX 200000

const struct world *world_current;

void story(const struct world *w, const char *format, ...)
{
    va_list args;

    if (!w->verbose)
        return;
    printf("%llu.%u ", (unsigned long long)w->event, w->life);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void world_fail(struct world *w, const char *promise, const char *state, const char *format,
                ...)
{
    va_list args;

    if (w->failed)
        return;
    w->failed = true;
    fflush(stdout);
    printf("FAIL %s: ", promise);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf(" (life %u, event %llu)\n", w->life, (unsigned long long)w->event);
    if (w->scripted != NULL)
        printf("replay: %s", w->scripted);
    else
        printf("replay: sim --seed %llu", (unsigned long long)w->seed);
    printf(" --event %llu%s%s -v\n", (unsigned long long)w->event,
           state != NULL ? " --state " : "", state != NULL ? state : "");
    fflush(stdout);
}

unsigned world_image_number(const struct world *w, const struct core_image *image)
{
    for (unsigned i = 0; i < w->setup.image_count; i++) {
        if (w->core_images[i] == image)
            return i;
    }
    assert(!"an image of this world");
    return 0;
}

/* ---- what the seed chooses ---- */

static size_t choose_image_size(struct rng *rng)
{
    static const size_t odd[] = {1, 511, 512, 513, 4095, 4096, 4097, 10000};
    static const size_t usual[] = {4096, 8192, 12288, 16384, 24576, 32768};

    if (rng_chance(rng, 30))
        return odd[rng_below(rng, sizeof(odd) / sizeof(odd[0]))];
    return usual[rng_below(rng, sizeof(usual) / sizeof(usual[0]))];
}

static uint64_t choose_ring(struct rng *rng, uint32_t sector)
{
    uint64_t bytes = sector == 512 ? 32768 : 65536;

    if (rng_chance(rng, 25))
        bytes *= 2;
    if (rng_chance(rng, 30)) /* a ring need not be a round number */
        bytes += sector * rng_range(rng, 1, 7);
    return bytes;
}

static void choose_load(struct world_setup *setup, struct rng *rng)
{
    static const unsigned weights[][5] = {
        /* write, trim, zero, flush, read */
        {50, 10, 10, 15, 15}, {70, 2, 2, 20, 6},  {30, 20, 20, 10, 20},
        {85, 3, 2, 2, 8},     {40, 5, 5, 40, 10}, {40, 10, 5, 5, 40},
    };

    memcpy(setup->weight, weights[rng_below(rng, 6)], sizeof(setup->weight));
    setup->size_profile = rng_below(rng, 4);
    setup->hot_percent = rng_chance(rng, 50) ? 80 : 10;
    setup->fua_percent = rng_chance(rng, 50) ? 0 : rng_range(rng, 5, 60);
    setup->commit_percent = rng_chance(rng, 50) ? 1 : 10;
    setup->drain_percent = rng_chance(rng, 50) ? 1 : 10;
    setup->prewrite_percent = 10;
    setup->eager_percent = rng_chance(rng, 50) ? 100 : 3;
}

/* Who dawdles while others go once around the ring. */
static void choose_lap(struct world_setup *setup, struct rng *rng)
{
    setup->slow_reads = rng_chance(rng, 50);
    setup->slow_prewrites = !setup->slow_reads;
    setup->ring_bytes = setup->sector_bytes == 512 ? 32768 : 65536;
    setup->size_profile = 2;
    setup->client_count = rng_range(rng, 2, 4);
    setup->life_steps = 1500;
    setup->check_percent = 8;
    setup->restless = false;
    for (unsigned i = 0; i < setup->image_count; i++) {
        if (setup->image_size[i] < 8192)
            setup->image_size[i] = 8192;
    }
}

/* A few requests, and every subset of what is not flushed. */
static void choose_tiny(struct world_setup *setup, struct rng *rng)
{
    setup->listed_max = 1024;
    setup->image_count = 1;
    setup->image_size[0] = rng_range(rng, 1, 8192);
    setup->client_count = rng_range(rng, 1, 2);
    setup->size_profile = 0;
    setup->life_steps = 60;
    setup->lives = rng_range(rng, 2, 4);
    setup->restless = false;
    setup->check_percent = 100;
}

static void choose_setup(struct world_setup *setup, struct rng *rng)
{
    bool small = rng_chance(rng, 30);

    setup->sector_bytes = rng_chance(rng, 60) ? 512 : 4096;
    setup->ring_bytes = choose_ring(rng, setup->sector_bytes);
    /* Half of the ring, and room for the core to submit whole sectors. */
    if (rng_chance(rng, 25))
        setup->staging_bytes = setup->sector_bytes == 512 ? 16384 : 32768;
    setup->map_bytes = 1 << 20;
    if (rng_chance(rng, 15)) /* a few dozen versions */
        setup->map_bytes = rng_range(rng, 12, 60) * sizeof(struct version);
    setup->restless = rng_chance(rng, 40);
    /* With several images there is always room for an EPOCH record. */
    setup->image_count =
        rng_chance(rng, setup->restless ? 75 : 50) ? 1 : rng_range(rng, 2, MODEL_IMAGES);
    for (unsigned i = 0; i < setup->image_count; i++)
        setup->image_size[i] = choose_image_size(rng);
    setup->client_count = small ? rng_range(rng, 1, 2) : rng_range(rng, 1, WORLD_CLIENTS);
    setup->listed_max = 40;
    setup->nap_percent = rng_below(rng, 3);
    setup->lives = setup->restless ? rng_range(rng, 6, 16) : rng_range(rng, 3, 8);
    setup->life_steps = small ? 60 : rng_range(rng, 50, rng_chance(rng, 15) ? 4000 : 600);
    choose_load(setup, rng);
    if (setup->restless)
        setup->eager_percent = 2;
    if (small)
        setup->size_profile = 0;
    setup->check_percent = small ? 100 : setup->life_steps <= 600 ? 25 : 8;
    setup->fault = FAULT_NONE;
    if (rng_chance(rng, 30)) {
        static const enum fault_kind faults[] = {FAULT_JOURNAL_BARRIER, FAULT_JOURNAL_BARRIER,
                                                 FAULT_JOURNAL_WRITE,   FAULT_IMAGE_BARRIER,
                                                 FAULT_IMAGE_BARRIER,   FAULT_IMAGE_WRITE};
        setup->fault = faults[rng_below(rng, 6)];
    }
    if (setup->image_count > 1 && rng_chance(rng, 30))
        setup->fault = FAULT_IMAGE_SICK;
    if (rng_chance(rng, 30))
        choose_lap(setup, rng);
    else if (rng_chance(rng, 12))
        choose_tiny(setup, rng);
}

/* From numbers of its own: worlds without it are what they were before there was any. */
static void choose_bypass(struct world_setup *setup, uint64_t seed)
{
    static const uint64_t sizes[] = {64, 300, 512, 1000, 2048, 4096};
    struct rng rng = rng_stream(seed, 1, 1);

    if (!rng_chance(&rng, 40))
        return;
    setup->bypass_bytes = sizes[rng_below(&rng, 6)];
    /* A bypass needs a range of which the journal says nothing: it is drained often. */
    if (rng_chance(&rng, 70)) {
        setup->drain_percent = rng_range(&rng, 10, 60);
        setup->eager_percent = 100;
        setup->hot_percent = 10;
    }
    for (unsigned i = 0; i < setup->image_count; i++) {
        if (rng_chance(&rng, 50))
            setup->image_size[i] += rng_range(&rng, 0, 24576);
    }
    if (rng_chance(&rng, 25))
        setup->fault = FAULT_IMAGE_BARRIER;
    setup->bypass_part = 1024 + setup->bypass_bytes * rng_range(&rng, 1, 8); /* WORLD_PARTS */
}

/* A journal as it is after a clean stop, somewhere in its life; images with something in them. */
static void make_disks(struct world *w)
{
    static const char *const names[] = {"image 0", "image 1", "image 2"};
    struct world_setup *setup = &w->setup;
    struct superblock sb = {
        .sector_bytes = setup->sector_bytes,
        .super_bytes = w->super_bytes,
        .ring_start = w->ring_start,
        .ring_bytes = setup->ring_bytes,
        .generation = rng_range(&w->rng, 1, 9),
        .state = SUPER_STATE_CLEAN,
        .next_image_id = 1,
    };
    uint8_t *bytes = memory_get(w->super_bytes);

    if (!setup->slow_prewrites && rng_chance(&w->rng, 50)) { /* not its first lap */
        sb.epoch = rng_range(&w->rng, 1, 1000000);
        sb.tail.epoch = sb.epoch;
        sb.tail.position =
            setup->ring_bytes *
                rng_range(&w->rng, 1, UINT64_C(1) << rng_range(&w->rng, 2, 40)) +
            setup->sector_bytes * rng_below(&w->rng, setup->ring_bytes / setup->sector_bytes);
        sb.tail.lsn = rng_chance(&w->rng, 50) ? (UINT64_C(1) << 32) - rng_below(&w->rng, 300)
                                              : rng_below(&w->rng, UINT64_C(1) << 50);
        if (w->scripted == NULL &&
            rng_chance(&w->rng, 4)) { /* the last ones: writing ends with an error */
            sb.tail.lsn = FORMAT_LSN_MAX - rng_below(&w->rng, 4000);
            w->setup.last_lsns = true;
        }
        sb.tail.chain = rng_next(&w->rng);
        sb.ring_written = setup->ring_bytes;
        w->lsn_max = sb.tail.lsn;
    } else if (rng_chance(&w->rng, 50)) {
        sb.ring_written = setup->sector_bytes * rng_range(&w->rng, 1, 8);
    }
    for (unsigned i = 0; i < FORMAT_UUID_BYTES; i++)
        sb.uuid[i] = rng_next(&w->rng);
    w->sum_seed = format_seed(sb.uuid);
    format_super_encode(&sb, bytes);
    disk_init(&w->journal, "journal", w->ring_start + setup->ring_bytes);
    disk_fill(&w->journal, sb.generation % 2 * w->super_bytes, bytes, w->super_bytes);
    free(bytes);

    model_init(&w->model, setup->image_count, setup->image_size);
    for (unsigned i = 0; i < setup->image_count; i++) {
        struct image_entry *entry = &w->entries[i];

        disk_init(&w->images[i], names[i], setup->image_size[i]);
        disk_fill(&w->images[i], 0, w->model.base + w->model.image_at[i], setup->image_size[i]);
        *entry =
            (struct image_entry){.id = i + 1, .kind = IMAGE_FILE, .size = setup->image_size[i]};
        entry->uuid[0] = i + 1;
    }
}

/* ---- lives ---- */

static void life_reset(struct world *w)
{
    w->life_step = 0;
    w->tool = w->scripted == NULL && rng_chance(&w->rng, 6);
    w->quiet = w->tool;
    w->stopped_clean = false;
    w->journal_barrier = NULL;
    w->commits_ended = 0;
    memset(w->nap_until, 0, sizeof(w->nap_until));
    w->schedule = rng_below(&w->rng, 3);
    w->activator.state = ACTIVATOR_WAIT;
    w->stopper = (struct stopper){.state = STOPPER_NONE};
    w->fault_countdown = 0;
    w->sick_image = rng_below(&w->rng, w->setup.image_count);
    w->sick_from = w->event + rng_below(&w->rng, 200);
    w->sick_to = w->sick_from + rng_below(&w->rng, 2000);
    w->had_fault = false;
    memset(w->known_lost, 0, sizeof(w->known_lost));
    if (w->setup.fault != FAULT_NONE && rng_chance(&w->rng, 60)) {
        bool barrier =
            w->setup.fault == FAULT_JOURNAL_BARRIER || w->setup.fault == FAULT_IMAGE_BARRIER;
        w->fault_countdown = rng_range(&w->rng, 1, barrier ? 4 : 50);
    }
    w->fault_repeats = rng_chance(&w->rng, 30);
    for (unsigned i = 0; i < w->setup.client_count; i++)
        client_start(w, &w->clients[i], i);
}

/* A server starts.  What it finds has been checked by who ended the life before. */
bool world_life_start(struct world *w)
{
    struct recovered found;
    const uint8_t *journal;
    uint8_t *room;
    int error = 0;
    bool ok;

    life_reset(w);
    disk_drop_cache(&w->journal); /* recovery reads past the page cache (DESIGN 5.5) */
    for (unsigned i = 0; i < w->setup.image_count; i++)
        disk_drop_cache(&w->images[i]);
    room = memory_get(w->journal.size);
    journal = recover_after_kill(w, NULL, room);
    ok = recover_open(w, NULL, journal, &found);
    w->shm.attached = journal == room;
    w->shm.tail = found.sb_tail.position;
    free(room);
    if (!ok)
        return false;
    w->shm.ignored = !w->shm.attached && (w->shm.exists || w->shm.ignored);
    w->shm.exists = w->shm.attached;
    w->core = found.core;
    for (unsigned i = 0; i < w->setup.image_count; i++) {
        const struct core_image *known = core_image_find(w->core, w->entries[i].id);

        w->model.image_uncovered[i] = !found.clean && known != NULL &&
                                      (core_image_entry(known)->flags & IMAGE_FLAG_BYPASS);
        w->core_images[i] = core_image_add(w->core, &w->entries[i], &error);
        if (w->core_images[i] == NULL ||
            core_image_entry(w->core_images[i])->id != w->entries[i].id) {
            world_fail(w, "plan", NULL, "core_image_add: %s", strerror(-error));
            return false;
        }
    }
    w->counts->lives++;
    w->counts->replays += w->tool;
    story(w, "life %u begins: %llu records, cut at lsn %llu%s", w->life,
          (unsigned long long)found.result.records, (unsigned long long)found.result.cut.lsn,
          found.clean ? ", clean" : "");
    return true;
}

/* The process is dead: the core's memory is given back. */
static void life_abandon(struct world *w)
{
    if (w->core == NULL)
        return;
    core_abort(w->core, -EIO);
    for (unsigned i = 0; i < w->setup.client_count; i++)
        client_abandon(w, &w->clients[i]);
    sync_job_abandon(w, &w->committer);
    w->image_flusher.state = IMAGE_JOB_NONE;
    sync_job_abandon(w, &w->stopper.sync);
    checkpointer_abandon(w);
    prewriter_abandon(w);
    activator_abandon(w);
    core_destroy(w->core);
    w->core = NULL;
}

static void end_by_kill(struct world *w, struct check *check)
{
    uint32_t k;

    story(w, "kill -9");
    w->counts->kills++;
    check_kill(check, w, &k);
    if (w->failed)
        return;
    model_crash(&w->model, k, false, check_shown_last(check));
    story(w, "%u changes are there", k);
}

static void end_by_power_cut(struct world *w, struct check *check)
{
    uint32_t k;

    story(w, "power cut");
    w->counts->power_cuts++;
    check_power_cut(check, w, &k);
    if (w->failed)
        return;
    model_crash(&w->model, k, true, check_shown_last(check));
    story(w, "%u changes are there", k);
    disk_power_cut(&w->journal);
    for (unsigned i = 0; i < w->setup.image_count; i++)
        disk_power_cut(&w->images[i]);
    shm_remove(&w->shm);
    w->boot++;
}

static void end_by_stop(struct world *w, struct check *check)
{
    w->counts->stops++;
    shm_remove(&w->shm);
    for (unsigned i = 0; i < w->setup.image_count; i++) {
        if (w->model.image_lost[i])
            world_fail(w, "P5", NULL, "a clean stop though image %u is lost", i);
        model_image_flushed(&w->model, i, w->model.stamp);
    }
    check_stopped(check, w);
    if (!w->failed)
        model_flush_answered(&w->model, w->model.count);
}

void world_life_end(struct world *w, struct check *check, enum fate fate)
{
    struct core_stats stats;

    core_stats_get(w->core, &stats);
    w->counts->aborts += stats.aborted;
    life_abandon(w);
    if (fate == FATE_STOP && w->stopped_clean)
        end_by_stop(w, check);
    else if (fate == FATE_STOP) /* it left something: the same as a kill */
        fate = FATE_KILL;
    if (!w->failed && (fate == FATE_POWER || (fate == FATE_STOP && rng_chance(&w->rng, 30))))
        end_by_power_cut(w, check);
    else if (!w->failed && fate == FATE_KILL)
        end_by_kill(w, check);
    w->life++;
}

void world_resize(struct world *w, unsigned image, size_t size)
{
    story(w, "image %u: %zu bytes", image, size);
    w->setup.image_size[image] = size;
    w->entries[image].size = size;
    disk_resize(&w->images[image], size);
    w->checked_sequence[1 + image] = w->images[image].sequence;
    /* After the last lsn: the model's changes are in their order. */
    model_resize(&w->model, image, size, w->lsn_max);
    w->checkpointer.bytes = memory_resize(w->checkpointer.bytes, w->model.state_bytes);
    for (unsigned i = 0; i < WORLD_CLIENTS; i++) {
        client_free(&w->clients[i]); /* their buffers grow with the next life */
        w->clients[i].payload = w->clients[i].bytes = NULL;
        w->clients[i].floors = NULL;
    }
}

/* ---- steps ---- */

/* Whoever is not a client. */
enum {
    ACTOR_COMMITTER,
    ACTOR_CHECKPOINTER,
    ACTOR_PREWRITER,
    ACTOR_ACTIVATOR,
    ACTOR_STOPPER,
    ACTORS
};
_Static_assert(ACTORS + WORLD_CLIENTS == WORLD_ACTORS, "all who take steps");

static enum job_result actor_step(struct world *w, unsigned actor)
{
    if (w->event < w->nap_until[actor])
        return JOB_WAITS;
    switch (actor) {
    case ACTOR_COMMITTER:
        return committer_step(w);
    case ACTOR_CHECKPOINTER:
        return checkpointer_step(w);
    case ACTOR_PREWRITER:
        return prewriter_step(w);
    case ACTOR_ACTIVATOR:
        return activator_step(w);
    case ACTOR_STOPPER:
        return stopper_step(w);
    default:
        return client_step(w, &w->clients[actor - ACTORS]);
    }
}

static unsigned choose_actor(struct world *w, unsigned count)
{
    unsigned best = 0;

    switch (w->schedule) {
    case SCHEDULE_STICKY: /* long runs of one actor */
        return rng_chance(&w->rng, 80) ? w->last_actor % count : rng_below(&w->rng, count);
    case SCHEDULE_PRIORITY: /* some starve for a while */
        if (rng_chance(&w->rng, 3) || w->life_step == 0) {
            for (unsigned i = 0; i < count; i++)
                w->priority[i] = rng_below(&w->rng, 1000);
        }
        for (unsigned i = 1; i < count; i++) {
            if (w->priority[i] > w->priority[best])
                best = i;
        }
        return best;
    case SCHEDULE_UNIFORM:
        break;
    }
    return rng_below(&w->rng, count);
}

static bool is_reading(const struct world *w, unsigned actor)
{
    return actor >= ACTORS && w->clients[actor - ACTORS].state == CLIENT_READ;
}

/* A thread may be held up anywhere, for as long as others take for a lap of the ring. */
static void stepped(struct world *w, unsigned actor)
{
    uint64_t longest = rng_chance(&w->rng, 50) ? 60 : 600;
    unsigned percent = w->setup.nap_percent;

    w->last_actor = actor;
    if (w->setup.slow_reads && is_reading(w, actor)) {
        longest = 2000;
        percent = 25;
    } else if (w->setup.slow_prewrites && actor == ACTOR_PREWRITER) {
        longest = 400;
        percent = 25;
    }
    if (rng_chance(&w->rng, percent))
        w->nap_until[actor] = w->event + rng_range(&w->rng, 10, longest);
}

/* One step of one actor that can take one.  False: nobody can. */
static bool step(struct world *w)
{
    unsigned count = ACTORS + w->setup.client_count;
    unsigned first = choose_actor(w, count), start = rng_below(&w->rng, count);

    w->touched = false;
    w->event++;
    if (actor_step(w, first) != JOB_WAITS) {
        stepped(w, first);
        return true;
    }
    for (unsigned i = 0; i < count; i++) {
        unsigned actor = (start + i) % count;

        if (actor != first && actor_step(w, actor) != JOB_WAITS) {
            stepped(w, actor);
            return true;
        }
    }
    return false;
}

/* Nobody took a step: that some actors had no wish to is chance, so they are asked again. */
#define IDLE_ROUNDS 5000

static bool step_or_wait(struct world *w)
{
    for (unsigned round = 0; round < IDLE_ROUNDS && !w->failed; round++) {
        if (step(w))
            return true;
    }
    return false;
}

static void after_step(struct world *w, struct check *check)
{
    w->counts->steps++;
    w->life_step++;
    /* After a failed barrier the page cache may forget what it pretends to hold. */
    if ((w->setup.fault == FAULT_IMAGE_BARRIER ||
         (w->io_fault.disk != NULL && w->io_fault.kind == IO_LIES)) &&
        rng_chance(&w->rng, 5)) {
        for (unsigned i = 0; i < w->setup.image_count; i++)
            disk_drop_cache(&w->images[i]);
    }
    if (w->touched || w->checked_bounds != w->model.bounds) {
        w->counts->events++;
        check_event(check, w);
    }
}

bool world_step(struct world *w, struct check *check)
{
    if (!step_or_wait(w))
        return false;
    after_step(w, check);
    return true;
}

static enum fate choose_fate(struct world *w)
{
    unsigned pick = rng_below(&w->rng, 100);

    return pick < 40 ? FATE_KILL : pick < 80 ? FATE_POWER : FATE_STOP;
}

static void begin_stop(struct world *w)
{
    w->quiet = true;
    if (w->activator.state == ACTIVATOR_DONE)
        w->stopper.state = STOPPER_QUIET;
    else
        w->stopper.state = STOPPER_DONE; /* nothing was modified */
}

/* A stop may take its time, but it must come to an end.  While several images fail nearly always, those
 * who wait for space may have to wait for them to be mended: they are, after half of that time. */
void world_stop(struct world *w, struct check *check)
{
    begin_stop(w);
    while (!w->failed && w->stopper.state != STOPPER_DONE) {
        if (w->life_step > LIFE_STEPS_MAX / 2)
            w->fault_countdown = 0;
        if (!world_step(w, check)) {
            world_fail(w, "P8", NULL, "the stop waits for itself");
            return;
        }
        if (w->life_step > LIFE_STEPS_MAX)
            world_fail(w, "P8", NULL, "the stop does not end");
    }
    if (!w->failed && w->activator.state == ACTIVATOR_DONE && !w->stopped_clean &&
        !core_aborted(w->core) && w->checkpointer.error == 0)
        world_fail(w, "P5", NULL, "a stop without any error did not drain the journal");
}

static bool somebody_has_no_space(const struct world *w)
{
    for (unsigned i = 0; i < w->setup.client_count; i++) {
        if (w->clients[i].state == CLIENT_SPACE)
            return true;
    }
    return false;
}

static void run_life(struct world *w, struct check *check)
{
    uint64_t steps = rng_range(&w->rng, 1, w->setup.life_steps);
    enum fate fate = w->tool && rng_chance(&w->rng, 60) ? FATE_STOP : choose_fate(w);

    if (w->setup.restless && rng_chance(&w->rng, w->died_full ? 90 : 40))
        steps = rng_range(&w->rng, 1, w->died_full ? 50 : 30);
    while (!w->failed && w->life_step < steps) {
        if (w->tool && w->activator.state >= ACTIVATOR_DONE)
            break;
        if (!world_step(w, check)) {
            if (w->activator.state != ACTIVATOR_FAILED)
                world_fail(w, "P8", NULL, "everybody waits");
            break;
        }
        /* To die with a full ring, again and again: the EPOCH record needs room as well. */
        if (w->setup.restless && somebody_has_no_space(w) && rng_chance(&w->rng, 20)) {
            w->died_full = true;
            fate = rng_chance(&w->rng, 50) ? FATE_KILL : FATE_POWER;
            break;
        }
    }
    if (!w->failed && fate == FATE_STOP) {
        world_stop(w, check);
        w->died_full = false;
    }
    world_life_end(w, check, fate);
}

struct world *world_new(uint64_t seed, const struct world_setup *setup, const char *scripted,
                        const struct world_options *options, struct world_counts *counts)
{
    struct world *w = memory_get(sizeof(*w));
    size_t largest = 0;

    w->seed = seed;
    w->verbose = options->verbose;
    w->scripted = scripted;
    w->script_client = -1;
    w->counts = counts;
    w->rng = rng_stream(seed, 0, 0);
    world_current = w;
    if (setup != NULL) {
        w->setup = *setup;
    } else {
        choose_setup(&w->setup, &w->rng);
        choose_bypass(&w->setup, seed);
    }
    w->super_bytes = FORMAT_SUPER_MIN;
    w->ring_start = 2 * w->super_bytes;
    w->boot = 1;
    make_disks(w);
    for (unsigned i = 0; i < w->setup.image_count; i++) {
        if (largest < w->setup.image_size[i])
            largest = w->setup.image_size[i];
    }
    w->checkpointer.bytes = memory_get(largest);
    story(w, "sector %u, ring %llu, staging %llu, images %u, clients %u, fault %d",
          w->setup.sector_bytes, (unsigned long long)w->setup.ring_bytes,
          (unsigned long long)w->setup.staging_bytes, w->setup.image_count,
          w->setup.client_count, w->setup.fault);
    return w;
}

void world_free(struct world *w)
{
    life_abandon(w);
    w->counts->worlds++;
    for (unsigned i = 0; i < WORLD_CLIENTS; i++)
        client_free(&w->clients[i]);
    for (unsigned i = 0; i < w->setup.image_count; i++)
        disk_destroy(&w->images[i]);
    disk_destroy(&w->journal);
    shm_remove(&w->shm);
    free(w->activator.settle_bytes);
    model_destroy(&w->model);
    free(w->checkpointer.bytes);
    world_current = NULL;
    free(w);
}

bool world_run(uint64_t seed, const struct world_options *options, struct world_counts *counts)
{
    struct world *w = world_new(seed, NULL, NULL, options, counts);
    struct check *check = check_new(options);
    bool ok;

    while (!w->failed && w->life < w->setup.lives && world_life_start(w))
        run_life(w, check);
    ok = !w->failed;
    check_free(check);
    world_free(w);
    return ok;
}
