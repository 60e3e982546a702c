/* snapshot: all numbers of the engine at one moment.
 *
 * Taken under the lock: some microseconds for what is fixed, and less than one for each disk and
 * client, of which the lists are bounded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine_state.h"

static int take_disk_locked(const struct engine_disk *d, struct snapshot *s) REQUIRES_LOCK
{
    struct snapshot_disk *to = &s->disks[s->disk_count];

    *to = (struct snapshot_disk){
        .name = strdup(d->name),
        .path = strdup(d->label),
        .size = d->storage != NULL ? d->storage->size : 0,
        .connections = d->users,
        .is_open = d->storage != NULL,
        .is_writable = d->writable,
        .error = d->writeback_error,
        .is_lost = d->image != NULL && core_image_is_lost(d->image),
        .dirty_bytes = d->image != NULL ? core_image_dirty_bytes(d->image) : 0,
        .oldest_age_ns = stats_disk_age_locked(d, s->oldest_age_ns),
        .home_bytes = d->image != NULL ? core_image_home_bytes(d->image) : 0,
        .commits = stats_commits_count(&d->commits),
        .requests = d->gone,
    };
    s->disk_count++;
    return to->name != NULL && to->path != NULL ? 0 : -ENOMEM;
}

static void take_client(const struct stats_client *c, struct snapshot *s, unsigned disk)
{
    struct snapshot_client *to = &s->clients[s->client_count++];

    *to = (struct snapshot_client){.disk = disk,
                                   .connections = c->connections,
                                   .commits = stats_commits_count(&c->commits)};
    memcpy(to->label, c->label, sizeof(to->label));
    stats_requests_add(&to->requests, &c->requests);
}

static int take_disks_locked(struct engine *e, struct snapshot *s) REQUIRES_LOCK
{
    struct engine_disk *d;
    struct stats_client *c;
    int r = 0;

    LIST_FOREACH (d, &e->disks, link) {
        struct stats_requests sum = d->gone;
        bool fits = s->disk_count < SNAPSHOT_DISKS_MAX;
        unsigned index = s->disk_count;

        if (!fits)
            s->disks_left_out++;
        else if ((r = take_disk_locked(d, s)) < 0)
            return r;
        LIST_FOREACH (c, &d->clients, link) {
            stats_requests_add(&sum, &c->requests);
            if (fits && s->client_count < SNAPSHOT_CLIENTS_MAX)
                take_client(c, s, index);
            else
                s->clients_left_out++;
        }
        if (fits)
            s->disks[index].requests = sum;
        stats_requests_add(&s->requests, &sum);
    }
    return 0;
}

/* Also of images whose file is not open. */
static uint64_t dirty_bytes_locked(const struct engine *e) REQUIRES_LOCK
{
    struct core_image *image = NULL;
    uint64_t sum = 0;

    while ((image = core_image_next(e->core, image)) != NULL)
        sum += core_image_dirty_bytes(image);
    return sum;
}

static unsigned waiting_locked(const struct engine *e) REQUIRES_LOCK
{
    const struct admission *a;
    unsigned count = 0;

    TAILQ_FOREACH (a, &e->admissions, link)
        count++;
    return count;
}

int engine_snapshot(struct engine *e, struct snapshot *s)
{
    int r;
    LOCK_SCOPE(&e->lock);

    memset(s, 0, sizeof(*s));
    s->disks = calloc(SNAPSHOT_DISKS_MAX, sizeof(*s->disks));
    s->clients = calloc(SNAPSHOT_CLIENTS_MAX, sizeof(*s->clients));
    if (s->disks == NULL || s->clients == NULL)
        return -ENOMEM;
    if (e->journal.storage != NULL) {
        s->journal_path = strdup(e->journal.storage->name);
        if (s->journal_path == NULL)
            return -ENOMEM;
    }
    memcpy(s->journal_uuid, e->journal.sb.uuid, sizeof(s->journal_uuid));
    s->life = e->life == ENGINE_STOPPING ? SNAPSHOT_STOPPING
              : e->life == ENGINE_ACTIVE ? SNAPSHOT_ACTIVE
                                         : SNAPSHOT_IDLE;
    s->is_read_only = e->read_only;
    s->is_checkpointing = e->checkpoint_running;
    s->uptime_ns = clock_now_ns() - e->stats.begun_ns;
    core_stats_get(e->core, &s->core);
    s->core.empty_flushes = e->empty_flushes;
    batch_stats(e->batch, &s->batch);
    s->commits_failed = e->stats.commits_failed;
    s->checkpoints_failed = e->stats.checkpoints_failed;
    s->bypassed = e->stats.bypassed;
    s->bypassed_bytes = e->stats.bypassed_bytes;
    s->image_barriers = e->stats.image_barriers;
    s->commit_ns = e->stats.commit_ns;
    s->throttled = e->stats.throttled;
    s->throttled_ns = e->stats.throttled_ns;
    s->waiting = waiting_locked(e);
    s->dirty_bytes = dirty_bytes_locked(e);
    s->oldest_age_ns = s->core.map_nodes > 0 ? stats_oldest_age_locked(e) : 0;
    stats_requests_add(&s->requests, &e->stats.gone);
    r = take_disks_locked(e, s);
    return r;
}

void snapshot_free(struct snapshot *s)
{
    for (unsigned i = 0; i < s->disk_count; i++) {
        free(s->disks[i].name);
        free(s->disks[i].path);
    }
    free(s->disks);
    free(s->clients);
    free(s->journal_path);
}
