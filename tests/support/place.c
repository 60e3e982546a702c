/* place: see place.h. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "place.h"

#define PLACES_MAX 16

static struct {
    pid_t pid;
    char path[256];
} places[PLACES_MAX];
static int place_count;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void remove_places(void)
{
    for (int i = 0; i < place_count; i++) {
        if (places[i].pid == getpid())
            nftw(places[i].path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

static void die(const char *what, const char *path)
{
    perror(what);
    fprintf(stderr, "%s %s failed\n", what, path);
    abort();
}

const char *place_make(const char *base)
{
    char *path = places[place_count].path;

    if (base == NULL)
        base = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/var/tmp";
    if (place_count == PLACES_MAX)
        die("too many places", base);
    snprintf(path, sizeof(places[0].path), "%s/journal-test.XXXXXX", base);
    if (mkdtemp(path) == NULL)
        die("mkdtemp", path);
    if (place_count == 0)
        atexit(remove_places);
    places[place_count++].pid = getpid();
    return path;
}

const char *place_path(const char *place, const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", place, name);
    return path;
}

const char *place_file(const char *place, const char *name, uint64_t size)
{
    const char *path = place_path(place, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd == -1 || ftruncate(fd, size) == -1)
        die("making", path);
    close(fd);
    return path;
}
