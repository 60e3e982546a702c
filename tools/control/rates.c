/* rates: see rates.h. */
#include <string.h>

#include "ask.h"
#include "rates.h"

struct rates rates_make(const json_t *now, const json_t *before)
{
    uint64_t now_ns = ask_number(now, "uptime_ns"), before_ns = ask_number(before, "uptime_ns");
    struct rates p = {.now = now};

    if (before != NULL && ask_number(now, "pid") == ask_number(before, "pid") &&
        now_ns > before_ns) {
        p.before = before;
        p.seconds = (double)(now_ns - before_ns) / 1e9;
    }
    return p;
}

uint64_t rates_growth(const struct rates *p, const char *path)
{
    uint64_t now = ask_number(p->now, path), before = ask_number(p->before, path);

    return p->before == NULL || now < before ? 0 : now - before;
}

double rates_per_second(const struct rates *p, const char *path)
{
    return p->seconds > 0 ? (double)rates_growth(p, path) / p->seconds : 0;
}

static bool same_text(const json_t *a, const json_t *b, const char *key)
{
    const char *x = ask_text(a, key), *y = ask_text(b, key);

    return x == y || (x != NULL && y != NULL && strcmp(x, y) == 0);
}

/* Clients have "client" and "disk", disks "name". */
struct rates rates_row(const struct rates *p, const char *list, size_t i)
{
    struct rates row = {.now = json_array_get(ask_member(p->now, list), i),
                        .seconds = p->seconds};
    const json_t *others = ask_member(p->before, list);

    for (size_t j = 0; j < json_array_size(others) && row.before == NULL; j++) {
        const json_t *other = json_array_get(others, j);

        if (same_text(row.now, other, "name") && same_text(row.now, other, "client") &&
            same_text(row.now, other, "disk"))
            row.before = other;
    }
    return row;
}

static uint64_t bucket_count(const json_t *buckets, size_t i)
{
    return (uint64_t)json_integer_value(json_array_get(json_array_get(buckets, i), 1));
}

static json_int_t bucket_top(const json_t *buckets, size_t i)
{
    return json_integer_value(json_array_get(json_array_get(buckets, i), 0));
}

/* Both lists ascend, and what is in the older one is in the newer one, too. */
uint64_t rates_quantile(const struct rates *p, const char *path, double quantile)
{
    struct rates times = {.now = ask_member(p->now, path),
                          .before = ask_member(p->before, path)};
    const json_t *now = ask_member(times.now, "buckets");
    const json_t *before = ask_member(times.before, "buckets");
    uint64_t count = rates_growth(&times, "count"), seen = 0, rank;
    size_t j = 0;

    if (count == 0) {
        before = NULL;
        count = ask_number(times.now, "count");
    }
    rank = (uint64_t)(quantile * (double)count + 0.999999);
    for (size_t i = 0; i < json_array_size(now); i++) {
        seen += bucket_count(now, i);
        if (j < json_array_size(before) && bucket_top(before, j) == bucket_top(now, i))
            seen -= bucket_count(before, j++);
        if (seen > 0 && seen >= rank)
            return (uint64_t)bucket_top(now, i);
    }
    return 0;
}

uint64_t rates_commit_quantile(const struct rates *p, double quantile)
{
    return rates_quantile(p, "commits.time", quantile);
}
