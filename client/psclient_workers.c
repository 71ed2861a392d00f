/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: the workers of a job. What takes and keeps a place is in worker_place.c; here are
 * the places of a client, and the list of all. A client has few places, so that they are a list
 * under its mutex; the list of the job's workers is asked for again each time, and kept nowhere. */
#include "client/psclient.h"

#include "base/assert.h"
#include "client/answers.h"
#include "client/ask.h"
#include "client/status_map.h"
#include "client/worker_place.h"
#include "proto/wire.h"
#include "proto/worker_codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Most for giving one place up at the end. */
#define LEAVE_MS 2000

/* The list is waited for so much longer than a server waits with it. */
#define MARGIN_MS 2000

/* As servers have it. */
#define PATIENCE_MS_MAX (600 * 1000)

/* Groups that one client has joined. */
#define PLACES_MAX 64

/* The name that a group has when nobody names it, here as at the servers. */
static const char *group_or_default(const char *group)
{
    return group != NULL ? group : "workers";
}

/* Under the client's mutex. */
static struct ps_worker_place *find_place(struct psclient *client, const char *group)
{
    struct ps_worker_place *place;
    LL_FOREACH(client->worker_places, place) {
        if (strcmp(place->words.group, group) == 0)
            return place;
    }
    return NULL;
}

/* Under the mutex: a place does not go meanwhile. */
static enum ps_status look(struct psclient *client, const char *group, struct psclient_place *out,
                           struct ps_error *error)
{
    PS_TRY(ps_client_check_process(client, error));
    ps_mutex_lock(&client->mutex);
    struct ps_worker_place *place = find_place(client, group);
    enum ps_status status =
        /* The group is named in full: a program may have joined several. */
        place != NULL
            ? ps_worker_place_look(place, out, error)
            : ps_fail(error, PS_ERR_NOT_FOUND, "this client has not joined group %.64s", group);
    ps_mutex_unlock(&client->mutex);
    return status;
}

