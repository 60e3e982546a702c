/* probes: places where bpftrace, perf or SystemTap can look at a running server, without a restart.
 * Each is one instruction that does nothing until somebody looks (USDT, <sys/sdt.h>); without that
 * header at the build they are not there.  nbdkit-journal-plugin(1), PROBES, lists them. */
#ifndef JOURNAL_PROBES_H
#define JOURNAL_PROBES_H

#include <stdint.h>

#ifdef HAVE_SDT
#include <sys/sdt.h>
#define PROBE2(name, a, b) DTRACE_PROBE2(nbdkit_journal, name, a, b)
#define PROBE3(name, a, b, c) DTRACE_PROBE3(nbdkit_journal, name, a, b, c)
#define PROBE5(name, a, b, c, d, e) DTRACE_PROBE5(nbdkit_journal, name, a, b, c, d, e)
#else
#define PROBE2(name, a, b) ((void)(a), (void)(b))
#define PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#define PROBE5(name, a, b, c, d, e) ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e))
#endif

/* A change has its place in the order.  kind: enum record_kind; image: its number. */
static inline void probe_admit(uint64_t lsn, uint32_t image, uint32_t kind, uint64_t offset,
                               uint64_t length)
{
    PROBE5(admit, lsn, image, kind, offset, length);
}

static inline void probe_commit_begin(uint64_t number, uint64_t target_lsn)
{
    PROBE2(commit_begin, number, target_lsn);
}

static inline void probe_commit_end(uint64_t number, uint64_t ns, int error)
{
    PROBE3(commit_end, number, ns, error);
}

static inline void probe_checkpoint_begin(uint64_t used_bytes, uint64_t ring_bytes)
{
    PROBE2(checkpoint_begin, used_bytes, ring_bytes);
}

static inline void probe_checkpoint_end(uint64_t used_bytes, uint64_t ns, int error)
{
    PROBE3(checkpoint_end, used_bytes, ns, error);
}

/* A change had to wait for space in the ring, so long. */
static inline void probe_throttle(uint64_t ns, int error)
{
    PROBE2(throttle, ns, error);
}

#endif
