/* result_json: the result for programs.
 *
 * Latencies are in microseconds, as numbers; the manual lists the fields.
 */
#include <stdio.h>
#include <string.h>

#include "result.h"
#include "server.h"

/* What the latency curve is drawn from: evenly spaced in 1 - quantile, on a log scale. */
static const double curve_quantiles[] = {
    0,      0.1,   0.2,    0.3,     0.4,    0.5,     0.6,     0.7,      0.75,   0.8,
    0.85,   0.9,   0.925,  0.95,    0.96,   0.975,   0.98,    0.99,     0.9925, 0.995,
    0.9975, 0.999, 0.9995, 0.99975, 0.9999, 0.99995, 0.99999, 0.999999, 1,
};

static json_t *histogram_json(const struct histogram *h)
{
    json_t *curve = json_array();

    if (h->count == 0) {
        json_decref(curve);
        return json_pack("{s:i}", "count", 0);
    }
    for (size_t i = 0; i < sizeof curve_quantiles / sizeof *curve_quantiles; i++) {
        double q = curve_quantiles[i];
        double us = (q == 0 ? h->min : histogram_quantile(h, q)) / 1e3;
        json_array_append_new(curve, json_pack("[f,f]", q, us));
    }
    return json_pack(
        "{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "count", (json_int_t)h->count, "mean",
        histogram_mean(h) / 1e3, "min", h->min / 1e3, "p50", histogram_quantile(h, 0.5) / 1e3,
        "p90", histogram_quantile(h, 0.9) / 1e3, "p99", histogram_quantile(h, 0.99) / 1e3,
        "p999", histogram_quantile(h, 0.999) / 1e3, "max", h->max / 1e3, "curve", curve);
}

static json_t *options_json(const struct load *load)
{
    const struct options *o = load->options;
    json_t *sizes = json_array();

    for (size_t i = 0; i < o->size_count; i++)
        json_array_append_new(sizes, json_pack("{s:i, s:i}", "bytes", o->sizes[i].bytes,
                                               "weight", o->sizes[i].weight));
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:I, s:f, s:f, s:b}", "pattern",
                     pattern_name[o->pattern], "clients", o->clients, "connections",
                     o->connections, "in_flight", o->in_flight, "read_percent", o->read_percent,
                     "flush_every", o->flush_every, "block_sizes", sizes, "seed",
                     (json_int_t)o->seed, "think_us", o->think_ns / 1e3, "rate", o->rate,
                     "poisson", o->poisson);
}

static json_t *exports_json(const struct load *load)
{
    json_t *exports = json_array();

    for (size_t i = 0; i < load->options->uri_count; i++) {
        const struct target *e = &load->targets[i];
        json_array_append_new(exports,
                              json_pack("{s:s, s:I, s:I, s:I}", "uri", e->uri, "size",
                                        (json_int_t)e->size, "range_start",
                                        (json_int_t)e->start, "range_end", (json_int_t)e->end));
    }
    return exports;
}

static json_t *requests_json(const struct load *load)
{
    json_t *requests = json_object();

    for (int kind = 0; kind < REQUEST_KINDS; kind++) {
        if (load->m.request[kind].count > 0)
            json_object_set_new(requests, request_kind_name[kind],
                                histogram_json(&load->m.request[kind]));
    }
    return requests;
}

static json_t *series_json(const struct load *load)
{
    const struct measurement *m = &load->m;
    json_t *series = json_array();

    for (unsigned i = 0; i < m->slice_count; i++) {
        const struct slice *s = &m->slices[i];
        json_array_append_new(
            series,
            json_pack("{s:f, s:I, s:I, s:f, s:f}", "start", i * m->slice_ns / 1e9, "operations",
                      (json_int_t)s->operations, "bytes", (json_int_t)s->bytes, "mean",
                      s->operations == 0 ? 0.0 : s->latency_sum_ns / 1e3 / s->operations, "max",
                      s->latency_max_ns / 1e3));
    }
    return json_pack("{s:f, s:o}", "slice_seconds", m->slice_ns / 1e9, "slices", series);
}

