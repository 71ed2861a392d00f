/* SPDX-License-Identifier: Apache-2.0 */
/* A synchronous step in one round trip where the numbers allow it, and in two where they do not.
 * Either way the values of an item are those that its contribution went into: the first answer says
 * which version that is, and what came too early is pulled once more. */
#include "client/round_step.h"

#include "base/assert.h"
#include "base/clock.h"
#include "client/caller_structs.h"
#include "client/status_map.h"

#include <string.h>

static bool claim(struct psclient *client, const struct ps_item *items, size_t count);
static enum ps_status contribute(struct psclient *client, struct ps_item *items, size_t count,
                                 uint64_t deadline_ms, struct ps_error *error);
static enum ps_status pull_rest(struct psclient *client, struct ps_item *items, size_t count,
                                uint64_t deadline_ms, struct ps_error *error);
static bool is_missing(const struct ps_item *item);
static struct ps_item pull_of(const struct ps_item *item);
static void take_pulled(struct ps_item *item, const struct ps_item *pulled);

/* Asked before items are made, since a plain push and pull may go another way. Gradients of
 * parameters with and without rounds may be in one batch. */
bool ps_client_contributes(const struct psclient *client, const struct psclient_gradient *gradients,
                           size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ps_caller_gradient(&client->sizes, gradients, i).worker != 0)
            return true;
    return false;
}

/* How many of the items may keep their numbers for long. */
static uint32_t contributions(const struct ps_item *items, size_t count)
{
    /* Of a cut parameter each part has a number at a server of its own, so that items count. */
    uint32_t contributing = 0;
    for (size_t i = 0; i < count; i++)
        contributing += items[i].worker != 0 ? 1 : 0;
    return contributing;
}

/* Taken first and given back when it was too much: two threads that both look before they take
 * would both find room. */
static bool take_room(struct psclient *client, uint32_t wanted)
{
    uint32_t before = atomic_fetch_add(&client->contributions_waiting, wanted);
    if (wanted <= PS_STEP_WAITING_MAX && before <= PS_STEP_WAITING_MAX - wanted)
        return true;
    (void)atomic_fetch_sub(&client->contributions_waiting, wanted);
    return false;
}

/* An operation cannot fall back to two calls in the middle, so that it is refused before anything
 * was sent. */
enum ps_status ps_client_enter_step(struct psclient *client, const struct ps_item *items,
                                    size_t count, struct ps_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].worker != 0 && items[i].round == 0)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "a contribution without its round cannot be awaited in one operation");
    if (take_room(client, contributions(items, count)))
        return PS_OK;
    return ps_fail(error, PS_ERR_NO_MEMORY, "more than %d contributions would wait: end some first",
                   PS_STEP_WAITING_MAX);
}

/* Counted again from the items, which nobody has changed since: an operation has no room for a
 * number that says the same. */
void ps_client_leave_step(struct psclient *client, const struct ps_item *items, size_t count)
{
    uint32_t before = atomic_fetch_sub(&client->contributions_waiting, contributions(items, count));
    PS_ASSERT(before >= contributions(items, count));
}

/* The encoder is told what became of each gradient before the verdict is written into the item: a
 * contribution that its worker had made before was not counted again. */
int ps_client_step(struct psclient *client, struct ps_item *items,
                   struct psclient_parameter *parameters, size_t count, uint64_t timeout_ms,
                   struct psclient_result *results, struct psclient_error *error)
{
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    struct ps_error why = {.status = PS_OK};
    enum ps_status status = contribute(client, items, count, deadline_ms, &why);
    for (size_t i = 0; i < count; i++) {
        if (status != PS_OK && items[i].status == PS_OK)
            items[i].status = status; /* none was sent */
        ps_push_encoder_settle(&client->encoder, &items[i]);
    }
    if (status == PS_OK)
        status = pull_rest(client, items, count, deadline_ms, &why);
    if (status == PS_OK)
        ps_client_note_pulled(client, items, parameters, count);
    int verdict = status == PS_OK
                      ? ps_client_verdict(client, items, count, results, error)
                      : ps_client_refuse_items(client, items, count, &why, results, error);
    ps_release(client->memory, items);
    return verdict;
}

/* Rows travel as whole parameters do, so that nothing here asks which of both an item is.
 *
 * Two halves of one deadline, as of a step of whole parameters. Rows have no encoder that would
 * have to be told what became of them. */
enum ps_status ps_client_step_rows(struct psclient *client, struct ps_item *items, size_t count,
                                   uint64_t deadline_ms, struct ps_error *error)
{
    PS_ASSERT(count > 0 && items[0].worker != 0);
    /* Servers without a row of this worker have an item, too. */
    PS_TRY(contribute(client, items, count, deadline_ms, error));
    return pull_rest(client, items, count, deadline_ms, error);
}

