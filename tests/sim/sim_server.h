/* SPDX-License-Identifier: Apache-2.0 */
/* A server process: the real service, coordinator, recovery and saver, behind a model of what the
 * server's threads and its network do around them.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none; what fails is traced.
 * Memory:   all of a process goes when it ends or crashes.
 */
#ifndef PS_TESTS_SIM_SIM_SERVER_H
#define PS_TESTS_SIM_SIM_SERVER_H

#include "server/core/ownership/coordinator_driver.h"
#include "server/core/recovery/note_writer.h"
#include "server/core/recovery/recovery_run.h"
#include "server/core/recovery/saver.h"
#include "tests/sim/sim_kv.h"
#include "tests/sim/sim_network.h"

#define SIM_PARKED_MAX 64

struct sim_served;
struct sim_change;

/* Calls whose reply has to wait: a finish, gradients and pulls, or a change. None: a free place. */
struct sim_parked {
    struct sim_message *finish; /* owned */
    struct ps_ticket ticket;    /* a finish waits for it */
    enum ps_status status;      /* ... and is then answered with this */
    struct sim_served *served;  /* owned; sim_server_serve.h */
    struct sim_change *change;  /* owned; sim_server_change.h */
};

#define SIM_RECORDS_MAX 64

/* What becomes of the next write of the journal. */
enum sim_journal_fate {
    SIM_JOURNAL_GOOD,
    SIM_JOURNAL_FAILS,     /* one file operation fails */
    SIM_JOURNAL_DIES,      /* the machine stops at one file operation */
    SIM_JOURNAL_DIES_AFTER /* the machine stops when all is synced, before any reply */
};

struct sim_journal {
    struct ps_journal_writer *writer; /* owned; NULL: none */
    bool posted;                      /* a write is to come */
    bool writing;                     /* the service has yet to hear of one */
    bool failed;                      /* the writer is dead */
    bool healing;                     /* a try to heal is to come */
    uint64_t retry_ms;
    enum sim_journal_fate fate;
    int64_t operation; /* at which the fate comes */
    bool keeps_power;  /* SIM_JOURNAL_DIES: the process alone */
};

struct sim_server {
    struct sim_world *world;
    uint32_t number;
    char name[16];
    char address[40]; /* of this process; a new one has another, but for keeps_addresses */
    struct ps_clock service_clock;

    bool running;
    bool paused;
    uint64_t generation; /* of the process; rises at every start */

    struct ps_service *service;
    struct ps_coordinator_driver *driver;
    struct sim_kv *kv; /* the coordinator's connection */
    struct ps_registry registry;
    struct sim_kv *job_kv; /* the one of the thread that loads and saves */
    struct ps_registry job_registry;
    struct sim_kv *note_kv; /* the one of the thread that notes how far the journal is durable */
    struct ps_registry note_registry;
    struct ps_random note_random;

    uint64_t turn_number; /* of the turn that is posted; older ones are void */
    uint64_t busy_until_ms;
    uint64_t topics; /* that have changed: parked calls are to be asked again */
    bool listening;
    enum ps_coordinator_state state; /* as traced; so are the next three */
    uint64_t claimed_epoch;
    bool fenced;
    bool spare;

    struct sim_journal journal;
    struct ps_note_writer notes;
    bool noting;                   /* a turn of it is to come */
    struct ps_recovered recovered; /* by the job at work, whose journal is opened next */
    enum ps_status load_status;
    struct ps_claim claim;   /* of the job at work */
    bool publishes;          /* the save at work does */
    struct ps_saving saving; /* written, to be published */
    struct ps_increments increments;
    int64_t die_at_operation; /* the machine stops at this one of the next save; -1: does not */

    struct sim_parked parked[SIM_PARKED_MAX];
    struct sim_message *inbox[SIM_PARKED_MAX]; /* owned lists; what arrived while paused */
    size_t inbox_count;
};

struct sim_server *sim_servers_create(struct sim_world *world);
void sim_servers_destroy(struct sim_world *world);

/* Starts the process with an index to wish for, or PS_INDEX_ANY. */
void sim_server_start(struct sim_server *server, uint32_t index_wish);

/* The process dies. `power`: its machine does, and the disk forgets what was not synced. */
void sim_server_crash(struct sim_server *server, bool power);

/* As SIGTERM. */
void sim_server_stop(struct sim_server *server);

/* As SIGSTOP and SIGCONT. */
void sim_server_pause(struct sim_server *server);
void sim_server_resume(struct sim_server *server);

/* The process that the message is for takes it (and copies it). False when it is gone. */
bool sim_server_take(struct sim_world *world, const struct sim_message *message);

/* Gives the coordinator a turn as soon as it can. */
void sim_server_wake(struct sim_server *server);

/* A message has come, with one or several calls. sim_server_calls.c */
void sim_server_answer(struct sim_server *server, const struct sim_message *message);
/* The reply to one call leaves; `error` and `answer` may be NULL where there is none. `chain`: in
 * which the version is that goes with it. */
void sim_server_reply(struct sim_server *server, const struct sim_message *message,
                      enum ps_status status, const struct ps_error *error,
                      const struct ps_call_reply *answer, const struct ps_chain *chain);
/* Under its mutation: the server does not see for whom a request is meant. */
void sim_server_hide_shard(const struct sim_server *server, uint32_t *shard);
void sim_server_ask_parked(struct sim_server *server);
void sim_server_forget_calls(struct sim_server *server);

/* What the hooks start. sim_server_jobs.c */
void sim_server_hooks(struct sim_server *server, struct ps_coordinator_hooks *hooks);

/* sim_server_journal.c: the journal of a new claim; wake is the service's journal_wanted. */
PS_MUST_USE enum ps_status sim_journal_open(struct sim_server *server,
                                            const struct ps_recovered *recovered);
void sim_journal_close(struct sim_server *server);
void sim_journal_wake(void *self);
const struct ps_files *sim_journal_files(struct sim_server *server, uint32_t index);

/* sim_server_notes.c: notes of the journal that was opened last. */
void sim_notes_begin(struct sim_server *server);
void sim_notes_wake(struct sim_server *server);
/* What is in the store; zeroed when nothing is. */
PS_MUST_USE enum ps_status sim_notes_read(struct sim_server *server, struct ps_journal_note *note);

/* The shard's volume as this server's file system. */
const struct ps_files *sim_server_files(struct sim_server *server, uint32_t index);

#endif
