/* progress: see progress.h. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "load_state.h"
#include "progress.h"

static const char *const phase_name[] = {
    [LOAD_CONNECTING] = "connecting", [LOAD_WARMING] = "warming up", [LOAD_RUNNING] = "running",
    [LOAD_DRAINING] = "finishing",    [LOAD_FLUSHING] = "flushing",  [LOAD_ENDED] = "ended",
};

void progress_show(const struct load *load)
{
    const struct measurement *m = &load->m;
    static uint64_t last_ns, last_operations, last_bytes;
    uint64_t now_ns = clock_ns(), operations = m->operation.count, bytes = m->operation_bytes;
    double seconds = (now_ns - last_ns) / 1e9;

    if (!isatty(STDERR_FILENO))
        return;
    /* The counts begin anew after the warm-up. */
    if (last_ns != 0 && operations >= last_operations)
        fprintf(
            stderr,
            "\r%s %.0f s: %.0f operations/s, %.1f MiB/s, p99 %.2f ms, %" PRIu64 " errors\033[K",
            phase_name[load->phase], load->begin_ns == 0 ? 0 : (now_ns - load->begin_ns) / 1e9,
            (operations - last_operations) / seconds, (bytes - last_bytes) / seconds / 0x1p20,
            histogram_quantile(&m->operation, 0.99) / 1e6, m->failed);
    last_ns = now_ns;
    last_operations = operations;
    last_bytes = bytes;
}

void progress_clear(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}
