/* batch: the rules of each policy, bounds, clocks that jump, connections that come and go.
 * Whether waiting pays is for tests/batch. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "batch.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define HOUR (3600 * 1000 * MS)

#define ALICE 11
#define BOB 22

/* A batch with its clock. */
struct desk {
    struct batch *batch;
    uint64_t now;
};

static struct desk desk_open(struct batch_config config)
{
    struct desk d = {.now = 5 * HOUR};

    assert_int_equal(batch_create(&d.batch, &config), 0);
    return d;
}

static struct desk desk_of(const char *policy)
{
    struct batch_config config = BATCH_CONFIG_DEFAULT;

    config.policy = policy;
    return desk_open(config);
}

static void desk_close(struct desk *d)
{
    batch_destroy(d->batch);
}

/* Each client has one connection here, with its own number. */
static bool arrive(struct desk *d, uint64_t client)
{
    return batch_arrive(d->batch, client, client, d->now);
}

/* The wait that is asked for, 0: none. */
static uint64_t wait_asked(struct desk *d)
{
    uint64_t until;

    if (batch_consult(d->batch, d->now, &until) == BATCH_GO)
        return 0;
    assert_true(until > d->now);
    return until - d->now;
}

static void commit(struct desk *d, uint64_t duration, uint64_t bytes)
{
    batch_commit_begin(d->batch, d->now);
    d->now += duration;
    batch_commit_end(d->batch, d->now, bytes, 0);
}

static struct batch_stats stats_of(struct desk *d)
{
    struct batch_stats stats;

    batch_stats(d->batch, &stats);
    return stats;
}

#define assert_near(value, expected, tolerance) \
    assert_in_range((value), (expected) - (tolerance), (expected) + (tolerance))

/* ---- creating ---- */

static void test_config(void **state)
{
    static const char *const names[] = {"none", "jbd", "jbd2", "rally"};
    struct batch_config config = BATCH_CONFIG_DEFAULT;
    struct batch *b = NULL;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        assert_string_equal(batch_policy_name(i), names[i]);
        config.policy = names[i];
        assert_int_equal(batch_create(&b, &config), 0);
        batch_destroy(b);
    }
    assert_null(batch_policy_name(4));
    batch_destroy(NULL);

    config = (struct batch_config)BATCH_CONFIG_DEFAULT;
    config.policy = NULL;
    config.connections = 0;
    struct desk d = desk_open(config);
    assert_string_equal(stats_of(&d).policy, "rally");
    desk_close(&d);

    config.policy = "rallye";
    assert_int_equal(batch_create(&b, &config), -EINVAL);
    config = (struct batch_config)BATCH_CONFIG_DEFAULT;
    config.min_us = config.max_us + 1;
    assert_int_equal(batch_create(&b, &config), -EINVAL);
    config = (struct batch_config)BATCH_CONFIG_DEFAULT;
    config.max_us = UINT64_MAX;
    assert_int_equal(batch_create(&b, &config), -EINVAL);
    config = (struct batch_config)BATCH_CONFIG_DEFAULT;
    config.tick_us = UINT64_MAX;
    assert_int_equal(batch_create(&b, &config), -EINVAL);
    config = (struct batch_config)BATCH_CONFIG_DEFAULT;
    config.connections = BATCH_CONNECTIONS_MAX + 1;
    assert_int_equal(batch_create(&b, &config), -EINVAL);
}

/* ---- none, jbd, jbd2 ---- */

static void test_none(void **state)
{
    struct batch_config config = {.policy = "none", .min_us = 1000, .max_us = 2000};
    struct desk d = desk_open(config);

    (void)state;
    for (int i = 0; i < 100; i++) {
        arrive(&d, ALICE);
        arrive(&d, BOB);
        assert_int_equal(wait_asked(&d), 0);
        commit(&d, MS, 4096);
    }
    assert_int_equal(stats_of(&d).waits, 0);
    assert_int_equal(stats_of(&d).commits, 100);
    assert_int_equal(stats_of(&d).flushes, 200);
    desk_close(&d);
}

