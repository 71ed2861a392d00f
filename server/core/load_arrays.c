/* Page faults, copies and checksums of a shard's arrays are most of the time of a recovery, and
 * need nothing of each other. */
#include "server/core/load_arrays.h"

#include "base/thread.h"

#include <stdatomic.h>

/* Of one parameter: its values and its states. */
#define ARRAYS_MAX (1 + PS_STATES_MAX)

struct arrays {
    struct ps_checkpoint_reader *reader;
    struct ps_parameter *const *parameters;
    const struct ps_allocator *memory;
    _Atomic size_t next; /* array that nobody has taken: ARRAYS_MAX for each parameter */
    _Atomic bool failed;
    struct ps_mutex lock;    /* guards what follows */
    struct ps_error failure; /* the first */
};

static void work(void *argument);
static enum ps_status read_array(const struct arrays *arrays, size_t i, int32_t state,
                                 struct ps_error *error);
static void note_failure(struct arrays *arrays, const struct ps_error *failure);

enum ps_status ps_load_arrays(struct ps_checkpoint_reader *reader,
                              struct ps_parameter *const *parameters, const struct ps_crew *crew,
                              const struct ps_allocator *memory, struct ps_error *error)
{
    struct arrays arrays = {.reader = reader, .parameters = parameters, .memory = memory};
    ps_mutex_init(&arrays.lock, PS_RANK_QUEUE);
    if (crew != NULL)
        crew->run(crew->self, work, &arrays);
    else
        work(&arrays);
    ps_mutex_fini(&arrays.lock);
    if (!atomic_load(&arrays.failed))
        return PS_OK;
    return ps_fail(error, arrays.failure.status, "%s", arrays.failure.text);
}

static void work(void *argument)
{
    struct arrays *arrays = argument;
    size_t count = ps_checkpoint_parameter_count(arrays->reader);
    while (!atomic_load(&arrays->failed)) {
        struct ps_error reason = {0};
        size_t taken = atomic_fetch_add(&arrays->next, 1);
        size_t i = taken / ARRAYS_MAX;
        uint32_t array = (uint32_t)(taken % ARRAYS_MAX);
        if (i >= count)
            return;
        if (array > ps_parameter_state_count(arrays->parameters[i]))
            continue;
        if (read_array(arrays, i, (int32_t)array - 1, &reason) != PS_OK)
            note_failure(arrays, &reason);
    }
}

static enum ps_status read_array(const struct arrays *arrays, size_t i, int32_t state,
                                 struct ps_error *error)
{
    const struct ps_parameter *parameter = arrays->parameters[i];
    struct ps_blocks *blocks = state < 0 ? parameter->values : parameter->states[state];
    struct ps_checkpoint_piece *pieces =
        ps_zeroed_array(arrays->memory, blocks->block_count, sizeof *pieces);
    if (pieces == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to read %zu blocks",
                       blocks->block_count);
    for (size_t block = 0; block < blocks->block_count; block++)
        pieces[block] =
            (struct ps_checkpoint_piece){.data = ps_blocks_write(blocks, block, parameter->version),
                                         .size = blocks->pieces[block].size};
    enum ps_status status =
        ps_checkpoint_read_array(arrays->reader, i, state, pieces, blocks->block_count, error);
    ps_release(arrays->memory, pieces);
    return status;
}

static void note_failure(struct arrays *arrays, const struct ps_error *failure)
{
    ps_mutex_lock(&arrays->lock);
    if (!atomic_load(&arrays->failed))
        arrays->failure = *failure;
    atomic_store(&arrays->failed, true);
    ps_mutex_unlock(&arrays->lock);
}
