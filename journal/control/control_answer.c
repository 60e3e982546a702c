/* control_answer: see control_answer.h.
 *
 * The answer to "stats".  Times are in nanoseconds, unless their name says otherwise; counters
 * begin with the server.
 *
 *   protocol, version, pid, uptime_ns
 *   journal    path, uuid, state ("idle": no client that may write yet, "active", "stopping"),
 *              failed, read_only, staged, ring_bytes, used_bytes (of the ring), dirty_bytes
 *              (whose newest version is in the journal only), oldest_ns (age of the oldest record
 *              that is not home), epoch, last_lsn, published_lsn, durable_lsn
 *   commits    count, failed, answered (commits that somebody waited for), flushes (that
 *              they answered, FUA writes included), empty_flushes (that needed none), time: count,
 *              sum_ns, max_ns, p50_ns, p99_ns, p999_ns, buckets [[upper bound, count], ...]
 *   batch      policy, waits (commits that were held back), waits_ns, company (flushes that came
 *              meanwhile), and estimates: commit_ns, fixed_ns, held_ns, idle_ns, return_ns
 *   writeback  checkpoints, failed, running, bytes, segments, zeroed_bytes, superseded
 *   bypass     writes (parts of large ones that went straight to an image), bytes, barriers (of
 *              images)
 *   throttle   count, ns, waiting (now)
 *   requests   of all disks: reads, read_bytes, writes, write_bytes, flushes, trims, trim_bytes,
 *              zeroes, zero_bytes, fua, errors, throttled, throttled_ns
 *   disks      name, path, size, connections, open, writable, error (null or words), lost (until the next
 *              start every change fails), dirty_bytes, oldest_ns (nothing of it waits for longer),
 *              writeback_bytes, and the members of requests and waits
 *   clients    client (words), disk (name), connections, and the members of requests and waits
 *   waits      of a disk or a client: commits (that answered at least one of its flushes, FUA
 *              included), commit_time (how long its flushes waited for them: count, sum_ns, p50_ns,
 *              p99_ns, p999_ns, buckets), held, held_ns (its flush led a commit that was held
 *              back), company (flushes that came while one was held back)
 *   disks_left_out, clients_left_out    where a list was too long
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control_answer.h"
#include "engine.h"
#include "stats.h"
#include "text_json.h"

#define PROTOCOL 1

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static void put(json_t *object, const char *key, uint64_t n)
{
    json_object_set_new(object, key, number(n));
}

static void put_flag(json_t *object, const char *key, bool flag)
{
    json_object_set_new(object, key, json_boolean(flag));
}

static void put_requests(json_t *o, const struct stats_requests *r)
{
    put(o, "reads", r->count[STATS_READ]);
    put(o, "read_bytes", r->bytes[STATS_READ]);
    put(o, "writes", r->count[STATS_WRITE]);
    put(o, "write_bytes", r->bytes[STATS_WRITE]);
    put(o, "flushes", r->count[STATS_FLUSH]);
    put(o, "trims", r->count[STATS_TRIM]);
    put(o, "trim_bytes", r->bytes[STATS_TRIM]);
    put(o, "zeroes", r->count[STATS_ZERO]);
    put(o, "zero_bytes", r->bytes[STATS_ZERO]);
    put(o, "fua", r->fua);
    put(o, "errors", r->errors);
    put(o, "throttled", r->throttled);
    put(o, "throttled_ns", r->throttled_ns);
}

static void put_bucket(json_t *buckets, uint64_t top, uint64_t count)
{
    if (count != 0)
        json_array_append_new(buckets, json_pack("[o, o]", number(top), number(count)));
}

static void put_waits(json_t *o, uint64_t commits, const struct stats_requests *r)
{
    const struct stats_times *t = &r->commit_ns;
    json_t *time = json_object(), *buckets = json_array();

    put(o, "commits", commits);
    put(time, "count", stats_times_count(t));
    put(time, "sum_ns", t->sum_ns);
    put(time, "p50_ns", stats_times_quantile(t, 0.5));
    put(time, "p99_ns", stats_times_quantile(t, 0.99));
    put(time, "p999_ns", stats_times_quantile(t, 0.999));
    for (unsigned i = 0; i < STATS_BUCKETS; i++)
        put_bucket(buckets, stats_times_top(i), t->buckets[i]);
    json_object_set_new(time, "buckets", buckets);
    json_object_set_new(o, "commit_time", time);
    put(o, "held", r->held);
    put(o, "held_ns", r->held_ns);
    put(o, "company", r->company);
}

static const char *life_text(enum snapshot_life life)
{
    return life == SNAPSHOT_ACTIVE ? "active" : life == SNAPSHOT_STOPPING ? "stopping" : "idle";
}

static json_t *journal_json(const struct snapshot *s)
{
    json_t *o = json_object();
    char uuid[37];

    format_uuid_text(s->journal_uuid, uuid);
    json_object_set_new(o, "path",
                        s->journal_path != NULL ? text_json(s->journal_path) : json_null());
    json_object_set_new(o, "uuid", json_string(uuid));
    json_object_set_new(o, "state", json_string(life_text(s->life)));
    put_flag(o, "failed", s->core.aborted);
    put_flag(o, "read_only", s->is_read_only);
    put(o, "ring_bytes", s->core.ring_bytes);
    put(o, "used_bytes", s->core.used_bytes);
    put(o, "dirty_bytes", s->dirty_bytes);
    put(o, "oldest_ns", s->oldest_age_ns);
    put(o, "epoch", s->core.epoch);
    put(o, "last_lsn", s->core.last_lsn);
    put(o, "published_lsn", s->core.published_lsn);
    put(o, "durable_lsn", s->core.durable_lsn);
    return o;
}

/* Only buckets that hold something: some dozens of thousands. */
static json_t *histogram_json(const struct histogram *h)
{
    json_t *o = json_object(), *buckets = json_array();

    put(o, "count", h->count);
    put(o, "sum_ns", (uint64_t)h->sum);
    put(o, "max_ns", h->max);
    put(o, "p50_ns", histogram_quantile(h, 0.5));
    put(o, "p99_ns", histogram_quantile(h, 0.99));
    put(o, "p999_ns", histogram_quantile(h, 0.999));
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        put_bucket(buckets, histogram_bucket_top(i), h->buckets[i]);
    json_object_set_new(o, "buckets", buckets);
    return o;
}

