/* world: one simulated server after another on the same simulated disks, from one seed.
 *
 * A world has a journal, up to three images, and a chain of *lives*: start (recovery), a while
 * of serving, and an end by kill -9, power cut or clean stop.  In a life *actors* (clients, the
 * leader of interval commits, the checkpoint, the prewriter, who activates, who stops) take
 * steps in an order that the seed chooses.  A step is what the engine does under its lock, or
 * one piece of I/O: a write is a prefix of its bytes, a barrier has a begin and an end.  Every
 * step that changed a disk, or what the model demands, is an *event*: check.c looks at what would
 * be left if it were the last.
 *
 * Actors do what engine.h says that the engine does, and decide nothing on which a promise
 * rests: that is the core's.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "core.h"
#include "disk.h"
#include "model.h"
#include "rng.h"
#include "shm.h"

#define WORLD_CLIENTS 6
#define WORLD_ACTORS (WORLD_CLIENTS + 5)
#define WORLD_PARTS 64 /* of one request: image size / atomic maximum */

/* ---- jobs: what several actors do, a step at a time (jobs.c) ---- */

enum job_result {
    JOB_RAN,   /* took a step */
    JOB_WAITS, /* nothing has changed, nothing can be done now */
    JOB_DONE,  /* finished, with this step: look at the job's error */
};

struct world;

/* One write to a disk, in pieces: what a dying process leaves is a prefix. */
struct write_job {
    struct disk *disk;
    size_t offset;
    const uint8_t *bytes; /* NULL: zeroes */
    size_t count, done;
    bool staged;       /* to the journal's staging, not to the disk */
    uint64_t position; /* then: virtual */
    int error;
};

struct barrier_job {
    struct disk *disk;
    bool begun;
    bool untold; /* it failed, and the caller does not know yet */
    uint64_t covered;
    int error;
};

struct append_job {
    enum { APPEND_JOB_NONE, APPEND_JOB_COPY, APPEND_JOB_COPIED, APPEND_JOB_WAIT } state;
    struct append *append;
    struct write_job pieces[3]; /* pad; header and payload in either order */
    unsigned piece, piece_count;
    int error;
};

/* Staged bytes go to the disk; without staging it is a hint. */
struct submit_job {
    bool active;
    uint64_t at, end; /* virtual */
    int error;
};

struct super_job {
    enum { SUPER_JOB_WRITE, SUPER_JOB_BARRIER } state;
    struct write_job write;
    struct barrier_job barrier;
    int error;
};

/* Waits until an lsn is durable; leads a commit when nobody does. */
struct sync_job {
    enum {
        SYNC_JOB_NONE,
        SYNC_JOB_WAIT,
        SYNC_JOB_SEAL,
        SYNC_JOB_READY,
        SYNC_JOB_SUBMIT,
        SYNC_JOB_BARRIER,
        SYNC_JOB_END,
    } state;
    uint64_t target;
    bool all;          /* one commit of whatever there is, led or followed */
    uint64_t followed; /* its number */
    struct commit commit;
    struct append_job seal;
    struct submit_job submit;
    struct barrier_job barrier;
    int error;
};

/* A barrier of an image: one, or until it covers what a flush must. */
struct image_job {
    enum { IMAGE_JOB_NONE, IMAGE_JOB_WAIT, IMAGE_JOB_BARRIER } state;
    unsigned image;
    bool once;
    uint64_t target, covers;
    uint64_t begun; /* model.stamp */
    struct barrier_job barrier;
    int error;
};

/* ---- actors ---- */

struct request {
    enum { REQUEST_WRITE, REQUEST_TRIM, REQUEST_ZERO, REQUEST_FLUSH, REQUEST_READ } kind;
    unsigned image;
    uint64_t offset, length;
    bool fua;
};

