/* plot: lines in a picture that any browser shows: SVG, to be set into a page. */
#ifndef NBDLOAD_PLOT_H
#define NBDLOAD_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct plot_line {
    const char *name;
    const double *x, *y; /* ascending in x; only finite numbers */
    size_t count;
};

struct plot {
    const char *title;
    const char *x_title, *y_title;
    double x_max;
    bool y_log; /* else from 0 */
    const struct plot_line *lines;
    size_t line_count;
    /* What stands at a tick; x null: the number. */
    void (*x_text)(double x, char *text, size_t size);
    void (*y_text)(double y, char *text, size_t size);
    double x_step; /* between ticks; 0: a round one */
};

#define PLOT_LINES_MAX 8

void plot_write(FILE *out, const struct plot *plot);

/* With what HTML reserves escaped. */
void plot_write_text(FILE *out, const char *text);

#endif