PS_EXPORT int psclient_worker_rank(struct psclient *client, const char *group,
                                   struct psclient_place *place, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    struct psclient_place found = {0};
    enum ps_status status = look(client, group_or_default(group), &found, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    *place = found;
    return ps_client_succeed(error);
}

/* Two threads that join one group at once have asked for two places: the second one's is given back
 * here. */
static enum ps_status add_place(struct psclient *client, struct ps_worker_place *place,
                                struct ps_error *error)
{
    /* Counted each time: joining is rare. */
    struct ps_worker_place *any;
    int count = 0;
    ps_mutex_lock(&client->mutex);
    /* A bound that no program comes to by intention: each place has a thread. */
    LL_COUNT(client->worker_places, any, count);
    /* Looked for again: the first look was before the servers were asked, which may take long. */
    bool is_new = find_place(client, place->words.group) == NULL && count < PLACES_MAX;
    if (is_new)
        LL_PREPEND(client->worker_places, place);
    ps_mutex_unlock(&client->mutex);
    if (is_new)
        return PS_OK;
    enum ps_status ignored =
        ps_worker_place_leave(place, ps_deadline_after(client->clock, LEAVE_MS), NULL);
    (void)ignored;
    return ps_fail(error, PS_ERR_BUSY, "another thread has joined group %s, or too many groups",
                   place->words.group);
}

/* Whoever asks again for what this client has is told which that is. Another name, or another rank,
 * is another worker, which would share the first one's rank without knowing. */
static enum ps_status look_again(struct psclient *client, const struct ps_worker_words *words,
                                 struct psclient_place *out, struct ps_error *error)
{
    PS_TRY(look(client, words->group, out, error));
    ps_mutex_lock(&client->mutex);
    const struct ps_worker_place *place = find_place(client, words->group);
    /* NULL: another thread has left it at this moment, and what it had is what was asked for. */
    bool is_other =
        place != NULL && ((words->name[0] != '\0' && strcmp(words->name, place->words.name) != 0) ||
                          (words->rank != 0 && words->rank != 1 + out->rank));
    ps_mutex_unlock(&client->mutex);
    if (!is_other)
        return PS_OK;
    return ps_fail(error, PS_ERR_MISMATCH,
                   "this client is worker %" PRIu32
                   " of group %.64s already: every worker has a client of its own",
                   out->rank, words->group);
}

/* In a group that was joined already nothing is asked: the thread of the place knows better than a
 * server that has just come. A place that was lost says so here, too, until it is left. */
static enum ps_status join(struct psclient *client, const struct ps_worker_words *words,
                           uint64_t deadline_ms, struct psclient_place *out, struct ps_error *error)
{
    struct ps_worker_place *place;
    /* A second join of the same group is a question for what this client has. */
    enum ps_status status = look_again(client, words, out, error);
    if (status != PS_ERR_NOT_FOUND)
        return status;
    PS_TRY(ps_worker_place_create(client, words, &place, error));
    status = ps_worker_place_join(place, deadline_ms, error);
    if (status == PS_OK)
        status = add_place(client, place, error);
    if (status != PS_OK) {
        ps_worker_place_destroy(place);
        return status;
    }
    return look(client, words->group, out, error);
}

PS_EXPORT int psclient_join_workers(struct psclient *client,
                                    const struct psclient_worker_options *options,
                                    uint64_t timeout_ms, struct psclient_place *place,
                                    struct psclient_error *error)
{
    /* NULL is a worker without a name in the usual group. */
    const struct psclient_worker_options none = {0};
    struct ps_error why = {.status = PS_OK};
    struct ps_worker_words words;
    struct psclient_place found = {0};
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    enum ps_status status = ps_worker_words_take(options != NULL ? options : &none, &words, &why);
    if (status == PS_OK)
        status = join(client, &words, deadline_ms, &found, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    *place = found;
    return ps_client_succeed(error);
}

/* Out of the list before it ends: from then on nobody finds it. */
static struct ps_worker_place *remove_place(struct psclient *client, const char *group)
{
    ps_mutex_lock(&client->mutex);
    struct ps_worker_place *place =
        group != NULL ? find_place(client, group) : client->worker_places;
    if (place != NULL)
        LL_DELETE(client->worker_places, place);
    ps_mutex_unlock(&client->mutex);
    return place;
}

PS_EXPORT int psclient_leave_workers(struct psclient *client, const char *group,
                                     uint64_t timeout_ms, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    /* In a child of a fork the thread of the place does not exist: nothing is waited for there. */
    enum ps_status status = ps_client_check_process(client, &why);
    struct ps_worker_place *place =
        status == PS_OK ? remove_place(client, group_or_default(group)) : NULL;
    if (place != NULL)
        /* The place is out of the list whatever the servers say: its thread has ended. */
        status = ps_worker_place_leave(place, ps_deadline_after(client->clock, timeout_ms), &why);
    /* Nothing was joined, or another thread has left it at this moment. */
    else if (status == PS_OK)
        status = ps_fail(&why, PS_ERR_NOT_FOUND, "this client has not joined group %.64s",
                         group_or_default(group));
    ps_worker_place_destroy(place);
    return status == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, status, why.text);
}

/* Best effort: without an answer the places end by themselves. */
void ps_client_leave_groups(struct psclient *client)
{
    struct ps_worker_place *place;
    while ((place = remove_place(client, NULL)) != NULL) {
        enum ps_status ignored =
            ps_worker_place_leave(place, ps_deadline_after(client->clock, LEAVE_MS), NULL);
        (void)ignored;
        ps_worker_place_destroy(place);
    }
}

/* ---- The list ---- */

/* What does not fit is cut. */
static void copy_text(char *to, size_t size, const char *from)
{
    size_t length = strnlen(from, size - 1);
    memcpy(to, from, length);
    to[length] = '\0';
}

/* From the rows of the codec to those of the public header, whose fields never move. */
static void copy_row(struct psclient_worker *to, const struct ps_listed_worker *from)
{
    copy_text(to->group, sizeof to->group, from->group);
    copy_text(to->name, sizeof to->name, from->name);
    copy_text(to->role, sizeof to->role, from->role);
    copy_text(to->host, sizeof to->host, from->host);
    to->rank = from->rank;
    /* Without it silent_ms is not known, whatever it says. */
    to->heard = from->is_heard;
    to->silent_ms = from->silent_ms;
    to->joined_unix_ms = from->joined_unix_ms;
    to->ttl_ms = from->ttl_ms;
    to->incarnation = from->incarnation;
}

/* One allocation for each kind of row. An empty list has arrays, too: a caller may print it without
 * looking. */
static enum ps_status copy_list(struct psclient_worker_list *to, const struct ps_worker_list *from,
                                struct ps_error *error)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    struct psclient_worker_list list = {.revision = from->revision, .more = from->more};
    list.workers = ps_zeroed_array(heap, from->count + 1, sizeof *list.workers);
    list.groups = ps_zeroed_array(heap, from->group_count + 1, sizeof *list.groups);
    if (list.workers == NULL || list.groups == NULL) {
        psclient_worker_list_release(&list);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a list of workers");
    }
    /* Only now, so that a release after a failure finds no rows without memory. */
    list.count = from->count;
    list.group_count = from->group_count;
    for (size_t i = 0; i < list.count; i++)
        copy_row(&list.workers[i], &from->rows[i]);
    for (size_t i = 0; i < list.group_count; i++) {
        copy_text(list.groups[i].name, sizeof list.groups[i].name, from->groups[i].name);
        list.groups[i].size = from->groups[i].size;
    }
    *to = list;
    return PS_OK;
}