struct client {
    enum {
        CLIENT_IDLE,
        CLIENT_ADMIT,
        CLIENT_CLAIM, /* waits for its range */
        CLIENT_SPACE, /* waits for it */
        CLIENT_BYPASS,
        CLIENT_BYPASSED,
        CLIENT_IMAGE_FLUSH,
        CLIENT_APPEND,
        CLIENT_SUBMIT,
        CLIENT_SYNC,
        CLIENT_ANSWER,
        CLIENT_READ,
    } state;
    unsigned number;
    struct request request;
    int error;
    /* a change */
    uint64_t part_offset; /* of the part that is under way */
    uint64_t part_length;
    uint64_t content;
    uint8_t *payload;
    uint64_t payload_sum;
    uint64_t space_generation;
    bool waits_for_space;
    bool may_bypass; /* this part */
    bool bypassing, claimed;
    struct claim claim;
    struct write_job write;
    struct append record;
    struct append_job append;
    struct submit_job submit;
    uint32_t parts[WORLD_PARTS];
    unsigned part_count;
    /* durability */
    struct sync_job sync;
    struct image_job image_flush;
    uint32_t flush_number;
    uint64_t flush_stamp;
    bool was_lost; /* the disk, when the request came */
    /* a read */
    bool reading;
    struct read_plan plan;
    size_t segment;
    uint8_t *bytes;
    uint32_t *floors;
};

struct checkpointer {
    enum {
        CHECKPOINTER_IDLE,
        CHECKPOINTER_NEXT,
        CHECKPOINTER_COMMIT,
        CHECKPOINTER_READERS,
        CHECKPOINTER_READ,
        CHECKPOINTER_WRITE,
        CHECKPOINTER_WRITTEN,
        CHECKPOINTER_FLUSH,
        CHECKPOINTER_CARRY_READ,
        CHECKPOINTER_CARRY_BEGIN,
        CHECKPOINTER_CARRY_COPY,
        CHECKPOINTER_CARRY_SUBMIT,
        CHECKPOINTER_SUPER,
        CHECKPOINTER_END,
    } state;
    bool clean;
    bool asked; /* begin one, wanted or not */
    bool step_out;
    int error;
    struct checkpoint_step step;
    size_t segment, group_end, index;
    uint8_t *bytes; /* of a group */
    struct write_job write;
    struct image_job flush;
    struct super_job super;
    struct sync_job sync;
    struct append carried;
    struct submit_job submit;
    struct append_job append;
};

struct activator {
    enum {
        ACTIVATOR_WAIT,   /* only readers so far */
        ACTIVATOR_SETTLE, /* what was staged and not submitted */
        ACTIVATOR_BARRIER,
        ACTIVATOR_SUPER,
        ACTIVATOR_EPOCH,
        ACTIVATOR_CHECKPOINT, /* no room for the EPOCH record */
        ACTIVATOR_APPEND,
        ACTIVATOR_DONE,
        ACTIVATOR_FAILED,
    } state;
    struct write_job settle;
    uint8_t *settle_bytes;
    uint64_t settle_end; /* virtual position of the piece's end */
    struct barrier_job barrier;
    struct super_plan plan;
    bool plan_out;
    struct super_job super;
    struct append record;
    struct append_job append;
};

struct prewriter {
    bool active;
    struct write_job write;
};

struct stopper {
    enum { STOPPER_NONE, STOPPER_QUIET, STOPPER_SYNC, STOPPER_DRAIN, STOPPER_DONE } state;
    struct sync_job sync;
    unsigned rounds;
};

/* ---- a world ---- */

