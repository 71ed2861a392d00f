/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient.h, which includes it: the workers of a job, each with a rank of its own.
 *
 *     const struct psclient_worker_options options = {.name = "trainer-3", .size = 8};
 *     struct psclient_place place;
 *     if (psclient_join_workers(client, &options, 60000, &place, &error) != PSCLIENT_OK) ...
 *     ... place.rank of place.size ...
 *     psclient_barrier_group(client, NULL, "epoch", 1, PSCLIENT_FOREVER, &error);
 *     psclient_close(client);
 *
 * From joining to leaving a thread of the library keeps the place, at whichever server answers. A
 * process that dies has lost it when it has been silent for `ttl_ms`. docs/workers.md.
 *
 * Threads:  as psclient.h says.
 * Blocking: at most `timeout_ms`, and a few seconds for each server that does not answer.
 * Errors:   said at the functions. PSCLIENT_INVALID from servers that are older than this.
 * Memory:   a list is the caller's, to be released. None of these structs ever grows.
 */
#ifndef PSCLIENT_WORKERS_H
#define PSCLIENT_WORKERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient;
struct psclient_error;

/* Zero-initialise. Groups are named by letters, digits, '.', '_' and '-'; the other texts are
 * printable ASCII without spaces. */
struct psclient_worker_options {
    const char *group; /* NULL: "workers" */
    const char *name; /* of this worker, the same in its next life: the rank that it had last is its
                          again, if nobody has taken it meanwhile. NULL: none */
    const char *role; /* for people; NULL: none */
    uint32_t size;    /* ranks are 0 to size - 1; 0: as the others say, or no end */
    uint32_t rank;    /* 1 + the rank that it must be; 0: the former one of its name, else the
                          smallest that is free */
    uint64_t ttl_ms;  /* 0: 10000 */
    uint64_t reserved[4]; /* 0 */
};

/* What a worker has. */
struct psclient_place {
    uint32_t rank;
    uint32_t size;        /* of the group; 0: it has no end */
    uint64_t incarnation; /* of this place, another one than of any before */
};

/* Takes a place and keeps it from now on. Waits until a rank is free, and for a former process of
 * the same name or rank to be silent for its time: a worker that was killed and started again gets
 * its place. Of each group a client has one place; in one that it has joined already this says
 * which. Threads that are workers of their own have a client each.
 *
 * PSCLIENT_ALREADY    another process that lives has the name or the rank; the text says who
 * PSCLIENT_EXHAUSTED  every rank was taken all the time
 * PSCLIENT_INVALID    an option
 * PSCLIENT_FAILED     the others of the group have said another size; or the place in this group
 *                     was lost before: leave, and join again; or this client has joined it under
 *                     another name or rank
 */
int psclient_join_workers(struct psclient *client, const struct psclient_worker_options *options,
                          uint64_t timeout_ms, struct psclient_place *place,
                          struct psclient_error *error);

/* The place that this client has. Asks nobody. A place that was lost, and had again before anybody
 * else took the rank, has another incarnation.
 *
 * PSCLIENT_NOT_FOUND  it has not joined the group (NULL: "workers")
 * PSCLIENT_FAILED     the place was lost to another worker: leave, and join again
 */
int psclient_worker_rank(struct psclient *client, const char *group, struct psclient_place *place,
                         struct psclient_error *error);

/* Gives the place up; psclient_close does the same. Whatever is said, this client has it no
 * more. Other threads must have returned from psclient_leave_workers of the same group. */
int psclient_leave_workers(struct psclient *client, const char *group, uint64_t timeout_ms,
                           struct psclient_error *error);

struct psclient_worker {
    char group[72];
    char name[288];
    char role[40];
    char host[72];
    uint32_t rank;
    int heard; /* the server that was asked hears this worker: silent_ms is known */
    uint64_t silent_ms, joined_unix_ms, ttl_ms, incarnation;
};

struct psclient_worker_group {
    char name[72];
    uint32_t size; /* 0: it has no end */
};

struct psclient_worker_list {
    struct psclient_worker *workers; /* by group and rank */
    size_t count;
    struct psclient_worker_group *groups;
    size_t group_count;
    uint64_t revision; /* rises when somebody comes or goes */
    int more;          /* they are too many for one answer */
};

/* Who is there, of one group, of all (NULL), of the servers ("servers"), or of both ("all"). With
 * `known_revision`, of an earlier list, it waits for a change; after `timeout_ms`, or ten
 * minutes, it says what is there, changed or not. `*list` is set on PSCLIENT_OK. */
int psclient_list_workers(struct psclient *client, const char *group, uint64_t known_revision,
                          uint64_t timeout_ms, struct psclient_worker_list *list,
                          struct psclient_error *error);
void psclient_worker_list_release(struct psclient_worker_list *list);

/* Waits until all `of` members of a job have called this with the same name and round: member 0 to
 * of - 1, each one once. Any number is a round; count up from one barrier to the next. The meeting
 * is at one of the servers, by the name. A member that gives up was not there.
 *
 * PSCLIENT_UNKNOWN    the time is over; the text says who is missing
 * PSCLIENT_FAILED     the others wait in another round, or for another number of members. When a
 *                     server has died, they may have been let go in this one (docs/wire.md)
 */
int psclient_barrier(struct psclient *client, const char *name, uint64_t round, uint32_t member,
                     uint32_t of, uint64_t timeout_ms, struct psclient_error *error);

/* psclient_barrier of all ranks of a group that this client has joined with a size. When the time
 * is over the text names the workers who are missing.
 *
 * PSCLIENT_INVALID  the group has no end
 * and what psclient_worker_rank and psclient_barrier say.
 */
int psclient_barrier_group(struct psclient *client, const char *group, const char *name,
                           uint64_t round, uint64_t timeout_ms, struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