static void test_jbd(void **state)
{
    struct batch_config config = BATCH_CONFIG_DEFAULT;
    config.policy = "jbd";
    config.tick_us = 4000;
    struct desk d = desk_open(config);

    (void)state;
    /* Alone: no wait. */
    for (int i = 0; i < 10; i++) {
        arrive(&d, ALICE);
        assert_int_equal(wait_asked(&d), 0);
        commit(&d, MS, 4096);
    }
    /* Another one: a tick, however long a commit takes, and however many join. */
    arrive(&d, BOB);
    assert_int_equal(wait_asked(&d), 4 * MS);
    d.now += 3 * MS;
    assert_false(arrive(&d, ALICE));
    assert_int_equal(wait_asked(&d), MS);
    d.now += MS;
    assert_int_equal(wait_asked(&d), 0);
    commit(&d, MS, 4096);
    assert_int_equal(stats_of(&d).waits, 1);
    assert_int_equal(stats_of(&d).waits_ns, 4 * MS);
    assert_int_equal(stats_of(&d).company, 1);

    /* The same one, while its flush is in flight: they are company for each other. */
    arrive(&d, ALICE);
    assert_int_equal(wait_asked(&d), 0);
    batch_commit_begin(d.batch, d.now);
    arrive(&d, ALICE);
    d.now += MS;
    batch_commit_end(d.batch, d.now, 4096, 0);
    assert_int_equal(wait_asked(&d), 3 * MS);
    desk_close(&d);

    config.max_us = 2500;
    d = desk_open(config);
    arrive(&d, ALICE);
    commit(&d, MS, 4096);
    arrive(&d, BOB);
    assert_int_equal(wait_asked(&d), 2500 * US);
    desk_close(&d);
}

static void jbd2_average(struct desk *d)
{
    arrive(d, ALICE);
    assert_int_equal(wait_asked(d), 0); /* alone, and nothing is known */
    commit(d, 1000 * US, 4096);
    arrive(d, ALICE);
    assert_int_equal(wait_asked(d), 0);
    commit(d, 2000 * US, 4096);
}

static void test_jbd2(void **state)
{
    struct desk d = desk_of("jbd2");

    (void)state;
    jbd2_average(&d);
    assert_int_equal(stats_of(&d).commit_ns, 1250 * US);

    /* Each sleeps on its own; who wakes first waits for those who came before. */
    arrive(&d, BOB);
    assert_int_equal(wait_asked(&d), 1250 * US);
    d.now += 1000 * US;
    assert_false(arrive(&d, ALICE));
    assert_int_equal(wait_asked(&d), 250 * US);
    d.now += 250 * US;
    assert_int_equal(wait_asked(&d), 1000 * US);
    arrive(&d, BOB); /* too late to be waited for */
    assert_int_equal(wait_asked(&d), 1000 * US);
    d.now += 1000 * US;
    assert_int_equal(wait_asked(&d), 0);
    commit(&d, 1250 * US, 4096);
    assert_int_equal(stats_of(&d).company, 2);

    /* What came during a commit has slept meanwhile. */
    arrive(&d, ALICE);
    d.now += 1250 * US;
    assert_int_equal(wait_asked(&d), 0);
    batch_commit_begin(d.batch, d.now);
    d.now += 1000 * US;
    arrive(&d, BOB);
    d.now += 250 * US;
    batch_commit_end(d.batch, d.now, 4096, 0);
    assert_int_equal(wait_asked(&d), 1000 * US);

    /* The same again, not alone. */
    d.now += 500 * US;
    assert_false(arrive(&d, BOB));
    assert_int_equal(wait_asked(&d), 500 * US);
    desk_close(&d);
}

static void test_jbd2_bounds(void **state)
{
    struct batch_config config = {.policy = "jbd2", .min_us = 3000, .max_us = 5000};
    struct desk d = desk_open(config);

    (void)state;
    jbd2_average(&d);
    arrive(&d, BOB);
    assert_int_equal(wait_asked(&d), 3000 * US);
    desk_close(&d);

    config = (struct batch_config){.policy = "jbd2", .min_us = 0, .max_us = 700};
    d = desk_open(config);
    jbd2_average(&d);
    arrive(&d, BOB);
    assert_int_equal(wait_asked(&d), 700 * US);
    desk_close(&d);
}

/* ---- rally ---- */

#define CLIENTS_MAX 4
#define NEVER UINT64_MAX