static json_t *failures_json(const struct load *load)
{
    const struct measurement *m = &load->m;
    json_t *first = json_array();

    for (uint64_t i = 0; i < m->failed && i < FAILURES_KEPT; i++) {
        const struct failure *f = &m->failures[i];
        json_array_append_new(
            first,
            json_pack("{s:s, s:I, s:I, s:s, s:i, s:i}", "request", request_kind_name[f->kind],
                      "offset", (json_int_t)f->offset, "length", (json_int_t)f->length, "error",
                      strerror(f->error), "client", f->client, "connection", f->connection));
    }
    return first;
}

/* Whether one client got more than another. */
static json_t *clients_json(const struct load *load)
{
    uint64_t least = UINT64_MAX, most = 0;

    for (unsigned i = 0; i < load->options->clients; i++) {
        uint64_t done = load->clients[i].done;
        least = done < least ? done : least;
        most = done > most ? done : most;
    }
    return json_pack("{s:I, s:I}", "operations_least", (json_int_t)least, "operations_most",
                     (json_int_t)most);
}

static json_t *server_json(const struct load *load)
{
    const struct server *s = load->server;
    struct rates r = server_rates(s);
    json_t *series = json_array();
    double seconds, each, rate;

    for (unsigned j = 0; j < s->sample_count; j++) {
        if (server_piece(s, j, load->m.start_ns, &seconds, &each, &rate))
            json_array_append_new(series, json_pack("{s:f, s:f, s:f}", "time", seconds,
                                                    "flushes_per_commit", each,
                                                    "commits_per_second", rate));
    }
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:o}", "commits",
                     (json_int_t)rates_growth(&r, "commits.answered"), "flushes",
                     (json_int_t)rates_growth(&r, "commits.flushes"), "flushes_per_commit",
                     server_flushes_per_commit(s), "commit_p50",
                     (double)rates_commit_quantile(&r, 0.5) / 1e3, "commit_p99",
                     (double)rates_commit_quantile(&r, 0.99) / 1e3, "commit_p999",
                     (double)rates_commit_quantile(&r, 0.999) / 1e3, "waits",
                     (json_int_t)rates_growth(&r, "batch.waits"), "company",
                     (json_int_t)rates_growth(&r, "batch.company"), "series", series);
}

json_t *result_json(const struct load *load)
{
    const struct measurement *m = &load->m;
    double seconds = result_seconds(load);
    json_t *result = json_pack(
        "{s:s, s:o, s:o, s:f, s:f, s:f, s:o, s:o, s:o, s:o}", "nbdload", PACKAGE_VERSION,
        "options", options_json(load), "exports", exports_json(load), "seconds", seconds,
        "operations_per_second", m->operation.count / seconds, "bytes_per_second",
        m->operation_bytes / seconds, "operation", histogram_json(&m->operation), "requests",
        requests_json(load), "clients", clients_json(load), "series", series_json(load));

    if (result == NULL)
        return NULL;
    if (m->final_flush.count > 0) {
        double flush_seconds = (m->flush_end_ns - m->flush_start_ns) / 1e9;
        json_object_set_new(result, "final_flush", histogram_json(&m->final_flush));
        json_object_set_new(result, "final_flush_seconds", json_real(flush_seconds));
        json_object_set_new(result, "total_seconds", json_real(seconds + flush_seconds));
    }
    json_object_update_new(
        result, json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "sent", (json_int_t)m->sent,
                          "answered", (json_int_t)m->answered, "failed", (json_int_t)m->failed,
                          "unanswered", (json_int_t)m->unanswered, "behind",
                          (json_int_t)m->behind, "failures", failures_json(load)));
    if (load->server != NULL)
        json_object_set_new(result, "server", server_json(load));
    if (load->gone[0] != '\0')
        json_object_set_new(result, "gone", json_string(load->gone));
    if (load->ledger != NULL) {
        json_object_set_new(result, "broken", json_string(load->broken));
        json_object_set_new(result, "torn_reads", json_integer(result_torn_reads(load)));
    }
    json_object_set_new(result, "interrupted", json_boolean(load->signal != 0));
    json_object_set_new(result, "exit_code", json_integer(load_exit_code(load)));
    return result;
}
