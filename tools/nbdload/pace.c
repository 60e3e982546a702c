/* pace: when a lane begins its next operation. */
#include <math.h>

#include "load_state.h"
#include "pace.h"
#include "replay.h"

static uint64_t spread(struct load *load, struct random *random, uint64_t mean_ns)
{
    if (!load->options->poisson)
        return mean_ns;
    return -log(random_unit(random)) * mean_ns;
}

void pace_next(struct lane *lane, uint64_t now_ns)
{
    struct load *load = lane->load;
    const struct options *o = load->options;

    if (o->pattern == PATTERN_TRACE) {
        replay_lane_free(lane);
        return;
    }
    if (load->phase > LOAD_RUNNING || (o->count != 0 && lane->client->begun >= o->count)) {
        lane_rest(lane);
        return;
    }
    if (o->rate > 0) {
        lane->due_ns = load->next_due_ns;
        load->next_due_ns += spread(load, &load->random, llround(1e9 / o->rate));
    } else {
        lane->due_ns = now_ns;
        if (o->think_ns > 0)
            lane->due_ns += spread(load, &lane->random, o->think_ns);
    }
    if (lane->due_ns <= now_ns)
        lane_begin(lane);
    else
        timers_set(&load->timers, &lane->timer, lane->due_ns);
}
