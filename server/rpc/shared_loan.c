/* SPDX-License-Identifier: Apache-2.0 */
/* A hold of shared memory with a count, and the copying of what is much. */
#include "server/rpc/shared_loan.h"

#include "base/assert.h"
#include "server/core/update/spread.h"

#include <inttypes.h>
#include <stdatomic.h>

struct ps_shared_loan {
    const struct ps_allocator *memory; /* borrowed */
    atomic_uint references;
    struct ps_shared_hold hold;
};

/* Parts that are copied by whoever has time. */
struct copying {
    struct ps_view content;
    uint8_t *room;
    atomic_size_t next; /* first byte that nobody has taken */
};

enum { PART_BYTES = 1024 * 1024 };

/* Bounds come before the memory is looked for: they bound what one request may cost the server. */
enum ps_status ps_shared_loan_take(struct ps_rpc_context *context,
                                   const struct ps_shared_range *range, struct ps_shared_loan **out,
                                   struct ps_error *error)
{
    /* Then no client was told of any. */
    if (context->shared == NULL)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "this server shares no memory");
    if (range->size > context->message_bytes_max)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                       "shared memory: %" PRIu64 " bytes are more than the %" PRIu64
                       " of the largest message",
                       range->size, context->message_bytes_max);
    /* Found only when there is something to hold it. */
    struct ps_shared_loan *loan = ps_zeroed(context->memory, sizeof *loan);
    if (loan == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a loan");
    /* The loan outlives its call, and the context outlives both. */
    loan->memory = context->memory;
    atomic_init(&loan->references, 1);
    enum ps_status status = ps_shared_memory_find(context->shared, range, &loan->hold, error);
    /* A program is another process, which has not opened the piece. */
    if (status == PS_OK && ps_shared_hold_on_device(&loan->hold)) {
        /* A loan that was not taken holds nothing. */
        ps_shared_memory_release(&loan->hold);
        status = ps_fail(error, PS_ERR_BAD_INPUT, "a program reads no memory of a device");
    }
    if (status != PS_OK) {
        ps_release(loan->memory, loan);
        return status;
    }
    *out = loan;
    return PS_OK;
}

struct ps_bytes ps_shared_loan_bytes(const struct ps_shared_loan *loan)
{
    return (struct ps_bytes){loan->hold.bytes, loan->hold.size};
}

static void *keep(void *self)
{
    struct ps_shared_loan *loan = self;
    /* Any holder may give it to another. */
    unsigned before = atomic_fetch_add(&loan->references, 1);
    PS_ASSERT(before > 0);
    return loan;
}

struct ps_hold ps_shared_loan_hold(struct ps_shared_loan *loan)
{
    return (struct ps_hold){
        .keep = keep, .drop = ps_shared_loan_drop, .self = loan, .bytes = loan->hold.size};
}

/* On any thread: a request ends where it is answered. */
void ps_shared_loan_drop(void *self)
{
    struct ps_shared_loan *loan = self;
    unsigned before = atomic_fetch_sub(&loan->references, 1);
    PS_ASSERT(before > 0);
    if (before > 1)
        return;
    /* Here the server may close its end of the client's connection, if the client has closed
     * its own. */
    ps_shared_memory_release(&loan->hold);
    ps_release(loan->memory, loan);
}

/* Each thread takes the next part until there is none: nobody waits for a thread that came late. */
static void copy_parts(void *argument)
{
    struct copying *copying = argument;
    /* The same for each thread; only `next` is written. */
    size_t size = copying->content.size;
    size_t at;
    while ((at = atomic_fetch_add(&copying->next, PART_BYTES)) < size)
        ps_view_copy(copying->content, at, copying->room + at,
                     size - at < PART_BYTES ? size - at : PART_BYTES);
}

/* One thread does not fill the memory's bandwidth. */
void ps_shared_copy(struct ps_rpc_context *context, struct ps_view content, uint8_t *room)
{
    /* On this stack: all threads are done when the crew returns. */
    struct copying copying = {.content = content, .room = room};
    const struct ps_crew crew = ps_helpers_crew(&context->helpers);
    /* To wake others costs more than to copy so little. */
    if (content.size < PS_SPREAD_BYTES_MIN)
        copy_parts(&copying);
    else
        crew.run(crew.self, copy_parts, &copying);
}
