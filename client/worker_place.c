/* SPDX-License-Identifier: Apache-2.0 */
/* Servers know the place by the number of this process, so that each question may go to another
 * server. A place that is gone without anybody in it is taken again, under another incarnation: a
 * store that is only a server's memory forgets places when that server starts again, and a process
 * that was stopped for long comes back to a job that has not missed it. */
#include "client/worker_place.h"

#include "base/assert.h"
#include "base/random.h"
#include "client/answers.h"
#include "proto/wire.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TTL_MS_DEFAULT 10000
/* After a failure, ask again after this long. */
#define PAUSE_MS 500
/* A server is asked to wait for a free rank for so long. */
#define WAIT_MS 10000

/* As in JoinWorkersResponse. */
enum { TURN = 1, RANK, SIZE, INCARNATION };

static enum ps_status ask(struct ps_worker_place *place, uint32_t rank, uint64_t incarnation,
                          uint64_t wait_ms, uint64_t deadline_ms, struct ps_fields *fields,
                          struct ps_error *error);
static void note(struct ps_worker_place *place, const struct ps_fields *fields);
static void keep(void *argument);
static void stop_keeping(struct ps_worker_place *place);

/* Refused and not cut: two names that begin alike would be one. */
static enum ps_status take_text(const char *text, char *to, size_t size, struct ps_error *error)
{
    int length = snprintf(to, size, "%s", text != NULL ? text : "");
    if (length >= 0 && (size_t)length < size)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT, "\"%.40s...\" is longer than %zu bytes", text,
                   size - 1);
}

/* The host is for people: a long name is cut, and a system that does not tell has none. */
static void find_host(char *host, size_t size)
{
    if (gethostname(host, size) != 0)
        host[0] = '\0';
    host[size - 1] = '\0';
}

enum ps_status ps_worker_words_take(const struct psclient_worker_options *options,
                                    struct ps_worker_words *words, struct ps_error *error)
{
    const char *group = options->group != NULL ? options->group : "workers";
    *words = (struct ps_worker_words){.size = options->size, .rank = options->rank};
    words->ttl_ms = options->ttl_ms != 0 ? options->ttl_ms : TTL_MS_DEFAULT;
    find_host(words->host, sizeof words->host);
    PS_TRY(take_text(group, words->group, sizeof words->group, error));
    PS_TRY(take_text(options->name, words->name, sizeof words->name, error));
    PS_TRY(take_text(options->role, words->role, sizeof words->role, error));
    /* As unknown options of psclient_open: what is not understood is refused, and not passed
     * over. */
    for (size_t i = 0; i < PS_ARRAY_COUNT(options->reserved); i++)
        if (options->reserved[i] != 0)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "this library knows fewer options than the program");
    return PS_OK;
}

/* The number is random: a process that comes back must not find a place that it left behind, which
 * may be another one's by now. */