/* The client that arrives next, if that is before `until`. */
static bool arrives_next(struct desk *d, uint64_t *arrivals, unsigned clients, uint64_t until)
{
    unsigned next = 0;

    for (unsigned i = 1; i < clients; i++) {
        if (arrivals[i] < arrivals[next])
            next = i;
    }
    if (arrivals[next] >= until)
        return false;
    d->now = arrivals[next];
    arrivals[next] = NEVER;
    arrive(d, 1 + next);
    return true;
}

/* Clients 1.. flush again delay + i * 10 us after they were answered; a commit takes 1 ms;
 * waits that are asked for are waited.  Returns how many commits were held back.  When waiting
 * has brought them together, all were just answered at the end. */
static unsigned rounds(struct desk *d, unsigned clients, unsigned count, uint64_t delay)
{
    uint64_t waits = stats_of(d).waits, arrivals[CLIENTS_MAX], wait, end;
    bool pending = false;

    for (unsigned i = 0; i < clients; i++)
        arrivals[i] = d->now + delay + i * 10 * US;
    for (unsigned commits = 1; commits < count + 20; commits++) {
        bool all = true;
        if (!pending)
            arrives_next(d, arrivals, clients, NEVER);
        while ((wait = wait_asked(d)) > 0) {
            if (!arrives_next(d, arrivals, clients, d->now + wait))
                d->now += wait;
        }
        batch_commit_begin(d->batch, d->now);
        end = d->now + MS;
        uint64_t answered[CLIENTS_MAX];
        for (unsigned i = 0; i < clients; i++) {
            all = all && arrivals[i] == NEVER;
            answered[i] = arrivals[i] == NEVER ? end + delay + i * 10 * US : NEVER;
        }
        pending = false;
        while (arrives_next(d, arrivals, clients, end))
            pending = true;
        d->now = end;
        batch_commit_end(d->batch, d->now, 4096, 0);
        if (all && commits >= count)
            break;
        for (unsigned i = 0; i < clients; i++) {
            if (answered[i] != NEVER)
                arrivals[i] = answered[i];
        }
    }
    return (unsigned)(stats_of(d).waits - waits);
}

static void test_rally_lone(void **state)
{
    struct desk d = desk_of("rally");

    (void)state;
    for (int i = 0; i < 2000; i++) {
        d.now += (uint64_t)(random() % 3000) * US;
        arrive(&d, ALICE);
        assert_int_equal(wait_asked(&d), 0);
        commit(&d, MS, 4096);
    }
    assert_int_equal(stats_of(&d).waits, 0);
    desk_close(&d);
}

static void test_rally_waits(void **state)
{
    struct desk d = desk_of("rally");

    (void)state;
    assert_true(rounds(&d, 2, 50, 50 * US) >= 30);
    assert_near(stats_of(&d).commit_ns, MS, 10 * US);
    assert_near(stats_of(&d).fixed_ns, MS, 10 * US);
    assert_near(stats_of(&d).return_ns, 60 * US, 10 * US);

    /* One is back, the other will be soon. */
    d.now += 50 * US;
    arrive(&d, 1);
    assert_in_range(wait_asked(&d), 1, 100 * US);
    /* It is: go, and the leader must know. */
    d.now += 10 * US;
    assert_true(arrive(&d, 2));
    assert_int_equal(wait_asked(&d), 0);
    commit(&d, MS, 4096);

    /* It isn't: the wait has an end. */
    d.now += 50 * US;
    arrive(&d, 1);
    uint64_t since = d.now, wait;
    while ((wait = wait_asked(&d)) > 0)
        d.now += wait;
    assert_in_range(d.now - since, 1, MS + US);
    batch_commit_begin(d.batch, d.now);
    /* After "go" it stays so. */
    desk_close(&d);
}

/* Clients 1 .. clients come back after their delays, all are answered together. */
static void learn_delays(struct desk *d, const uint64_t *delays, unsigned clients,
                         uint64_t duration)
{
    for (unsigned round = 0; round < 60; round++) {
        uint64_t end = d->now;
        for (unsigned i = 0; i < clients; i++) {
            d->now = end + delays[i];
            arrive(d, 1 + i);
        }
        commit(d, duration, 4096);
    }
}