/* In the engine's turn, while the bytes of the answer are there. */
static enum ps_status take_list(void *self, const struct ps_call_reply *bytes,
                                struct ps_error *error)
{
    struct ps_worker_list list;
    /* Decoded as a whole before anything is copied: half a list would look like one of fewer
     * workers. */
    PS_TRY(ps_decode_workers(bytes->ask, ps_allocator_heap(), &list, error));
    enum ps_status status = copy_list(self, &list, error);
    ps_worker_list_release(&list);
    return status;
}

/* The fields of ListWorkersRequest. */
static void write_request(const struct psclient *client, const char *group, uint64_t known_revision,
                          uint64_t wait_ms, struct ps_buffer *message)
{
    ps_wire_put_text(message, 1, group);
    ps_wire_put_uint(message, 2, known_revision);
    ps_wire_put_uint(message, 3, wait_ms);
    ps_wire_put_text(message, 4, client->job);
}

/* One question to one server; the next is asked by the caller, with what is left of its time. */
static enum ps_status ask_list(struct ps_any_server *server, const char *group,
                               uint64_t known_revision, uint64_t wait_ms,
                               struct psclient_worker_list *list, struct ps_error *error)
{
    char bytes[2 * PS_JOB_BYTES_MAX + 128];
    struct ps_buffer message;
    ps_buffer_init_fixed(&message, bytes, sizeof bytes);
    write_request(server->client, group, known_revision, wait_ms, &message);
    return ps_any_server_ask(server, PS_METHOD_WORKERS, &message, wait_ms,
                             ps_deadline_after(server->client->clock, wait_ms + MARGIN_MS),
                             (struct ps_answer_taker){take_list, list}, error);
}

/* For an operator, who asks all of them. A name that is too long for the message is refused by the
 * server, as one that it does not know. */
int ps_client_ask_workers(struct psclient *client, uint32_t index, const char *group,
                          uint64_t timeout_ms, struct psclient_worker_list *list,
                          struct psclient_error *error)
{
    /* Room for a longer name of a group than any server takes. */
    char bytes[1024];
    struct ps_buffer message;
    /* Empty after a failure, so that a caller releases it in any case. */
    *list = (struct psclient_worker_list){0};
    ps_buffer_init_fixed(&message, bytes, sizeof bytes);
    write_request(client, group, 0, 0, &message);
    /* Of this server and no other. */
    struct ps_item item = {.shard = index,
                           .ask = {(const uint8_t *)message.text, message.size},
                           .answer = {take_list, list}};
    return ps_client_run_items(client, PS_METHOD_WORKERS, &item, 1, timeout_ms, NULL, error);
}

