/* served: an engine on real files, for the tests of the engine.
 *
 * cmocka's assertions are for the main thread only; threads use CHECK, which ends the program.
 */
#ifndef ENGINE_TEST_SERVED_H
#define ENGINE_TEST_SERVED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"
#include "faulty.h"
#include "words.h"

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

struct files {
    char image[512];
    char journal[512];
    struct engine_config config; /* recover=yes, commit interval one hour */
};

/* For cmocka's setup and teardown: a new image of this size in a place of its own, words begun;
 * *state is a struct files. */
int files_make(void **state, uint64_t image_bytes, uint64_t journal_bytes);
int files_drop(void **state);
/* A test that ends without a clean stop leaves its journal's staging behind. */
void drop_staging(const char *journal);

/* The engine's one disk; after served_activate it may be changed. */
struct engine_disk *served_disk(struct engine *e);
int served_activate(struct engine *e);

/* Opens, starts and activates. */
struct engine *files_serve(const struct files *files);
/* Opens on storages that fail as told (made here, owned by the engine); a missing journal is
 * created.  They look remote: no marks, no staging. */
int files_open_faulty(const struct files *files, struct engine **e, struct storage **journal,
                      struct storage **image);
/* The same, started and activated. */
struct engine *files_serve_faulty(const struct files *files, struct storage **journal,
                                  struct storage **image);
/* A clean stop, which must drain; closes. */
void served_stop(struct engine *e);

/* The file's bytes must be the model's. */
void assert_file(const char *path, const uint8_t *model, size_t count);
/* All that the engine reads must be the model's. */
void assert_disk(struct engine *e, const uint8_t *model, size_t count);

/* The whole file. */
uint8_t *file_bytes(const char *path, size_t *count);

/* A simple generator: the same numbers from the same seed. */
uint64_t random_next(uint64_t *state);

/* Polls until `done` is true; the bound only ends a hang. */
void eventually(bool (*done)(void *opaque), void *opaque);

#endif
