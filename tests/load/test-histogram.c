/* The histogram's quantiles are within one percent, its extremes exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "choice.h"
#include "histogram.h"

#define VALUES 20000

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Random values over `bits` powers of two. */
static void check_quantiles(unsigned bits, uint64_t seed)
{
    static struct histogram h;
    static uint64_t values[VALUES];
    struct random random = {seed};
    double sum = 0;

    memset(&h, 0, sizeof h);
    for (int i = 0; i < VALUES; i++) {
        values[i] = random_next(&random) >> (64 - 1 - random_below(&random, bits));
        histogram_record(&h, values[i]);
        sum += values[i];
    }
    qsort(values, VALUES, sizeof *values, compare);
    assert_int_equal(h.count, VALUES);
    assert_int_equal(h.min, values[0]);
    assert_int_equal(h.max, values[VALUES - 1]);
    assert_true(histogram_mean(&h) > 0.999999 * sum / VALUES);
    assert_true(histogram_mean(&h) < 1.000001 * sum / VALUES);
    for (int i = 1; i <= 1000; i++) {
        uint64_t exact = values[i * (VALUES / 1000) - 1];
        uint64_t told = histogram_quantile(&h, i / 1000.0);
        assert_true(told >= exact && told <= exact + exact / 100);
    }
    assert_int_equal(histogram_quantile(&h, 1), h.max);
}

static void test_quantiles(void **state)
{
    (void)state;
    for (unsigned bits = 1; bits <= HISTOGRAM_TOP_BITS; bits++)
        check_quantiles(bits, bits);
}

/* Around every power of two, where buckets change their width. */
static void test_edges(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < HISTOGRAM_TOP_BITS; bit++) {
        for (int near = -2; near <= 2; near++) {
            uint64_t value = (UINT64_C(1) << bit) + near;
            static struct histogram h;

            if ((int64_t)value < 0 || value >> HISTOGRAM_TOP_BITS != 0)
                continue;
            memset(&h, 0, sizeof h);
            histogram_record(&h, value);
            histogram_record(&h, value);
            histogram_record(&h, UINT64_C(1) << (HISTOGRAM_TOP_BITS - 1));
            assert_true(histogram_quantile(&h, 0.5) >= value);
            assert_true(histogram_quantile(&h, 0.5) <= value + value / 100);
        }
    }
}

static void test_too_long(void **state)
{
    static struct histogram h;

    (void)state;
    histogram_record(&h, UINT64_MAX);
    histogram_record(&h, 5);
    assert_int_equal(h.max, UINT64_MAX);
    assert_int_equal(histogram_quantile(&h, 0.5), 5);
    assert_int_equal(histogram_quantile(&h, 1), UINT64_MAX);
}

static void test_nothing(void **state)
{
    static struct histogram h, sum;

    (void)state;
    assert_int_equal(histogram_quantile(&h, 0.99), 0);
    assert_true(histogram_mean(&h) == 0);
    histogram_add(&sum, &h);
    assert_int_equal(sum.count, 0);
}

static void test_add(void **state)
{
    static struct histogram a, b;

    (void)state;
    histogram_record(&a, 10);
    histogram_record(&b, 3);
    histogram_record(&b, 1000);
    histogram_add(&a, &b);
    assert_int_equal(a.count, 3);
    assert_int_equal(a.min, 3);
    assert_int_equal(a.max, 1000);
    assert_int_equal(histogram_quantile(&a, 0.6), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_too_long),  cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_add),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
