/* client: random requests, carried out as the engine does, and what was promised for them. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "world.h"

static const char *const request_words[] = {"write", "trim", "zero", "flush", "read"};

void client_start(struct world *w, struct client *client, unsigned number)
{
    size_t largest = 1;

    for (unsigned i = 0; i < w->setup.image_count; i++) {
        if (largest < w->setup.image_size[i])
            largest = w->setup.image_size[i];
    }
    client->state = CLIENT_IDLE;
    client->number = number;
    client->reading = false;
    client->append.state = APPEND_JOB_NONE;
    client->submit.active = false;
    client->sync.state = SYNC_JOB_NONE;
    client->image_flush.state = IMAGE_JOB_NONE;
    client->bypassing = client->claimed = false;
    client->record.claim = NULL;
    if (client->payload == NULL) {
        client->payload = memory_get(largest);
        client->bytes = memory_get(largest);
        client->floors = memory_get(largest * sizeof(*client->floors));
    }
}

void client_free(struct client *client)
{
    free(client->payload);
    free(client->bytes);
    free(client->floors);
}

/* ---- choosing ---- */

static uint64_t choose_length(struct world *w, uint64_t size)
{
    uint32_t atomic_max = core_atomic_max(w->core);
    uint64_t length;

    switch (w->setup.size_profile == 3 ? rng_below(&w->rng, 3) : w->setup.size_profile) {
    case 0: /* small */
        length = rng_range(&w->rng, 1, 600);
        break;
    case 1: /* blocks */
        length = 512 * rng_range(&w->rng, 1, 8);
        break;
    default: /* about what one record can hold, and more */
        length = rng_range(&w->rng, 1, rng_chance(&w->rng, 20) ? 3 * atomic_max : atomic_max);
        if (rng_chance(&w->rng, 20))
            length = atomic_max;
        break;
    }
    if (rng_chance(&w->rng, 3))
        length = 1;
    return length < size ? length : size;
}

static void choose_range(struct world *w, struct request *request)
{
    uint64_t size = w->setup.image_size[request->image];
    uint64_t room;

    request->length = choose_length(w, size);
    if (request->kind != REQUEST_WRITE && rng_chance(&w->rng, 10))
        request->length = size;
    room = size - request->length;
    if (rng_chance(&w->rng, w->setup.hot_percent) && room > 700)
        room = 700;
    request->offset = rng_range(&w->rng, 0, room);
    if (rng_chance(&w->rng, 50))
        request->offset = request->offset / 512 * 512;
    if (rng_chance(&w->rng, 5))
        request->offset = size - request->length;
}

static void choose_request(struct world *w, struct request *request)
{
    unsigned sum = 0, pick;

    for (unsigned i = 0; i < 5; i++)
        sum += w->setup.weight[i];
    pick = rng_below(&w->rng, sum);
    request->kind = REQUEST_WRITE;
    while (pick >= w->setup.weight[request->kind])
        pick -= w->setup.weight[request->kind++];
    request->image = rng_below(&w->rng, w->setup.image_count);
    request->fua = false;
    if (request->kind == REQUEST_FLUSH) {
        request->offset = request->length = 0;
        return;
    }
    choose_range(w, request);
    if (request->kind != REQUEST_READ)
        request->fua = rng_chance(&w->rng, w->setup.fua_percent);
}

/* ---- changes ---- */

static void claim_end(struct world *w, struct client *client)
{
    if (client->claimed)
        core_claim_end(w->core, &client->claim);
    client->claimed = false;
    client->record.claim = NULL;
}

static void claim(struct world *w, struct client *client)
{
    core_claim_begin(w->core, &client->claim, w->core_images[client->request.image],
                     client->part_offset, client->part_length);
    client->claimed = true;
    client->state = CLIENT_CLAIM;
    if (!core_claim_granted(w->core, &client->claim))
        w->counts->claim_waits++;
}

/* P4: the disk was lost before this request came; or nothing of it is, and the journal is well. */
static void check_lost(struct world *w, const struct client *client, int error)
{
    const struct request *request = &client->request;
    bool other = error != 0 && !core_aborted(w->core) && !w->model.image_lost[request->image];

    if (error == 0 && client->was_lost)
        world_fail(w, "P4", NULL, "a request was answered with success after image %u was lost",
                   request->image);
    if (other && request->kind == REQUEST_FLUSH)
        world_fail(w, "P4", NULL, "a flush of image %u fails: %s, but it is not lost",
                   request->image, strerror(-error));
}