enum ps_status ps_worker_place_create(struct psclient *client, const struct ps_worker_words *words,
                                      struct ps_worker_place **out, struct ps_error *error)
{
    struct ps_worker_place *place = ps_zeroed(client->memory, sizeof *place);
    if (place == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to join a group");
    place->client = client;
    place->words = *words;
    /* Stopping the thread also keeps its question from being asked of one server after the
     * other. */
    place->server = (struct ps_any_server){.client = client, .is_cancelled = &place->stopping};
    /* 0 is nobody's. */
    while (place->number == 0)
        ps_random_system(&place->number, sizeof place->number);
    ps_wake_init(&place->stop);
    ps_mutex_init(&place->lock, PS_RANK_LEAF);
    *out = place;
    return PS_OK;
}

/* Also of a place whose thread has ended by itself, because it was lost. */
void ps_worker_place_destroy(struct ps_worker_place *place)
{
    if (place == NULL)
        return;
    stop_keeping(place);
    ps_wake_fini(&place->stop);
    ps_mutex_fini(&place->lock);
    ps_release(place->client->memory, place);
}

/* A question that is out is waited for: two seconds at most, after which no other server is asked.
 * The flag goes back, so that the question of leaving is asked of every server. */
static void stop_keeping(struct ps_worker_place *place)
{
    /* Before the wake-up, so that the thread sees it when it wakes. */
    atomic_store(&place->stopping, true);
    ps_wake_all(&place->stop);
    ps_thread_join(&place->keeper);
    place->keeper.started = false;
    /* For the question that gives the place up, if there is one. */
    atomic_store(&place->stopping, false);
}

/* In slices, so that a server which dies in one of them costs no more than that. */
enum ps_status ps_worker_place_join(struct ps_worker_place *place, uint64_t deadline_ms,
                                    struct ps_error *error)
{
    const struct ps_clock *clock = place->client->clock;
    struct ps_fields fields = {0};
    for (;;) {
        uint64_t left_ms = ps_time_left_ms(clock, deadline_ms);
        uint64_t wait_ms = left_ms < WAIT_MS ? left_ms : WAIT_MS;
        /* The answer of a server that has waited to the end comes a little later. */
        uint64_t until_ms = ps_deadline_after(clock, left_ms + PAUSE_MS);
        PS_TRY(ask(place, place->words.rank, 0, wait_ms,
                   deadline_ms == PS_DEADLINE_NEVER ? deadline_ms : until_ms, &fields, error));
        /* Else every rank is taken, and this server has waited for as long as it was asked to. */
        if (fields.number[TURN] != 0)
            break;
        /* Behind the question: a timeout of 0 asks once. */
        if (ps_time_left_ms(clock, deadline_ms) == 0)
            return ps_fail(error, PS_ERR_BUSY, "every rank of group %s is taken",
                           place->words.group);
    }
    note(place, &fields);
    return ps_thread_start(&place->keeper, "ps_worker", keep, place, error);
}

/* The same message takes a place, finds one that was taken, and keeps it. */
static enum ps_status ask(struct ps_worker_place *place, uint32_t rank, uint64_t incarnation,
                          uint64_t wait_ms, uint64_t deadline_ms, struct ps_fields *fields,
                          struct ps_error *error)
{
    const struct ps_worker_words *words = &place->words;
    /* Room for all texts and numbers, so that nothing is left out. */
    char bytes[sizeof *words + PS_JOB_BYTES_MAX + 128];
    struct ps_buffer message;
    ps_buffer_init_fixed(&message, bytes, sizeof bytes);
    /* The fields of JoinWorkersRequest. With an incarnation the server looks at rank, number and
     * that alone. */
    ps_wire_put_text(&message, 1, words->group);
    ps_wire_put_text(&message, 2, words->name);
    ps_wire_put_uint(&message, 3, place->number);
    ps_wire_put_uint(&message, 4, words->ttl_ms);
    ps_wire_put_uint(&message, 5, wait_ms);
    ps_wire_put_uint(&message, 6, words->size);
    ps_wire_put_uint(&message, 7, rank);
    ps_wire_put_text(&message, 8, words->role);
    ps_wire_put_text(&message, 9, place->client->job);
    ps_wire_put_text(&message, 10, words->host);
    ps_wire_put_uint(&message, 11, incarnation);
    enum ps_status status = ps_any_server_ask(&place->server, PS_METHOD_JOIN, &message, wait_ms,
                                              deadline_ms, ps_answer_fields(fields), error);
    return status == PS_ERR_UNSUPPORTED
               ? ps_fail(error, status,
                         "the servers are older than workers: update them, or give each worker "
                         "its rank by other means")
               : status;
}

/* Keeping is spread over the servers by the ranks; joining is not, since one server lets in those
 * who come at once faster than several that are in each other's way. */
static void note(struct ps_worker_place *place, const struct ps_fields *fields)
{
    ps_mutex_lock(&place->lock);
    place->place.rank = (uint32_t)fields->number[RANK];
    place->place.size = (uint32_t)fields->number[SIZE];
    place->place.incarnation = fields->number[INCARNATION];
    ps_mutex_unlock(&place->lock);
    if (!place->client->is_list)
        place->server.shard = (uint32_t)fields->number[RANK] % place->client->shard_count;
}

/* What was had stays readable after it was lost: a program says which rank it was. */
enum ps_status ps_worker_place_look(struct ps_worker_place *place, struct psclient_place *out,
                                    struct ps_error *error)
{
    ps_mutex_lock(&place->lock);
    /* Both under the lock: a place is never shown with half of another one's numbers. */
    bool is_lost = place->is_lost;
    *out = place->place;
    if (is_lost)
        ps_fail(error, PS_ERR_LEASE_LOST, "rank %u of group %s was lost: %s", out->rank,
                place->words.group, place->why);
    ps_mutex_unlock(&place->lock);
    return is_lost ? PS_ERR_LEASE_LOST : PS_OK;
}

/* Refusals that another try cannot mend; everything else may be a server that is going. */
static bool is_final(enum ps_status status)
{
    return status == PS_ERR_EXISTS || status == PS_ERR_MISMATCH || status == PS_ERR_BAD_INPUT;
}

/* The same rank or none: whoever works as rank 3 cannot go on as another one. False: the place is
 * lost, or the thread is to end. */
static bool take_again(struct ps_worker_place *place, const struct psclient_place *former)
{
    struct ps_fields fields;
    struct ps_error why = {.status = PS_OK};
    /* For longer nobody would keep the rank free, and the next turn asks again. */
    uint64_t until_ms = ps_deadline_after(place->client->clock, place->words.ttl_ms);
    enum ps_status status = ask(place, former->rank + 1, 0, 0, until_ms, &fields, &why);
    /* A rank that another has is refused in words: one that is merely not given lies beyond the
     * end of a group which has become smaller. */
    if (status == PS_OK && fields.number[TURN] == 0)
        status = ps_fail(&why, PS_ERR_MISMATCH, "the group has fewer ranks now");
    if (status == PS_OK)
        note(place, &fields);
    if (!is_final(status))
        return true;
    ps_mutex_lock(&place->lock);
    place->is_lost = true;
    (void)snprintf(place->why, sizeof place->why, "%s", why.text);
    ps_mutex_unlock(&place->lock);
    return false;
}

/* Keeps the place until told to stop. A failure is tried again soon, since a third of the time has
 * passed already. */
static void keep(void *argument)
{
    struct ps_worker_place *place = argument;
    uint64_t third_ms = place->words.ttl_ms / 3;
    uint64_t pause_ms = third_ms;
    while (!atomic_load(&place->stopping)) {
        /* Read before the flag: a stop that comes between the two ends the wait at once. */
        uint64_t seen = ps_wake_count(&place->stop);
        if (atomic_load(&place->stopping))
            return;
        ps_wake_wait(&place->stop, seen, pause_ms);
        if (atomic_load(&place->stopping))
            return;
        struct ps_fields fields;
        struct psclient_place now;
        /* Not lost: only this thread says so, and then ends. */
        enum ps_status ignored = ps_worker_place_look(place, &now, NULL);
        (void)ignored;
        enum ps_status status =
            ask(place, now.rank + 1, now.incarnation, 0,
                ps_deadline_after(place->client->clock, third_ms), &fields, NULL);
        if (status == PS_ERR_STALE_EPOCH && !take_again(place, &now))
            return;
        /* A place of a second is asked for three times in it, whatever comes. */
        pause_ms = status == PS_OK || third_ms < PAUSE_MS ? third_ms : PAUSE_MS;
    }
}

/* By the process's number alone: a place that was taken again meanwhile is given up as well. */
enum ps_status ps_worker_place_leave(struct ps_worker_place *place, uint64_t deadline_ms,
                                     struct ps_error *error)
{
    char bytes[sizeof place->words.group + PS_JOB_BYTES_MAX + 64];
    struct ps_fields fields;
    struct ps_buffer message;
    stop_keeping(place);
    ps_buffer_init_fixed(&message, bytes, sizeof bytes);
    ps_wire_put_text(&message, 1, place->words.group);
    ps_wire_put_uint(&message, 2, place->number);
    ps_wire_put_text(&message, 3, place->client->job);
    return ps_any_server_ask(&place->server, PS_METHOD_LEAVE, &message, 0, deadline_ms,
                             ps_answer_fields(&fields), error);
}