/* May the step go in one message and wait there? The worker that comes first has that right for the
 * client's life: a second one may have to push before the first one's round is over. A contribution
 * to "the round that is made now" learns only by its answer what it has to wait for. */
static bool claim(struct psclient *client, const struct ps_item *items, size_t count)
{
    uint32_t worker = 0;
    if (atomic_load(&client->no_push_pull) || count > PS_STEP_TOGETHER_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (items[i].worker == 0)
            continue;
        if (items[i].round == 0 || (worker != 0 && items[i].worker != worker))
            return false;
        worker = items[i].worker;
    }
    /* Only the first thread finds nobody there; all of its worker's steps pass from then on. */
    uint32_t first = 0;
    if (!atomic_compare_exchange_strong(&client->first_worker, &first, worker) && first != worker)
        return false;
    return take_room(client, contributions(items, count));
}

/* Has a server said that it knows no push and pull in one, and nobody else anything? */
static bool may_go_apart(const struct ps_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!items[i].no_such_call || items[i].may_be_applied)
            return false;
    return count > 0;
}

/* The first of the two ways, or only the half of it that pushes. */
static enum ps_status contribute(struct psclient *client, struct ps_item *items, size_t count,
                                 uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_batch_request request = ps_client_request(client, PS_METHOD_PUSH, items, count, 0);
    /* One deadline for both calls of a step, however long the first one takes. */
    request.deadline_ms = deadline_ms;
    if (claim(client, items, count)) {
        request.method = PS_METHOD_PUSH_PULL;
        enum ps_status status = ps_client_run(client, &request, error);
        ps_client_leave_step(client, items, count);
        if (status != PS_OK || !may_go_apart(items, count))
            return status;
        atomic_store(&client->no_push_pull, true); /* for all that follow */
        request.method = PS_METHOD_PUSH;
    }
    return ps_client_run(client, &request, error);
}

/* Pulls what is missing, as one batch of its own. */
static enum ps_status pull_rest(struct psclient *client, struct ps_item *items, size_t count,
                                uint64_t deadline_ms, struct ps_error *error)
{
    /* Counted before the array is made: most steps have their values already. */
    size_t missing = 0;
    for (size_t i = 0; i < count; i++)
        missing += is_missing(&items[i]) ? 1 : 0;
    if (missing == 0)
        return PS_OK;
    struct ps_item *pulls = ps_zeroed_array(client->memory, missing, sizeof *pulls);
    if (pulls == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the values of a step");
    size_t next = 0;
    for (size_t i = 0; i < count; i++)
        if (is_missing(&items[i]))
            pulls[next++] = pull_of(&items[i]);
    struct ps_batch_request request = ps_client_request(client, PS_METHOD_PULL, pulls, missing, 0);
    request.deadline_ms = deadline_ms;
    enum ps_status status = ps_client_run(client, &request, error);
    /* The same question once more, in the same order: no item has changed meanwhile. */
    next = 0;
    for (size_t i = 0; i < count && status == PS_OK; i++)
        if (is_missing(&items[i]))
            take_pulled(&items[i], &pulls[next++]);
    ps_release(client->memory, pulls);
    return status;
}

/* A contribution that came late may count in a later round than the one that was waited for. One
 * that its worker has made before, in an earlier life say, is in its round: what that made is all
 * that there is to get. */
static bool is_missing(const struct ps_item *item)
{
    if (item->status == PS_ERR_EXISTS)
        return item->round != 0;
    return item->status == PS_OK && item->pulled_version < item->version;
}

/* Everything of the item but its gradient. */
static struct ps_item pull_of(const struct ps_item *item)
{
    /* Of a contribution that was made before nothing but its round is known. */
    return (struct ps_item){.name = item->name,
                            .of_table = item->of_table,
                            .shard = item->shard,
                            .keys = item->keys,
                            .dtype = item->dtype,
                            .destination = item->destination,
                            .size = item->size,
                            .encoding = item->encoding,
                            .as_is = item->as_is,
                            .at_least_version =
                                item->status == PS_ERR_EXISTS ? item->round : item->version};
}

/* What the contribution's answer said stays, unless there was none. A worker that had contributed
 * before finds its contribution counted once, and needs no other way for this case than for a push
 * whose answer was lost. */
static void take_pulled(struct ps_item *item, const struct ps_item *pulled)
{
    PS_ASSERT(item->name.data == pulled->name.data);
    if (item->status == PS_ERR_EXISTS && pulled->status == PS_OK) {
        item->duplicate = true;
        item->version = item->round;
    }
    item->status = pulled->status;
    item->pulled_version = pulled->pulled_version;
    /* Of both calls together: the caller asked for one step. */
    item->retries += pulled->retries;
    memcpy(item->text, pulled->text, sizeof item->text);
}
