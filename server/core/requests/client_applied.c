/* SPDX-License-Identifier: Apache-2.0 */
/* Counts know digests of names, and the table knows the names: the two meet here, page by page in
 * the order of the names. */
#include "server/core/requests/client_applied.h"

#include "base/assert.h"
#include "server/core/requests/service_state.h"

#include <stdlib.h>

/* Rows of one answer when the request does not say, and at most. */
#define ROWS_DEFAULT 1000
#define ROWS_MAX 4000

static enum ps_status look(struct ps_service *service, const struct ps_applied_request *request,
                           struct ps_client_applied *applied, struct ps_error *error);
static enum ps_status fill_rows(struct ps_service *service,
                                const struct ps_applied_request *request,
                                const struct ps_push_counts *counts,
                                struct ps_client_applied *applied, struct ps_error *error);
static size_t collect(const struct ps_parameter_table *table, const struct ps_push_counts *counts,
                      struct ps_bytes after, struct ps_parameter_spec **found);
static int compare_names(const void *a, const void *b);

/* The cut is held, so that counts, names and the journal's position are of one generation; pushes
 * go on beside it. */
enum ps_status ps_service_applied(struct ps_service *service,
                                  const struct ps_applied_request *request,
                                  struct ps_client_applied *applied, struct ps_error *error)
{
    *applied = (struct ps_client_applied){.specs = NULL};
    PS_ASSERT(request->id.present);
    ps_rwlock_read(&service->cut);
    /* A server that is fenced may lack pushes that the present owner has. */
    enum ps_status status = ps_service_admit_for(service, request->shard, error);
    if (status == PS_OK)
        status = look(service, request, applied, error);
    ps_rwlock_unlock(&service->cut);
    if (status != PS_OK)
        ps_service_release_applied(service, applied);
    return status;
}

/* The position is read behind the counts: whatever they count has one by then. */
static enum ps_status look(struct ps_service *service, const struct ps_applied_request *request,
                           struct ps_client_applied *applied, struct ps_error *error)
{
    struct ps_session_applied known;
    PS_TRY(ps_sessions_applied(&service->sessions, &request->id, request->begins,
                               ps_service_unix_us(service), service->memory, &known, error));
    struct ps_journal_state state;
    /* Without a journal there is nothing to wait for: what a crash takes is gone with its count. */
    ps_journal_queue_look(&service->queue, &state);
    applied->wait.generation = state.generation;
    applied->wait.position = service->queue.journals ? state.position : 0;
    applied->reply = (struct ps_applied_reply){.is_known = known.is_known,
                                               .is_whole = known.is_whole,
                                               .session = known.session,
                                               .sequence = known.sequence,
                                               .used_us = known.used_us,
                                               .begun = known.begun};
    /* A session that has begun stays begun if there is no memory for the rows: the caller asks
     * again, and gets another one. */
    enum ps_status status = fill_rows(service, request, &known.counts, applied, error);
    ps_session_applied_release(&known, service->memory);
    PS_ASSERT(!request->begins || applied->reply.begun > 0);
    /* A client that was not known is remembered now, and another may have gone for it. */
    if (request->begins)
        ps_service_count_clients(service);
    return status;
}

/* All names of the client are sorted for each page, so that pages neither overlap nor miss one.
 * Only the rows of this page take a reference: a parameter may be replaced once the cut is
 * released. */
static enum ps_status fill_rows(struct ps_service *service,
                                const struct ps_applied_request *request,
                                const struct ps_push_counts *counts,
                                struct ps_client_applied *applied, struct ps_error *error)
{
    size_t limit = request->limit > 0 ? request->limit : ROWS_DEFAULT;
    limit = limit < ROWS_MAX ? limit : ROWS_MAX;
    /* As many rows as the client has names bound both arrays, whatever the table holds. */
    size_t known = ps_push_counts_known(counts);
    struct ps_applied_row *rows = ps_zeroed_array(service->memory, known, sizeof *rows);
    applied->reply.rows = rows;
    applied->specs = ps_zeroed_array(service->memory, known, sizeof(struct ps_parameter_spec *));
    if (rows == NULL || applied->specs == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for what a client has pushed");
    size_t found = collect(&service->table, counts, request->after, applied->specs);
    PS_ASSERT(found <= known);
    if (found > 1)
        qsort(applied->specs, found, sizeof(struct ps_parameter_spec *), compare_names);
    /* A page more than is needed is never made: the caller asks behind the last name. */
    applied->reply.more = found > limit;
    applied->reply.row_count = found > limit ? limit : found;
    for (size_t i = 0; i < applied->reply.row_count; i++) {
        struct ps_bytes name = ps_parameter_spec_acquire(applied->specs[i])->name;
        const struct ps_push_count *count = ps_push_counts_find(counts, ps_push_count_key(name));
        PS_ASSERT(count != NULL);
        rows[i] = (struct ps_applied_row){name, count->pushes, count->version};
    }
    return PS_OK;
}

/* Two names of one digest would be two rows: then the second is left out, since there is no room
 * for it. */
static size_t collect(const struct ps_parameter_table *table, const struct ps_push_counts *counts,
                      struct ps_bytes after, struct ps_parameter_spec **found)
{
    size_t count = 0;
    size_t known = ps_push_counts_known(counts);
    /* A name whose parameter is not there any more is not found, and has no row. */
    for (struct ps_parameter_entry *entry = ps_parameter_table_first(table);
         entry != NULL && count < known; entry = ps_parameter_table_next(entry)) {
        struct ps_parameter_spec *spec = ps_parameter_entry_parameter(entry)->spec;
        if (ps_bytes_compare(spec->name, after) > 0 &&
            ps_push_counts_find(counts, ps_push_count_key(spec->name)) != NULL)
            found[count++] = spec;
    }
    return count;
}

/* By bytes, as lists of parameters are. */
static int compare_names(const void *a, const void *b)
{
    const struct ps_parameter_spec *const *left = a;
    const struct ps_parameter_spec *const *right = b;
    return ps_bytes_compare((*left)->name, (*right)->name);
}

/* Only rows hold their spec; what did not fit on the page was never acquired. */
void ps_service_release_applied(struct ps_service *service, struct ps_client_applied *applied)
{
    if (applied->specs == NULL && applied->reply.rows == NULL)
        return;
    /* Of the two arrays one may be missing: then no row was made. */
    PS_ASSERT(applied->specs != NULL || applied->reply.row_count == 0);
    for (size_t i = 0; i < applied->reply.row_count; i++)
        ps_parameter_spec_release(applied->specs[i]);
    ps_release(service->memory, applied->specs);
    ps_release(service->memory, (void *)(uintptr_t)applied->reply.rows);
    *applied = (struct ps_client_applied){.specs = NULL};
}
