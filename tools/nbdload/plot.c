/* plot: see plot.h. */
#include <math.h>
#include <string.h>

#include "plot.h"

#define WIDTH 900.0
#define HEIGHT 320.0
#define LEFT 90.0
#define RIGHT 150.0 /* room for the legend */
#define TOP 30.0
#define BOTTOM 45.0

/* Told apart without colour too. */
static const struct {
    const char *colour, *dash;
} styles[PLOT_LINES_MAX] = {
    {"#0b5fa5", ""},    {"#c2410c", "6 3"},  {"#15803d", "2 2"}, {"#7e22ce", "8 3 2 3"},
    {"#a16207", "1 3"}, {"#be123c", "10 4"}, {"#0f766e", "4 4"}, {"#374151", "12 3 3 3"},
};

struct frame {
    double y_min, y_max; /* logarithms if the scale is one */
    double x_max;
    bool y_log;
};

void plot_write_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            /* No byte that could end the page's encoding. */
            fputc((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f ? '?' : *text,
                  out);
        }
    }
}

static double place_x(const struct frame *f, double x)
{
    return LEFT + x / f->x_max * (WIDTH - LEFT - RIGHT);
}

static double place_y(const struct frame *f, double y)
{
    double value = f->y_log ? log10(y) : y;

    return HEIGHT - BOTTOM -
           (value - f->y_min) / (f->y_max - f->y_min) * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, so that there are about `ticks` of them. */
static double round_step(double span, int ticks)
{
    double power = pow(10, floor(log10(span / ticks)));
    double factor = span / ticks / power;

    return power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
}

static struct frame frame_of(const struct plot *plot)
{
    struct frame f = {.x_max = plot->x_max > 0 ? plot->x_max : 1, .y_log = plot->y_log};
    double low = INFINITY, high = 0;

    for (size_t i = 0; i < plot->line_count; i++) {
        for (size_t j = 0; j < plot->lines[i].count; j++) {
            double y = plot->lines[i].y[j];
            low = y > 0 && y < low ? y : low;
            high = y > high ? y : high;
        }
    }
    if (!plot->y_log) {
        f.y_max = high > 0 ? high * 1.05 : 1;
        return f;
    }
    if (low > high)
        low = high = 1;
    f.y_min = floor(log10(low));
    f.y_max = ceil(log10(high) + 1e-9);
    if (f.y_max <= f.y_min)
        f.y_max = f.y_min + 1;
    return f;
}

static void number_text(double value, char *text, size_t size)
{
    snprintf(text, size, "%g", value);
}

static void tick_x(FILE *out, const struct frame *f, double x, const char *text)
{
    fprintf(out,
            "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>"
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
            place_x(f, x), TOP, place_x(f, x), HEIGHT - BOTTOM, place_x(f, x),
            HEIGHT - BOTTOM + 16);
    plot_write_text(out, text);
    fputs("</text>\n", out);
}

static void tick_y(FILE *out, const struct frame *f, double y, const char *text)
{
    fprintf(out,
            "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>"
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">",
            LEFT, place_y(f, y), WIDTH - RIGHT, place_y(f, y), LEFT - 6, place_y(f, y) + 4);
    plot_write_text(out, text);
    fputs("</text>\n", out);
}

static void write_axes(FILE *out, const struct plot *plot, const struct frame *f)
{
    double step = plot->x_step > 0 ? plot->x_step : round_step(f->x_max, 10);
    char text[32];

    for (int i = 0; i * step <= f->x_max * 1.0001; i++) {
        (plot->x_text != NULL ? plot->x_text : number_text)(i * step, text, sizeof text);
        tick_x(out, f, i * step, text);
    }
    if (f->y_log) {
        /* Few decades have room for 2 and 5 as well. */
        static const int factors[] = {1, 2, 5};
        int count = f->y_max - f->y_min <= 3 ? 3 : 1;

        for (double decade = f->y_min; decade <= f->y_max; decade++) {
            for (int i = 0; i < count && (i == 0 || decade < f->y_max); i++) {
                plot->y_text(factors[i] * pow(10, decade), text, sizeof text);
                tick_y(out, f, factors[i] * pow(10, decade), text);
            }
        }
    } else {
        step = round_step(f->y_max, 6);
        for (int i = 0; i * step <= f->y_max; i++) {
            plot->y_text(i * step, text, sizeof text);
            tick_y(out, f, i * step, text);
        }
    }
    fprintf(out, "<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
    plot_write_text(out, plot->x_title);
    fprintf(out, "</text>\n<text class=\"axis\" x=\"4\" y=\"%.1f\">", TOP - 12);
    plot_write_text(out, plot->y_title);
    fputs("</text>\n", out);
}

static void write_line(FILE *out, const struct plot_line *line, const struct frame *f,
                       int number)
{
    fprintf(
        out,
        "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" stroke-dasharray=\"%s\" "
        "points=\"",
        styles[number].colour, styles[number].dash);
    for (size_t i = 0; i < line->count; i++) {
        if (!f->y_log || line->y[i] > 0)
            fprintf(out, "%.1f,%.1f ", place_x(f, line->x[i]), place_y(f, line->y[i]));
    }
    fputs("\"/>\n", out);
    fprintf(out,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"1.8\" stroke-dasharray=\"%s\"/>"
            "<text x=\"%.1f\" y=\"%.1f\">",
            WIDTH - RIGHT + 12, TOP + 10 + number * 18, WIDTH - RIGHT + 42,
            TOP + 10 + number * 18, styles[number].colour, styles[number].dash,
            WIDTH - RIGHT + 48, TOP + 14 + number * 18);
    plot_write_text(out, line->name);
    fputs("</text>\n", out);
}

void plot_write(FILE *out, const struct plot *plot)
{
    struct frame f = frame_of(plot);

    fprintf(out,
            "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\">",
            WIDTH, HEIGHT);
    fputs("<title>", out);
    plot_write_text(out, plot->title);
    fputs("</title>\n", out);
    write_axes(out, plot, &f);
    fprintf(out,
            "<rect class=\"frame\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
            LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    for (size_t i = 0; i < plot->line_count && i < PLOT_LINES_MAX; i++)
        write_line(out, &plot->lines[i], &f, i);
    fputs("</svg>\n", out);
}