enum fate { FATE_KILL, FATE_POWER, FATE_STOP };
enum fault_kind {
    FAULT_NONE,
    FAULT_JOURNAL_BARRIER,
    FAULT_JOURNAL_WRITE,
    FAULT_IMAGE_BARRIER,
    FAULT_IMAGE_WRITE,
    FAULT_IMAGE_SICK, /* one of several images takes and flushes nothing for a while */
};
/* A fault at one call of a workload, counted over all disks (fault.c). */
enum io_fault_kind {
    IO_EIO,
    IO_ENOSPC,
    IO_EINTR, /* and it is called again */
    IO_SHORT, /* the first bytes are written, and the call for the rest fails */
    IO_LATE,  /* a write succeeds, and the next barrier of the disk loses it and says so */
    IO_LIES,  /* as that; afterwards the page cache forgets, and barriers succeed */
    IO_FAULT_KINDS,
};
struct io_fault {
    uint64_t at; /* number of the call, from 1; 0: none */
    enum io_fault_kind kind;
    bool for_ever;           /* all calls from there on, of the same disk */
    const struct disk *disk; /* where it struck; NULL: it did not */
    bool late;               /* the next barrier of that disk fails */
};
enum schedule { SCHEDULE_UNIFORM, SCHEDULE_STICKY, SCHEDULE_PRIORITY };

/* What a seed chose. */
struct world_setup {
    uint32_t sector_bytes;
    uint64_t ring_bytes;
    uint64_t staging_bytes; /* 0: records are written to the journal at once */
    size_t map_bytes;       /* bound of the map */
    uint64_t bypass_bytes;  /* writes from here on may bypass the journal; 0: none */
    uint64_t bypass_part;   /* at most so much in one */
    unsigned image_count;
    size_t image_size[MODEL_IMAGES];
    unsigned client_count;
    unsigned lives;
    unsigned life_steps;   /* at most, before its end begins */
    unsigned size_profile; /* of requests */
    unsigned hot_percent;  /* of requests go to a small area */
    unsigned weight[5];    /* of the kinds of requests, in their order */
    unsigned fua_percent;
    unsigned commit_percent;   /* chance of an interval commit, when its actor runs */
    unsigned drain_percent;    /* chance of an idle checkpoint */
    unsigned prewrite_percent; /* chance that another piece is prewritten */
    unsigned eager_percent;    /* chance that a checkpoint begins when it is wanted */
    unsigned nap_percent;      /* chance that an actor sleeps a while after a step */
    unsigned check_percent;    /* of events are looked at: all in small worlds */
    uint64_t listed_max;       /* up to so many crash states of an event are all tried */
    bool restless;             /* many short lives */
    bool slow_reads, slow_prewrites;
    bool last_lsns; /* the sequence numbers come to their end */
    enum fault_kind fault;
};

/* What happened, over all worlds: a run that never wrapped proves nothing about wraps. */
struct world_counts {
    uint64_t worlds, lives, steps, events;
    uint64_t kills, power_cuts, stops, activations, commits, checkpoints;
    uint64_t changes, answers, flushes, fuas, reads, splits;
    uint64_t laps, pads, space_waits, epoch_checkpoints, journal_reads, submits;
    uint64_t faults, aborts, carried, replays, gaps;
    uint64_t bypassed, bypass_journaled, claim_waits, image_flushes, disks_lost;
    uint64_t states_kill, states_listed, states_sampled, states_scribbled;
    uint64_t states_drained, states_replayed;
};

struct world {
    uint64_t seed;
    bool verbose;
    /* A workload decides what is done (workload.h), the seed only how: no request, commit or
     * checkpoint of chance.  Its name, for the replay. */
    const char *scripted;
    struct request script_request; /* for the client of this number, which takes it */
    int script_client;             /* -1: none */
    struct io_fault io_fault;
    uint64_t io_calls; /* that may fail, so far */
    struct world_setup setup;
    struct world_counts *counts;
    struct rng rng;
    uint32_t super_bytes;
    uint64_t ring_start;

    struct disk journal;
    struct shm shm;
    unsigned boot; /* lives of the machine */
    struct disk images[MODEL_IMAGES];
    struct image_entry entries[MODEL_IMAGES];
    struct model model;

