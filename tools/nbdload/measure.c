/* measure: see measure.h. */
#include <string.h>

#include "measure.h"

void measure_start(struct measurement *m, uint64_t now_ns)
{
    m->start_ns = m->load_end_ns = now_ns;
    memset(&m->operation, 0, sizeof m->operation);
    memset(m->request, 0, sizeof m->request);
    memset(m->bytes, 0, sizeof m->bytes);
    m->operation_bytes = 0;
    memset(m->slices, 0, sizeof m->slices);
    m->slice_count = 0;
    m->slice_ns = SLICE_NS_FIRST;
}

void measure_request(struct measurement *m, const struct request *request)
{
    histogram_record(&m->request[request->kind], request->done_ns - request->sent_ns);
    if (request->kind != REQUEST_FLUSH)
        m->bytes[request->kind] += request->length;
}

static void slices_halve(struct measurement *m)
{
    for (unsigned i = 0; i < SLICES_MAX / 2; i++) {
        struct slice *a = &m->slices[2 * i], *b = a + 1;

        m->slices[i] = (struct slice){
            a->operations + b->operations,
            a->bytes + b->bytes,
            a->latency_sum_ns + b->latency_sum_ns,
            a->latency_max_ns > b->latency_max_ns ? a->latency_max_ns : b->latency_max_ns,
        };
    }
    memset(m->slices + SLICES_MAX / 2, 0, sizeof m->slices / 2);
    m->slice_ns *= 2;
    m->slice_count = SLICES_MAX / 2;
}

void measure_operation(struct measurement *m, uint64_t due_ns, uint64_t done_ns, uint64_t bytes)
{
    uint64_t latency_ns = done_ns - due_ns;
    struct slice *slice;
    unsigned index;

    if (done_ns < m->start_ns)
        return;
    histogram_record(&m->operation, latency_ns);
    m->operation_bytes += bytes;
    if (done_ns > m->load_end_ns)
        m->load_end_ns = done_ns;

    while ((done_ns - m->start_ns) / m->slice_ns >= SLICES_MAX)
        slices_halve(m);
    index = (done_ns - m->start_ns) / m->slice_ns;
    if (index >= m->slice_count)
        m->slice_count = index + 1;
    slice = &m->slices[index];
    slice->operations++;
    slice->bytes += bytes;
    slice->latency_sum_ns += latency_ns;
    if (latency_ns > slice->latency_max_ns)
        slice->latency_max_ns = latency_ns;
}

void measure_failure(struct measurement *m, const struct request *request, unsigned client)
{
    if (m->failed < FAILURES_KEPT)
        m->failures[m->failed] = (struct failure){
            request->kind,  request->offset, request->length,
            request->error, client,          request->connection->number,
        };
    m->failed++;
}