static void answer(struct world *w, struct client *client, int error)
{
    claim_end(w, client);
    check_lost(w, client, error);
    story(w, "client %u: answered: %s", client->number,
          error == 0 ? "success" : strerror(-error));
    client->state = CLIENT_IDLE;
    if (error != 0) {
        if (!w->had_fault && !w->setup.last_lsns)
            world_fail(w, "P8", NULL, "client %u got an error though nothing has failed: %s",
                       client->number, strerror(-error));
        if (w->setup.fault == FAULT_IMAGE_SICK && client->request.image != w->sick_image)
            world_fail(w, "P8", NULL, "client %u got the error of another image: %s",
                       client->number, strerror(-error));
        return;
    }
    w->counts->answers++;
    for (unsigned i = 0; i < client->part_count; i++)
        model_answer(&w->model, client->parts[i]);
    if (client->part_count > 1)
        w->counts->splits++;
    if (client->request.kind == REQUEST_FLUSH) {
        model_flush_answered(&w->model, client->flush_number);
        model_image_flushed(&w->model, client->request.image, client->flush_stamp);
        w->counts->flushes++;
    } else if (client->request.fua) { /* P1: the FUA request itself */
        model_flush_answered(&w->model, client->parts[client->part_count - 1]);
        w->counts->fuas++;
    }
}

/* The next part of a change: its bytes and their sum, without the lock. */
static void prepare_part(struct world *w, struct client *client)
{
    const struct request *request = &client->request;
    uint64_t left = request->offset + request->length - client->part_offset;
    uint32_t atomic_max = core_atomic_max(w->core);

    client->part_length = left;
    client->payload_sum = 0;
    if (request->kind == REQUEST_WRITE) {
        uint64_t longest = client->may_bypass ? w->setup.bypass_part : atomic_max;

        if (left > longest)
            client->part_length = longest;
        client->content = w->model.content_next++;
        model_content(client->content, client->part_offset, client->payload,
                      client->part_length);
        client->payload_sum = format_sum(w->sum_seed, client->payload, client->part_length);
    }
    if (client->may_bypass)
        claim(w, client);
    else
        client->state = CLIENT_ADMIT;
}

static void begin_part(struct world *w, struct client *client)
{
    const struct request *request = &client->request;
    uint64_t left = request->offset + request->length - client->part_offset;

    client->may_bypass = request->kind == REQUEST_WRITE && !request->fua &&
                         w->setup.bypass_bytes != 0 && left >= w->setup.bypass_bytes;
    prepare_part(w, client);
}

/* Its range is granted. */
static void bypass_begin(struct world *w, struct client *client)
{
    const struct request *request = &client->request;
    struct core_stats stats;
    int r = core_bypass_begin(w->core, &client->claim);

    if (r != 0) {
        claim_end(w, client);
        client->may_bypass = false;
        w->counts->bypass_journaled += r == 1;
        if (r == 1)
            prepare_part(w, client);
        else
            answer(w, client, r);
        return;
    }
    client->bypassing = true;
    core_stats_get(w->core, &stats);
    client->parts[client->part_count++] =
        model_admit(&w->model, &(struct change){.image = request->image,
                                                .kind = RECORD_WRITE,
                                                .offset = client->part_offset,
                                                .length = client->part_length,
                                                .lsn = stats.last_lsn,
                                                .content = client->content,
                                                .bypass = true});
    write_job_start(&client->write, &w->images[request->image], client->part_offset,
                    client->payload, client->part_length);
    client->state = CLIENT_BYPASS;
    w->counts->bypassed++;
    story(w, "client %u: change %u bypasses the journal: image %u [%llu, %llu)", client->number,
          w->model.count, request->image, (unsigned long long)client->part_offset,
          (unsigned long long)(client->part_offset + client->part_length));
}

static void bypass_write(struct world *w, struct client *client)
{
    client->write.disk->bypass = true;
    if (write_job_step(w, &client->write) == JOB_DONE)
        client->state = CLIENT_BYPASSED;
    client->write.disk->bypass = false;
}

static void next_part(struct world *w, struct client *client);

static void bypass_end(struct world *w, struct client *client)
{
    int r = core_bypass_end(w->core, &client->claim, client->write.error);

    client->bypassing = client->claimed = false;
    model_bypass_ended(&w->model, client->parts[client->part_count - 1],
                       client->write.error == 0);
    if (r < 0) {
        answer(w, client, r);
    } else if (r == 1) {
        client->part_count--; /* it is not what is answered */
        client->may_bypass = false;
        prepare_part(w, client);
    } else {
        next_part(w, client);
    }
}

static bool submit_begin(struct world *w, struct client *client)
{
    uint64_t from, to;

    if (!core_submit_begin(w->core, &from, &to))
        return false;
    submit_job_start(w, &client->submit, from, to);
    client->state = CLIENT_SUBMIT;
    w->counts->submits++;
    return true;
}