    /* the life */
    unsigned life;
    struct core *core;
    struct core_image *core_images[MODEL_IMAGES];
    uint64_t sum_seed;
    struct client clients[WORLD_CLIENTS];
    struct checkpointer checkpointer;
    struct activator activator;
    struct prewriter prewriter;
    struct stopper stopper;
    struct sync_job committer;
    struct image_job image_flusher;
    struct barrier_job *journal_barrier; /* the one that is under way */
    uint64_t commits_ended;
    uint64_t gap_from, gap_to; /* what the last commit leaves out, */
    uint64_t gap_bytes;        /* and the one before it has left */
    uint64_t life_step;
    enum schedule schedule;
    unsigned last_actor, priority[WORLD_ACTORS];
    uint64_t nap_until[WORLD_ACTORS]; /* event */
    uint64_t fault_countdown;         /* calls that may fail until one does; 0: none will */
    bool fault_repeats;
    unsigned sick_image; /* FAULT_IMAGE_SICK: from event to event */
    uint64_t sick_from, sick_to;
    bool had_fault;
    bool known_lost[MODEL_IMAGES]; /* the core was told of the barrier that failed */
    bool tool;          /* nbdjournal replay: activates, drains, stops; appends nothing */
    bool quiet;         /* no new requests */
    bool stopped_clean; /* a CLEAN superblock is durable */

    /* the run */
    bool died_full;   /* with a ring that had no space */
    uint64_t event;   /* number of the current one */
    bool touched;     /* a disk was written in this step */
    uint64_t lsn_max; /* ever given */
    uint64_t checked_bounds;
    uint64_t
        checked_sequence[1 + MODEL_IMAGES]; /* versions older than that were seen by a check */
    bool failed;
};

/* The core's tools for the checks: who recovers and looks (recover.c). */
struct recovered {
    struct core *core; /* NULL: could not be recovered */
    struct recovery_result result;
    bool clean;               /* the superblock says so */
    struct ring_mark sb_tail; /* and where the ring begins */
};

/* What a run wants besides. */
struct world_options {
    unsigned samples; /* crash states a big event */
    bool only_event;  /* no checks but at this event ... */
    uint64_t event;
    const char *state; /* ... and this state; NULL: all */
    bool verbose;
};

/* The world that runs, for who reports a crash of the program itself.  NULL: none. */
extern const struct world *world_current;

/* Runs the world of a seed to its end or to the first failure, which is printed.  True: no
 * failure. */
bool world_run(uint64_t seed, const struct world_options *options, struct world_counts *counts);

/* ---- a workload's way (workload.c) ---- */

struct check;

/* A world with this setup (NULL: the seed chooses).  `scripted` as in struct world. */
struct world *world_new(uint64_t seed, const struct world_setup *setup, const char *scripted,
                        const struct world_options *options, struct world_counts *counts);
void world_free(struct world *w);
/* A server starts; false: a failure. */
bool world_life_start(struct world *w);
/* One step of anybody, and the look at it.  False: nobody can take one. */
bool world_step(struct world *w, struct check *check);
/* A clean stop to its end, if nothing fails; world_life_end is due. */
void world_stop(struct world *w, struct check *check);
void world_life_end(struct world *w, struct check *check, enum fate fate);
/* Between two lives, after a clean stop: somebody gives an image another size. */
void world_resize(struct world *w, unsigned image, size_t size);

/* ---- inside ---- */