/* A server that dies may take all of the time with it: then one other is asked. */
static enum ps_status find_list(struct psclient *client, const char *group, uint64_t known_revision,
                                uint64_t timeout_ms, struct psclient_worker_list *list,
                                struct ps_error *error)
{
    /* Each call begins at the first server and keeps nothing: calls of several threads do not
     * disturb each other. */
    struct ps_any_server server = {.client = client};
    /* A wait without end is one of ten minutes here: the caller asks again, with the revision
     * that it has. */
    uint64_t patience_ms = timeout_ms < PATIENCE_MS_MAX ? timeout_ms : PATIENCE_MS_MAX;
    uint64_t until_ms = ps_deadline_after(client->clock, patience_ms);
    PS_TRY(ps_client_check_process(client, error));
    if (strlen(group) > PS_JOB_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a group's name is at most 64 bytes");
    for (uint32_t i = 0;; i++) {
        uint64_t left_ms = ps_time_left_ms(client->clock, until_ms);
        enum ps_status status = ask_list(&server, group, known_revision,
                                         known_revision != 0 ? left_ms : 0, list, error);
        /* A refusal would be the same everywhere. */
        bool is_away = status == PS_ERR_UNAVAILABLE || status == PS_ERR_TIMEOUT;
        if (!is_away || (left_ms == 0 && i > 0))
            return status;
    }
}

PS_EXPORT int psclient_list_workers(struct psclient *client, const char *group,
                                    uint64_t known_revision, uint64_t timeout_ms,
                                    struct psclient_worker_list *out, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    struct psclient_worker_list list = {0};
    enum ps_status status =
        /* NULL and "" are all groups. */
        find_list(client, group != NULL ? group : "", known_revision, timeout_ms, &list, &why);
    if (status != PS_OK) {
        psclient_worker_list_release(&list);
        return ps_client_fail(error, status, why.text);
    }
    *out = list;
    return ps_client_succeed(error);
}

PS_EXPORT void psclient_worker_list_release(struct psclient_worker_list *list)
{
    ps_release(ps_allocator_heap(), list->workers);
    ps_release(ps_allocator_heap(), list->groups);
    *list = (struct psclient_worker_list){0};
}

/* ---- A barrier of a group ---- */

/* A rank that nobody has is one whose worker has died, or has not come yet. */
static const struct psclient_worker *find_rank(const struct psclient_worker_list *list,
                                               unsigned long rank)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->workers[i].rank == rank)
            return &list->workers[i];
    return NULL;
}

/* The server's text ends with the ranks that are missing; behind each comes who has it. What it
 * does not end with stays as it is. */
static void name_missing(struct psclient *client, const char *group, struct psclient_error *error)
{
    static const char mark[] = "missing:";
    struct psclient_worker_list list;
    char text[sizeof error->text];
    struct ps_buffer line;
    const char *at = strstr(error->text, mark);
    /* A server of another version may say it in other words. */
    if (at == NULL ||
        psclient_list_workers(client, group, 0, MARGIN_MS, &list, NULL) != PSCLIENT_OK)
        return;
    /* The ranks stand behind it, apart by spaces. */
    at += sizeof mark - 1;
    ps_buffer_init_fixed(&line, text, sizeof text);
    ps_buffer_append(&line,
                     (struct ps_bytes){(const uint8_t *)error->text, (size_t)(at - error->text)});
    for (char *end; *at == ' '; at = end) {
        /* The list may end with three dots, which are not a number. */
        unsigned long rank = strtoul(at, &end, 10);
        if (end == at || end == at + 1)
            break;
        /* A text that is full ends with the last worker that had room. */
        size_t before = line.size;
        const struct psclient_worker *worker = find_rank(&list, rank);
        ps_buffer_append_format(&line, " %lu (%s%s%s)", rank,
                                worker == NULL            ? "nobody"
                                : worker->name[0] != '\0' ? worker->name
                                                          : "a worker",
                                worker != NULL && worker->host[0] != '\0' ? " on " : "",
                                worker != NULL ? worker->host : "");
        if (line.failed) {
            ps_buffer_rewind(&line, before);
            break;
        }
    }
    copy_text(error->text, sizeof error->text, text);
    psclient_worker_list_release(&list);
}

/* The group's name goes behind the barrier's, by whose beginning a caller may be allowed to use
 * it. */
PS_EXPORT int psclient_barrier_group(struct psclient *client, const char *group, const char *name,
                                     uint64_t round, uint64_t timeout_ms,
                                     struct psclient_error *error)
{
    /* Beyond what servers take as a name: one that is too long is refused there, in words. */
    char full[320];
    struct psclient_place place;
    struct psclient_error own;
    struct psclient_error *why = error != NULL ? error : &own;
    int status = psclient_worker_rank(client, group, &place, why);
    if (status != PSCLIENT_OK)
        return status;
    /* How many would have to come is not known. */
    if (place.size == 0)
        return ps_client_fail(error, PS_ERR_BAD_INPUT,
                              "the group has no end: join with a size to wait for all of it");
    int length = snprintf(full, sizeof full, "%s@%s", name, group_or_default(group));
    if (length < 0 || (size_t)length >= sizeof full)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "the barrier's name is too long");
    status = psclient_barrier(client, full, round, place.rank, place.size, timeout_ms, why);
    /* The time is over; every other failure has a text of its own that says why. */
    if (status == PSCLIENT_UNKNOWN)
        name_missing(client, group_or_default(group), why);
    return status;
}