static void test_rally_go_stays(void **state)
{
    static const uint64_t delays[] = {50 * US, 55 * US, 60 * US, 1500 * US};
    struct desk d = desk_of("rally");

    (void)state;
    learn_delays(&d, delays, 4, 2 * MS);
    d.now += 80 * US;
    for (unsigned i = 1; i <= 3; i++)
        arrive(&d, i);
    assert_int_equal(wait_asked(&d), 0); /* the fourth is too far */
    /* When it was near, it would be waited for. */
    d.now += 1320 * US;
    assert_int_equal(wait_asked(&d), 0);
    assert_false(arrive(&d, 9));
    assert_int_equal(wait_asked(&d), 0);
    desk_close(&d);

    d = desk_of("rally");
    learn_delays(&d, delays, 4, 2 * MS);
    d.now += 80 * US;
    for (unsigned i = 1; i <= 3; i++)
        arrive(&d, i);
    d.now += 1320 * US;
    assert_true(wait_asked(&d) > 0);
    desk_close(&d);
}

/* However many would come: not longer than F. */
static void test_rally_at_most_fixed(void **state)
{
    static const uint64_t delays[] = {50 * US, 3000 * US, 3010 * US, 3020 * US};
    struct desk d = desk_of("rally");
    uint64_t wait, since;

    (void)state;
    learn_delays(&d, delays, 4, MS);
    d.now += 50 * US;
    arrive(&d, 1);
    since = d.now;
    while ((wait = wait_asked(&d)) > 0)
        d.now += wait;
    assert_in_range(d.now - since, 0, MS + US);
    desk_close(&d);
}

/* Who comes back after several commits is not waited for. */
static void test_rally_slow(void **state)
{
    struct desk d = desk_of("rally");

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        d.now += 2 * MS;
        arrive(&d, 1 + i % 4);
        assert_int_equal(wait_asked(&d), 0);
        commit(&d, MS, 4096);
    }
    desk_close(&d);
}

static void test_rally_disconnect(void **state)
{
    struct desk d = desk_of("rally");

    (void)state;
    rounds(&d, 2, 50, 50 * US);
    d.now += 50 * US;
    arrive(&d, 1);
    assert_true(wait_asked(&d) > 0);
    assert_false(batch_disconnect(d.batch, 77, d.now)); /* nobody */
    assert_true(wait_asked(&d) > 0);
    assert_true(batch_disconnect(d.batch, 2, d.now));
    assert_int_equal(wait_asked(&d), 0);
    commit(&d, MS, 4096);
    for (unsigned i = 0; i < 100; i++) {
        d.now += 50 * US;
        arrive(&d, 1);
        assert_int_equal(wait_asked(&d), 0);
        commit(&d, MS, 4096);
    }
    desk_close(&d);
}

/* Flushes in flight of one connection wait for each other. */
static void test_rally_depth(void **state)
{
    struct desk d = desk_of("rally");
    unsigned i;

    (void)state;
    for (i = 0; i < 30; i++) {
        d.now += 40 * US;
        arrive(&d, ALICE);
        if (wait_asked(&d) > 0)
            d.now += 10 * US;
        arrive(&d, ALICE);
        commit(&d, MS, 4096);
    }
    d.now += 40 * US;
    arrive(&d, ALICE);
    assert_true(wait_asked(&d) > 0);
    d.now += 10 * US;
    assert_true(arrive(&d, ALICE));
    desk_close(&d);
}

/* Waits as asked, and wakes up late. */
static void obey(struct desk *d, uint64_t late)
{
    uint64_t wait;

    while ((wait = wait_asked(d)) > 0)
        d->now += wait + late;
}

/* Two clients, a commit of 1 ms, and a leader that is late whenever it is to wake up. */
static uint64_t waits_of_late_leader(uint64_t late)
{
    struct desk d = desk_of("rally");
    uint64_t wait, waits;

    for (unsigned i = 0; i < 200; i++) {
        uint64_t end = d.now;
        d.now = end + 200 * US;
        arrive(&d, 1);
        wait = wait_asked(&d);
        if (wait > 0) {
            bool wake;
            d.now += 10 * US;
            wake = arrive(&d, 2);
            d.now += wake ? late : wait - 10 * US + late;
            obey(&d, late);
            commit(&d, MS, 4096);
        } else {
            batch_commit_begin(d.batch, d.now);
            d.now += 10 * US;
            arrive(&d, 2);
            d.now += MS;
            batch_commit_end(d.batch, d.now, 4096, 0);
            d.now += late;
            obey(&d, late);
            commit(&d, MS, 4096);
        }
    }
    assert_near(stats_of(&d).wake_ns, late, late / 10);
    waits = stats_of(&d).waits;
    desk_close(&d);
    return waits;
}