static enum job_result admit(struct world *w, struct client *client)
{
    static const enum record_kind kinds[] = {RECORD_WRITE, RECORD_TRIM, RECORD_ZERO};
    const struct request *request = &client->request;
    struct change change = {
        request->image,  kinds[request->kind], client->part_offset, client->part_length, 0,
        client->content, .answered = false};
    int r = core_append_admit(w->core, &client->record, w->core_images[request->image],
                              change.kind, request->fua ? RECORD_FLAG_FUA : 0, change.offset,
                              change.length, client->payload_sum, w->event);

    client->waits_for_space = r == -EAGAIN;
    if (r == -EBUSY) {
        claim(w, client);
        client->record.claim = &client->claim;
        return JOB_RAN;
    }
    if (r == -EAGAIN) {
        w->counts->space_waits++;
        story(w, "client %u: no space", client->number);
        /* What was published while another submission was under way waits for this. */
        if (submit_begin(w, client))
            return JOB_RAN;
        client->space_generation = core_space_generation(w->core);
        client->state = CLIENT_SPACE;
        return JOB_RAN;
    }
    if (r < 0) {
        answer(w, client, r);
        return JOB_RAN;
    }
    claim_end(w, client);
    change.lsn = client->record.record.lsn;
    client->parts[client->part_count++] = model_admit(&w->model, &change);
    append_job_start(w, &client->append, &client->record, client->payload);
    client->state = CLIENT_APPEND;
    w->counts->changes++;
    story(w, "client %u: change %u, %s of image %u [%llu, %llu): lsn %llu at %llu",
          client->number, w->model.count, request_words[request->kind], request->image,
          (unsigned long long)change.offset,
          (unsigned long long)(change.offset + change.length), (unsigned long long)change.lsn,
          (unsigned long long)client->record.record.position);
    return JOB_RAN;
}

/* Whoever publishes asks whether there is enough to submit. */
static void submit_or_go_on(struct world *w, struct client *client)
{
    if (submit_begin(w, client))
        return;
    next_part(w, client);
}

static void next_part(struct world *w, struct client *client)
{
    const struct request *request = &client->request;

    client->part_offset += client->part_length;
    if (client->part_offset < request->offset + request->length) {
        begin_part(w, client);
    } else if (request->fua) {
        sync_job_start(&client->sync, client->record.record.lsn);
        client->state = CLIENT_SYNC;
    } else {
        client->state = CLIENT_ANSWER;
    }
}

static void part_published(struct world *w, struct client *client)
{
    if (client->append.error != 0)
        answer(w, client, client->append.error);
    else
        submit_or_go_on(w, client);
}

static void submitted(struct world *w, struct client *client)
{
    client->submit.active = false;
    core_submit_end(w->core, client->submit.error);
    if (client->waits_for_space)
        client->state = CLIENT_ADMIT;
    else
        submit_or_go_on(w, client);
}

/* ---- reads ---- */

static void read_begin(struct world *w, struct client *client)
{
    const struct request *request = &client->request;
    struct core_image *image = w->core_images[request->image];
    int r = core_read_begin(w->core, image, request->offset, request->length, &client->plan);

    if (r < 0) {
        world_fail(w, "plan", NULL, "core_read_begin: %s", strerror(-r));
        return;
    }
    model_read_begin(&w->model, request->image, request->offset, request->length,
                     client->floors);
    client->reading = true;
    client->segment = 0;
    client->state = CLIENT_READ;
}

static void read_end(struct world *w, struct client *client)
{
    const struct request *request = &client->request;
    size_t good;

    core_read_end(w->core, &client->plan);
    client->reading = false;
    client->state = CLIENT_IDLE;
    w->counts->reads++;
    good = model_read_end(&w->model, request->image, request->offset, request->length,
                          client->floors, client->bytes);
    story(w, "client %u: read ends", client->number);
    if (good < request->length) {
        char words[300];
        size_t at = request->offset + good;

        model_explain(&w->model, request->image, at, client->bytes[good], words, sizeof(words));
        world_fail(w, "P7", NULL,
                   "a read of image %u shows at %zu what is older than it may be: %s, at least "
                   "change %u was due",
                   request->image, at, words, client->floors[good]);
    }
}

static void read_segment(struct world *w, struct client *client)
{
    const struct request *request = &client->request;
    const struct read_segment *s = &client->plan.segments[client->segment++];
    uint8_t *to = client->bytes + (s->offset - request->offset);

    switch (s->source) {
    case READ_IMAGE:
        disk_read(&w->images[request->image], s->offset, to, s->length);
        break;
    case READ_JOURNAL:
        world_ring_read(w, s->position, to, s->length);
        w->counts->journal_reads++;
        break;
    case READ_TRIMMED:
    case READ_ZERO:
        memset(to, 0, s->length);
        break;
    }
}

/* ---- one step ---- */