static json_t *commits_json(const struct snapshot *s)
{
    json_t *o = json_object();

    put(o, "count", s->core.commits);
    put(o, "failed", s->commits_failed);
    put(o, "answered", s->batch.commits);
    put(o, "flushes", s->batch.flushes);
    put(o, "empty_flushes", s->core.empty_flushes);
    json_object_set_new(o, "time", histogram_json(&s->commit_ns));
    return o;
}

static json_t *batch_json(const struct batch_stats *b)
{
    json_t *o = json_object();

    json_object_set_new(o, "policy", json_string(b->policy));
    put(o, "waits", b->waits);
    put(o, "waits_ns", b->waits_ns);
    put(o, "company", b->company);
    put(o, "commit_ns", b->commit_ns);
    put(o, "fixed_ns", b->fixed_ns);
    put(o, "held_ns", b->held_ns);
    put(o, "idle_ns", b->idle_ns);
    put(o, "return_ns", b->return_ns);
    return o;
}

static json_t *writeback_json(const struct snapshot *s)
{
    json_t *o = json_object();

    put(o, "checkpoints", s->core.checkpoints);
    put(o, "failed", s->checkpoints_failed);
    put_flag(o, "running", s->is_checkpointing);
    put(o, "bytes", s->core.home_bytes);
    put(o, "segments", s->core.home_segments);
    put(o, "zeroed_bytes", s->core.zeroed_bytes);
    put(o, "superseded", s->core.superseded);
    return o;
}

static json_t *bypass_json(const struct snapshot *s)
{
    json_t *o = json_object();

    put(o, "writes", s->bypassed);
    put(o, "bytes", s->bypassed_bytes);
    put(o, "barriers", s->image_barriers);
    return o;
}

static json_t *throttle_json(const struct snapshot *s)
{
    json_t *o = json_object();

    put(o, "count", s->throttled);
    put(o, "ns", s->throttled_ns);
    put(o, "waiting", s->waiting);
    return o;
}

