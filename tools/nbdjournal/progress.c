/* progress: see progress.h. */
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"
#include "size.h"

#define BAR_CELLS 30
#define PAUSE_NS UINT64_C(100000000)

static const char *what;
static bool shown;
static uint64_t begun_ns, drawn_ns;

static uint64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void progress_begin(const char *words)
{
    what = isatty(STDERR_FILENO) ? words : NULL;
    begun_ns = monotonic_ns();
}

static void draw(uint64_t done, uint64_t total)
{
    char done_text[SIZE_TEXT_BYTES], total_text[SIZE_TEXT_BYTES], rate_text[SIZE_TEXT_BYTES];
    uint64_t passed_ns = drawn_ns - begun_ns;
    double part = total == 0 ? 1 : (double)done / (double)total;
    int cells = (int)(part * BAR_CELLS);
    char bar[BAR_CELLS + 1];

    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = i < cells ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    /* To the end of the line: the text before may have been longer. */
    fprintf(stderr, "\r%s [%s] %3d %%  %s of %s", what, bar, (int)(part * 100),
            size_text(done, done_text), size_text(total, total_text));
    if (passed_ns >= PAUSE_NS)
        fprintf(stderr, ", %s/s",
                size_text((uint64_t)((double)done * 1e9 / (double)passed_ns), rate_text));
    fputs("\033[K", stderr);
    fflush(stderr);
    shown = true;
}

void progress_update(void *opaque, uint64_t done, uint64_t total)
{
    (void)opaque;
    if (what == NULL || (shown && done < total && monotonic_ns() - drawn_ns < PAUSE_NS))
        return;
    drawn_ns = monotonic_ns();
    draw(done < total ? done : total, total);
}

void progress_clear(void)
{
    if (!shown)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    shown = false;
}

void progress_end(void)
{
    progress_clear();
    what = NULL;
}