static void test_rally_late_leader(void **state)
{
    (void)state;
    assert_in_range(waits_of_late_leader(0), 150, 200);
    assert_in_range(waits_of_late_leader(50 * US), 150, 200);
    /* It would wake up when all that could be won is lost. */
    assert_in_range(waits_of_late_leader(1500 * US), 0, 20);
}

/* F is what is left when the bytes are taken out. */
static void test_rally_fixed_part(void **state)
{
    struct desk d = desk_of("rally");

    (void)state;
    srandom(3);
    for (unsigned i = 0; i < 300; i++) {
        uint64_t bytes = 4096 + (uint64_t)(random() % 1000000);
        arrive(&d, ALICE);
        commit(&d, 300 * US + bytes * 2, bytes); /* 2 ns a byte: 1 ms on average */
    }
    assert_near(stats_of(&d).commit_ns, 1300 * US, 400 * US);
    assert_near(stats_of(&d).fixed_ns, 300 * US, 100 * US);
    /* Not forgotten while nothing new is learned. */
    for (unsigned i = 0; i < 1000; i++) {
        arrive(&d, ALICE);
        commit(&d, 1300 * US, 500000);
    }
    assert_near(stats_of(&d).fixed_ns, 300 * US, 100 * US);
    desk_close(&d);
}

static void test_rally_learns_no_errors(void **state)
{
    struct desk d = desk_of("rally");

    (void)state;
    rounds(&d, 2, 50, 50 * US);
    struct batch_stats before = stats_of(&d);
    for (unsigned i = 0; i < 20; i++) {
        arrive(&d, 1);
        batch_commit_begin(d.batch, d.now);
        d.now += 500 * MS;
        batch_commit_end(d.batch, d.now, 4096, -EIO);
    }
    /* Nor from commits that nobody waits for. */
    for (unsigned i = 0; i < 20; i++)
        commit(&d, 500 * MS, 1000000);
    assert_int_equal(stats_of(&d).commit_ns, before.commit_ns);
    assert_int_equal(stats_of(&d).fixed_ns, before.fixed_ns);
    assert_int_equal(stats_of(&d).commits, before.commits);
    desk_close(&d);
}

/* min-batch-time: as soon as there is company. */
static void test_rally_min(void **state)
{
    struct batch_config config = {.policy = "rally", .min_us = 800, .max_us = 15000};
    struct desk d = desk_open(config);

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        arrive(&d, ALICE);
        assert_int_equal(wait_asked(&d), 0);
        commit(&d, MS, 4096);
    }
    arrive(&d, ALICE);
    arrive(&d, BOB);
    assert_int_equal(wait_asked(&d), 800 * US);
    d.now += 800 * US;
    assert_int_equal(wait_asked(&d), 0);
    desk_close(&d);
}

/* ---- for every policy ---- */

static void for_each_policy(void (*test)(const char *policy))
{
    for (unsigned i = 0; batch_policy_name(i) != NULL; i++)
        test(batch_policy_name(i));
}

static void max_zero(const char *policy)
{
    struct batch_config config = {.policy = policy, .max_us = 0, .tick_us = 4000};
    struct desk d = desk_open(config);

    assert_int_equal(rounds(&d, 3, 200, 50 * US), 0);
    desk_close(&d);
}

static void test_max_zero(void **state)
{
    (void)state;
    for_each_policy(max_zero);
}

/* Anything in any order, with clocks that jump: no commit is held back longer than the bound,
 * by the clock of whoever asks. */
