/* memory: allocation of the simulator itself.  It gives up when there is none; the core under
 * test does not use it. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stdlib.h>

static inline void *memory_get(size_t bytes)
{
    void *memory = calloc(1, bytes == 0 ? 1 : bytes);

    if (memory == NULL)
        abort();
    return memory;
}

static inline void *memory_resize(void *memory, size_t bytes)
{
    memory = realloc(memory, bytes);
    if (memory == NULL)
        abort();
    return memory;
}

#endif