static json_t *disk_json(const struct snapshot_disk *d)
{
    json_t *o = json_object();

    json_object_set_new(o, "name", text_json(d->name));
    json_object_set_new(o, "path", text_json(d->path));
    put(o, "size", d->size);
    put(o, "connections", d->connections);
    put_flag(o, "open", d->is_open);
    put_flag(o, "writable", d->is_writable);
    json_object_set_new(o, "error",
                        d->error != 0 ? json_string(strerror(-d->error)) : json_null());
    put_flag(o, "lost", d->is_lost);
    put(o, "dirty_bytes", d->dirty_bytes);
    put(o, "oldest_ns", d->oldest_age_ns);
    put(o, "writeback_bytes", d->home_bytes);
    put_requests(o, &d->requests);
    put_waits(o, d->commits, &d->requests);
    return o;
}

static json_t *client_json(const struct snapshot *s, const struct snapshot_client *c)
{
    json_t *o = json_object();

    json_object_set_new(o, "client", text_json(c->label));
    json_object_set_new(o, "disk", text_json(s->disks[c->disk].name));
    put(o, "connections", c->connections);
    put_requests(o, &c->requests);
    put_waits(o, c->commits, &c->requests);
    return o;
}

static json_t *version_json(void)
{
    json_t *o = json_object();

    put(o, "protocol", PROTOCOL);
    json_object_set_new(o, "version", json_string(PACKAGE_VERSION));
    put(o, "pid", (uint64_t)getpid());
    return o;
}

static json_t *snapshot_json(const struct snapshot *s)
{
    json_t *o = version_json(), *requests = json_object(), *disks = json_array(),
           *clients = json_array();

    put(o, "uptime_ns", s->uptime_ns);
    json_object_set_new(o, "journal", journal_json(s));
    json_object_set_new(o, "commits", commits_json(s));
    json_object_set_new(o, "batch", batch_json(&s->batch));
    json_object_set_new(o, "writeback", writeback_json(s));
    json_object_set_new(o, "bypass", bypass_json(s));
    json_object_set_new(o, "throttle", throttle_json(s));
    put_requests(requests, &s->requests);
    json_object_set_new(o, "requests", requests);
    for (unsigned i = 0; i < s->disk_count; i++)
        json_array_append_new(disks, disk_json(&s->disks[i]));
    json_object_set_new(o, "disks", disks);
    put(o, "disks_left_out", s->disks_left_out);
    for (unsigned i = 0; i < s->client_count; i++)
        json_array_append_new(clients, client_json(s, &s->clients[i]));
    json_object_set_new(o, "clients", clients);
    put(o, "clients_left_out", s->clients_left_out);
    return o;
}

static json_t *stats_json(struct engine *e)
{
    struct snapshot *s = calloc(1, sizeof(*s));
    json_t *o = NULL;

    if (s == NULL)
        return NULL;
    if (engine_snapshot(e, s) == 0)
        o = snapshot_json(s);
    snapshot_free(s);
    free(s);
    return o;
}

/* ---- lines ---- */

/* Frees the object. */
static char *line_of(json_t *o)
{
    char *text = o == NULL ? NULL : json_dumps(o, JSON_COMPACT), *line;
    size_t count;

    json_decref(o);
    if (text == NULL)
        return NULL;
    count = strlen(text);
    line = realloc(text, count + 2);
    if (line == NULL) {
        free(text);
        return NULL;
    }
    line[count] = '\n';
    line[count + 1] = '\0';
    return line;
}

static json_t *refusal(const char *why)
{
    return json_pack("{s:s}", "error", why);
}

char *control_refuse(const char *why)
{
    return line_of(refusal(why));
}

static json_t *answer(struct engine *e, const json_t *request)
{
    const char *command = json_string_value(json_object_get(request, "command"));

    if (!json_is_object(request))
        return refusal("a request is a JSON object in one line, such as {\"command\": "
                       "\"stats\"}");
    if (command == NULL)
        return refusal("the request has no \"command\"; there are stats and version");
    if (strcmp(command, "stats") == 0)
        return stats_json(e);
    if (strcmp(command, "version") == 0)
        return version_json();
    return refusal("there is no such command; there are stats and version");
}

char *control_answer(struct engine *e, const char *line, size_t count)
{
    json_t *request = json_loadb(line, count, JSON_REJECT_DUPLICATES, NULL), *id, *o;

    o = answer(e, request);
    id = json_object_get(request, "id");
    if (id != NULL && o != NULL)
        json_object_set(o, "id", id);
    json_decref(request);
    return line_of(o);
}