static void random_events(const char *policy, unsigned seed, bool jumps)
{
    struct batch_config config = {.policy = policy,
                                  .min_us = seed % 3 == 0 ? 100 : 0,
                                  .max_us = 900,
                                  .tick_us = 500,
                                  .connections = 1 + seed % 7};
    struct desk d = desk_open(config);
    bool inflight = false;
    uint64_t pending = 0, asked = 0, waited = 0;

    srandom(seed);
    for (unsigned step = 0; step < 5000; step++) {
        uint64_t client = (uint64_t)(random() % 9), wait;
        unsigned what = (unsigned)(random() % 100);

        if (jumps && random() % 50 == 0)
            d.now = (uint64_t)random() * 1000 + (uint64_t)random();
        if (what < 40) {
            batch_arrive(d.batch, client / 2, client, d.now);
            pending++;
        } else if (what < 50 && inflight) {
            batch_arrive_covered(d.batch, client / 2, client, d.now);
        } else if (what < 53) {
            batch_disconnect(d.batch, client, d.now);
        } else if (inflight) {
            d.now += (uint64_t)(random() % 600) * US;
            batch_commit_end(d.batch, d.now, (uint64_t)(random() % 100000),
                             -(random() % 9 == 0));
            inflight = false;
            waited = 0;
        } else if (pending > 0 && (wait = wait_asked(&d)) > 0) {
            assert_in_range(wait, 1, 900 * US);
            if (random() % 2)
                wait = 1 + (uint64_t)random() % wait; /* something else wakes the leader */
            d.now += wait;
            waited += wait;
            asked++;
            if (!jumps)
                assert_in_range(waited, 1, 900 * US);
        } else {
            batch_commit_begin(d.batch, d.now);
            inflight = true;
            pending = 0;
        }
    }
    if (config.connections > 2 && !jumps)
        assert_int_equal(asked > 0, stats_of(&d).waits > 0);
    desk_close(&d);
}

static void random_seeds(const char *policy)
{
    for (unsigned seed = 1; seed <= 30; seed++) {
        random_events(policy, seed, false);
        random_events(policy, seed, true);
    }
}

static void test_random(void **state)
{
    (void)state;
    for_each_policy(random_seeds);
}

/* C45.  A held commit goes out in time when the clock is set back or jumps ahead, and the next
 * ones don't notice. */
static void clock_jumps(const char *policy)
{
    static const int64_t jumps[] = {-(int64_t)HOUR, (int64_t)HOUR, -(int64_t)(3 * MS),
                                    -(int64_t)(300 * US)};

    for (unsigned i = 0; i < 4; i++) {
        struct batch_config config = BATCH_CONFIG_DEFAULT;
        config.policy = policy;
        struct desk d = desk_open(config);
        uint64_t since, wait;

        rounds(&d, 2, 50, 50 * US);
        d.now += 50 * US;
        arrive(&d, 1);
        wait_asked(&d);
        d.now += (uint64_t)jumps[i];
        since = d.now;
        while ((wait = wait_asked(&d)) > 0)
            d.now += wait;
        assert_in_range(d.now - since, 0, 15 * MS);
        commit(&d, MS, 4096);
        rounds(&d, 2, 200, 50 * US);
        assert_in_range(stats_of(&d).commit_ns, 0, MS + 10 * US);
        desk_close(&d);
    }
}

static void test_clock(void **state)
{
    (void)state;
    for_each_policy(clock_jumps);
}

/* After a jump it waits again where that pays. */
static void test_clock_recovers(void **state)
{
    struct desk d = desk_of("rally");

    (void)state;
    rounds(&d, 2, 50, 50 * US);
    d.now -= HOUR;
    rounds(&d, 2, 5, 50 * US);
    assert_true(rounds(&d, 2, 50, 50 * US) >= 40);
    /* Or after an idle hour. */
    d.now += HOUR;
    rounds(&d, 2, 5, 50 * US);
    assert_true(rounds(&d, 2, 50, 50 * US) >= 40);
    desk_close(&d);
}

/* Threads read the clock before they take the lock: a little disorder is no jump. */
static void test_clock_disorder(void **state)
{
    struct desk d = desk_of("rally");
    uint64_t until;

    (void)state;
    rounds(&d, 2, 50, 50 * US);
    d.now += 50 * US;
    arrive(&d, 1);
    assert_int_equal(batch_consult(d.batch, d.now - 20 * US, &until), BATCH_WAIT);
    assert_in_range(until, d.now - 20 * US + 1, d.now + 100 * US);
    assert_true(batch_arrive(d.batch, 2, 2, d.now - 10 * US));
    assert_int_equal(wait_asked(&d), 0);

    /* Much of it doesn't make our time run faster. */
    for (unsigned i = 0; i < 20; i++) {
        batch_commit_begin(d.batch, d.now);
        for (unsigned k = 0; k < 100; k++) {
            d.now += 10 * US;
            batch_arrive(d.batch, 3, 3, d.now);
            batch_arrive(d.batch, 4, 4, d.now - 20 * US);
        }
        batch_commit_end(d.batch, d.now, 4096, 0);
    }
    assert_near(stats_of(&d).commit_ns, MS, US);
    desk_close(&d);
}