/* A line of the story. */
void story(const struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A promise was broken. */
void world_fail(struct world *w, const char *promise, const char *state, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

/* jobs.c: I/O with faults, and the jobs. */
void world_ring_read(const struct world *w, uint64_t position, uint8_t *bytes, size_t count);
unsigned world_image_number(const struct world *w, const struct core_image *image);
size_t world_ring_at(const struct world *w, uint64_t position);
void world_lsn_given(struct world *w, uint64_t lsn);

void write_job_start(struct write_job *job, struct disk *disk, size_t offset,
                     const uint8_t *bytes, size_t count);
enum job_result write_job_step(struct world *w, struct write_job *job);
void barrier_job_start(struct barrier_job *job, struct disk *disk);
enum job_result barrier_job_step(struct world *w, struct barrier_job *job);
void append_job_start(struct world *w, struct append_job *job, struct append *a,
                      const uint8_t *payload);
enum job_result append_job_step(struct world *w, struct append_job *job);
void super_job_start(struct world *w, struct super_job *job, const struct super_plan *plan);
enum job_result super_job_step(struct world *w, struct super_job *job);
void submit_job_start(struct world *w, struct submit_job *job, uint64_t from, uint64_t to);
enum job_result submit_job_step(struct world *w, struct submit_job *job);
void sync_job_start(struct sync_job *job, uint64_t target);
void sync_job_start_all(struct sync_job *job);
enum job_result sync_job_step(struct world *w, struct sync_job *job);
void image_job_start(struct world *w, struct image_job *job, unsigned image, uint64_t target);
void image_job_start_once(struct image_job *job, unsigned image);
enum job_result image_job_step(struct world *w, struct image_job *job);
/* The process is dead: the core's bookkeeping is brought to an end, so that it can be freed. */
void append_job_abandon(struct world *w, struct append_job *job);
void sync_job_abandon(struct world *w, struct sync_job *job);

/* fault.c: -errno if this call is the one that the workload wants to fail, else 0.  *count: bytes
 * that are written all the same. */
int io_fault_write(struct world *w, const struct disk *disk, size_t *count);
int io_fault_barrier(struct world *w, const struct disk *disk);

/* client.c */
void client_start(struct world *w, struct client *client, unsigned number);
enum job_result client_step(struct world *w, struct client *client);
void client_abandon(struct world *w, struct client *client);
void client_free(struct client *client);

/* background.c */
enum job_result committer_step(struct world *w);
enum job_result checkpointer_step(struct world *w);
void checkpointer_abandon(struct world *w);
enum job_result prewriter_step(struct world *w);
void prewriter_abandon(struct world *w);
enum job_result activator_step(struct world *w);
void activator_abandon(struct world *w);
enum job_result stopper_step(struct world *w);

/* recover.c */
bool recover_super(const struct world *w, const uint8_t *journal, struct superblock *sb);
bool recover_open(struct world *w, const char *state, const uint8_t *journal,
                  struct recovered *found);
int recover_view(const struct world *w, struct core *core, const uint8_t *journal,
                 uint8_t *const images[], uint8_t *view);
bool recover_drain(struct world *w, const char *state, struct core *core, uint8_t *journal,
                   uint8_t *const images[]);

/* The same, told of every write when it is in the page cache, and of every barrier when it ends.  Disk
 * 0 is the journal, 1 and up are the images. */
struct drain_watch {
    void *opaque;
    void (*wrote)(void *opaque, unsigned disk, size_t offset, size_t count);
    void (*barrier)(void *opaque, unsigned disk);
};
bool recover_drain_watched(struct world *w, const char *state, struct core *core,
                           uint8_t *journal, uint8_t *const images[], bool by_server,
                           const struct drain_watch *watch);

/* What a server finds that starts after a kill now: journal.device, or `room` with the staged
 * bytes over it. */
const uint8_t *recover_after_kill(struct world *w, const char *state, uint8_t *room);

/* check.c */
struct check *check_new(const struct world_options *options);
void check_free(struct check *check);
void check_event(struct check *check, struct world *w);
/* What is left after a kill now: *k changes. */
void check_kill(struct check *check, struct world *w, uint32_t *k);
/* And after a power cut that the seed chooses: the views show it. */
void check_power_cut(struct check *check, struct world *w, uint32_t *k);
/* What the last of these showed. */
const uint8_t *check_shown_last(const struct check *check);
/* P5, after a clean stop. */
void check_stopped(struct check *check, struct world *w);

#endif
