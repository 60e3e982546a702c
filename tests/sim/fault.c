/* fault: one call of a workload fails, as one of the kinds of world.h, once or for ever. */
#include <errno.h>

#include "world.h"

static const int errors[IO_FAULT_KINDS] = {
    [IO_EIO] = -EIO,   [IO_ENOSPC] = -ENOSPC, [IO_EINTR] = -EINTR,
    [IO_SHORT] = -EIO, [IO_LATE] = -EIO,      [IO_LIES] = -EIO,
};

/* Does this call fail? */
static bool strikes(struct world *w, const struct disk *disk)
{
    struct io_fault *f = &w->io_fault;

    w->io_calls++;
    if (f->at == 0)
        return false;
    if (w->io_calls == f->at)
        f->disk = disk;
    else if (!f->for_ever || f->disk != disk)
        return false;
    w->had_fault = true;
    w->counts->faults++;
    return true;
}

int io_fault_write(struct world *w, const struct disk *disk, size_t *count)
{
    static const size_t shorts[] = {1, 511, 512, SIZE_MAX};
    struct io_fault *f = &w->io_fault;
    size_t most;

    if (!strikes(w, disk))
        return 0;
    switch (f->kind) {
    case IO_LATE:
    case IO_LIES:
        f->late = true;
        return 0;
    case IO_SHORT:
        most = shorts[w->io_calls % 4];
        *count = most < *count ? most : *count - 1;
        break;
    default:
        *count = 0;
        break;
    }
    return errors[f->kind];
}

int io_fault_barrier(struct world *w, const struct disk *disk)
{
    struct io_fault *f = &w->io_fault;
    bool now = strikes(w, disk);

    if (f->disk != disk)
        return 0;
    if (f->kind == IO_LIES && f->for_ever) { /* every other one says that all is well */
        now = f->late || w->io_calls % 2 == 0;
    } else if (f->late) {
        now = true;
    }
    f->late = false;
    if (now)
        w->had_fault = true; /* in this life, too */
    return now ? errors[f->kind] : 0;
}