/* ---- connections ---- */

static void test_reuse(void **state)
{
    struct batch_config config = BATCH_CONFIG_DEFAULT;
    config.connections = 4;
    struct desk d = desk_open(config);

    (void)state;
    /* More than there are places for, one after the other. */
    for (uint64_t i = 0; i < 1000; i++) {
        arrive(&d, i);
        commit(&d, MS, 4096);
    }
    assert_int_equal(stats_of(&d).forgotten, 996);
    /* And all at once: they are served, and those who have a place are still known. */
    for (unsigned round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 100; i++)
            arrive(&d, i);
        commit(&d, MS, 4096);
    }
    assert_int_equal(stats_of(&d).flushes, 1300);
    assert_int_equal(stats_of(&d).commits, 1003);
    desk_close(&d);

    /* The one that is silent longest goes. */
    d = desk_open(config);
    for (uint64_t i = 1; i <= 4; i++)
        arrive(&d, i);
    commit(&d, MS, 4096);
    arrive(&d, 1);
    commit(&d, MS, 4096);
    for (uint64_t i = 5; i <= 7; i++)
        arrive(&d, i);
    assert_int_equal(stats_of(&d).forgotten, 3);
    arrive(&d, 1); /* still there */
    assert_int_equal(stats_of(&d).forgotten, 3);
    desk_close(&d);

    /* And nobody is held back for it. */
    config.connections = 2;
    d = desk_open(config);
    rounds(&d, 2, 50, 50 * US);
    d.now += 50 * US;
    arrive(&d, 2);
    assert_true(wait_asked(&d) > 0);
    assert_true(arrive(&d, 3)); /* in the place of 1 */
    assert_int_equal(wait_asked(&d), 0);
    desk_close(&d);
}

static void test_disconnect_while_busy(void **state)
{
    struct batch_config config = BATCH_CONFIG_DEFAULT;
    config.connections = 2;
    struct desk d = desk_open(config);

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        arrive(&d, ALICE);
        arrive(&d, ALICE);
        if (i % 2)
            batch_disconnect(d.batch, ALICE, d.now);
        batch_commit_begin(d.batch, d.now);
        arrive(&d, BOB);
        batch_arrive_covered(d.batch, BOB, BOB, d.now);
        batch_disconnect(d.batch, i % 3 ? ALICE : BOB, d.now);
        d.now += MS;
        batch_commit_end(d.batch, d.now, 4096, 0);
        commit(&d, MS, 4096);
    }
    assert_int_equal(stats_of(&d).forgotten, 0); /* places of the gone ones were free */
    desk_close(&d);
}

/* Many flushes of one connection, answered by as many commits: what is remembered is bounded,
 * and nobody is waited for in vain. */
static void test_deep_connection(void **state)
{
    struct desk d = desk_of("rally");

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        arrive(&d, ALICE);
        batch_commit_begin(d.batch, d.now);
        for (unsigned k = 0; k < 40; k++)
            batch_arrive_covered(d.batch, ALICE, ALICE, d.now);
        d.now += MS;
        batch_commit_end(d.batch, d.now, 4096, 0);
        d.now += 10 * US;
    }
    assert_int_equal(stats_of(&d).flushes, 4100);
    assert_int_equal(stats_of(&d).commits, 100);
    desk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_jbd),
        cmocka_unit_test(test_jbd2),
        cmocka_unit_test(test_jbd2_bounds),
        cmocka_unit_test(test_rally_lone),
        cmocka_unit_test(test_rally_waits),
        cmocka_unit_test(test_rally_go_stays),
        cmocka_unit_test(test_rally_at_most_fixed),
        cmocka_unit_test(test_rally_slow),
        cmocka_unit_test(test_rally_disconnect),
        cmocka_unit_test(test_rally_depth),
        cmocka_unit_test(test_rally_late_leader),
        cmocka_unit_test(test_rally_fixed_part),
        cmocka_unit_test(test_rally_learns_no_errors),
        cmocka_unit_test(test_rally_min),
        cmocka_unit_test(test_max_zero),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_clock_recovers),
        cmocka_unit_test(test_clock_disorder),
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_disconnect_while_busy),
        cmocka_unit_test(test_deep_connection),
    };

    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