/* Both targets are of the moment when the request came. */
static void begin_flush(struct world *w, struct client *client)
{
    unsigned image = client->request.image;
    uint64_t target = core_flush_target(w->core, w->core_images[image]);
    uint64_t image_target = core_image_flush_target(w->core_images[image]);

    /* P1: answered before it was received. */
    client->flush_number = model_flush_received(&w->model, image);
    client->flush_stamp = w->model.stamp;
    client->sync.state = SYNC_JOB_NONE;
    client->state = CLIENT_ANSWER;
    if (target != 0) {
        sync_job_start(&client->sync, target);
        client->state = CLIENT_SYNC;
    }
    if (image_target != 0) {
        image_job_start(w, &client->image_flush, image, image_target);
        client->state = CLIENT_IMAGE_FLUSH;
    }
}

static enum job_result flush_image(struct world *w, struct client *client)
{
    enum job_result r = image_job_step(w, &client->image_flush);

    if (r != JOB_DONE)
        return r;
    if (client->image_flush.error != 0)
        answer(w, client, client->image_flush.error);
    else
        client->state = client->sync.state != SYNC_JOB_NONE ? CLIENT_SYNC : CLIENT_ANSWER;
    return JOB_RAN;
}

static enum job_result begin_request(struct world *w, struct client *client)
{
    struct request *request = &client->request;

    if (w->quiet)
        return JOB_WAITS;
    if (w->scripted != NULL) {
        if (w->script_client != (int)client->number || w->activator.state != ACTIVATOR_DONE)
            return JOB_WAITS;
        *request = w->script_request;
        w->script_client = -1;
    } else {
        choose_request(w, request);
    }
    if (w->activator.state != ACTIVATOR_DONE && request->kind != REQUEST_READ)
        return JOB_WAITS; /* nothing else before the first writable open */
    client->part_count = 0;
    client->was_lost = request->kind != REQUEST_READ && w->known_lost[request->image];
    story(w, "client %u: %s%s of image %u [%llu, %llu)", client->number,
          request_words[request->kind], request->fua ? " (FUA)" : "", request->image,
          (unsigned long long)request->offset,
          (unsigned long long)(request->offset + request->length));
    switch (request->kind) {
    case REQUEST_FLUSH:
        begin_flush(w, client);
        break;
    case REQUEST_READ:
        read_begin(w, client);
        break;
    default:
        client->part_offset = request->offset;
        begin_part(w, client);
    }
    return JOB_RAN;
}

enum job_result client_step(struct world *w, struct client *client)
{
    enum job_result r;

    switch (client->state) {
    case CLIENT_IDLE:
        return begin_request(w, client);
    case CLIENT_CLAIM:
        if (!core_claim_granted(w->core, &client->claim))
            return JOB_WAITS;
        if (client->may_bypass)
            bypass_begin(w, client);
        else
            client->state = CLIENT_ADMIT;
        return JOB_RAN;
    case CLIENT_BYPASS:
        bypass_write(w, client);
        return JOB_RAN;
    case CLIENT_BYPASSED:
        bypass_end(w, client);
        return JOB_RAN;
    case CLIENT_IMAGE_FLUSH:
        return flush_image(w, client);
    case CLIENT_SPACE:
        if (core_space_generation(w->core) == client->space_generation &&
            !core_aborted(w->core))
            return JOB_WAITS;
        /* fall through */
    case CLIENT_ADMIT:
        return admit(w, client);
    case CLIENT_APPEND:
        r = append_job_step(w, &client->append);
        if (r == JOB_DONE)
            part_published(w, client);
        return r == JOB_WAITS ? JOB_WAITS : JOB_RAN;
    case CLIENT_SUBMIT:
        if (submit_job_step(w, &client->submit) == JOB_DONE)
            submitted(w, client);
        return JOB_RAN;
    case CLIENT_SYNC:
        r = sync_job_step(w, &client->sync);
        if (r == JOB_DONE && client->sync.error != 0)
            answer(w, client, client->sync.error);
        else if (r == JOB_DONE)
            client->state = CLIENT_ANSWER;
        return r == JOB_WAITS ? JOB_WAITS : JOB_RAN;
    case CLIENT_ANSWER:
        answer(w, client, 0);
        return JOB_RAN;
    case CLIENT_READ:
        if (client->segment < client->plan.count)
            read_segment(w, client);
        else
            read_end(w, client);
        return JOB_RAN;
    }
    return JOB_WAITS;
}

void client_abandon(struct world *w, struct client *client)
{
    append_job_abandon(w, &client->append);
    if (client->bypassing)
        core_bypass_end(w->core, &client->claim, -EIO);
    else
        claim_end(w, client);
    client->bypassing = client->claimed = false;
    client->image_flush.state = IMAGE_JOB_NONE;
    if (client->submit.active)
        core_submit_end(w->core, -EIO);
    client->submit.active = false;
    sync_job_abandon(w, &client->sync);
    if (client->reading)
        core_read_end(w->core, &client->plan);
    client->reading = false;
    client->state = CLIENT_IDLE;
}
