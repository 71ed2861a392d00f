/* SPDX-License-Identifier: Apache-2.0 */
/* Measured by writing the widest facts and the widest parameter: a sum of its own would have to
 * follow every change of the format, and the one time it did not would be found at a save. */
#include "checkpoint/header_bytes.h"

#include "base/json_writer.h"
#include "checkpoint/header_entry_writer.h"
#include "checkpoint/header_writer.h"

#include <string.h>

/* Digits of the highest 64-bit number, 18446744073709551615. */
#define WIDEST_DIGITS 20

/* How many bytes the facts take at most, so that a service can refuse a parameter for which the
 * header would become too large. */
enum ps_status ps_header_facts_bytes(const char *job, const struct ps_allocator *memory,
                                     uint64_t *bytes, struct ps_error *error)
{
    static const uint8_t session[1] = {0};
    char set[PS_SET_NAME_BYTES_MAX + 1] = "";
    char base[37] = "";
    memset(set, 'f', sizeof set - 1);
    memset(base, 'f', sizeof base - 1);
    struct ps_checkpoint_facts facts = {.index = UINT32_MAX,
                                        .shard_count = UINT32_MAX,
                                        .placement = UINT64_MAX,
                                        .epoch = UINT64_MAX,
                                        .position = UINT64_MAX,
                                        .unix_ns = UINT64_MAX,
                                        .job = job,
                                        .set = set,
                                        .base = base,
                                        .sessions = {session, sizeof session}};
    memset(facts.uuid, 'f', sizeof facts.uuid - 1);
    memset(facts.history.bytes, 0xff, sizeof facts.history.bytes);
    /* Each of them, since a parameter may get rounds, and the shard clocks, at any time. */
    const struct ps_header_section sections[PS_CHECKPOINT_SECTION_COUNT] = {{.bytes = 1},
                                                                            {.bytes = 1}};
    struct ps_buffer head;
    ps_buffer_init(&head, memory, PS_HEADER_BYTES_MAX);
    enum ps_status status = ps_header_write(&facts, sections, NULL, 0, memory, &head, error);
    /* The tensors of sessions and sections have their place behind all others, where numbers are
     * long. */
    *bytes = head.size + PS_HEADER_ALIGNMENT +
             (1 + PS_CHECKPOINT_SECTION_COUNT) * (uint64_t)(3 * WIDEST_DIGITS);
    ps_buffer_fini(&head);
    return status;
}

/* The same for one parameter: its entry (escaped, as a text in the outer document) and its tensors,
 * all numbers at their widest. */
enum ps_status ps_header_parameter_bytes(const struct ps_checkpoint_parameter *parameter,
                                         const struct ps_allocator *memory, uint64_t *bytes,
                                         struct ps_error *error)
{
    struct ps_checkpoint_parameter widest = *parameter;
    /* These numbers grow while the service runs, and with them the header; names and configurations
     * stay. */
    widest.version = widest.step = widest.id = UINT64_MAX;
    widest.birth = parameter->birth != 0 ? UINT64_MAX : 0;
    /* As many rows as no memory has, so few that the bytes of an array can be counted. */
    if (widest.is_table) {
        widest.rows = (uint64_t)INT64_MAX / 8 / widest.width;
        widest.count = widest.rows * widest.width;
        /* In a file that adds to another it may have one array more than in a whole one. */
        widest.carry = PS_CARRY_ROWS;
        widest.removed.size = (size_t)INT64_MAX / 8 * 8;
    }
    const struct ps_header_slot slot = {.parameter = &widest};
    struct ps_buffer parameters, head;
    ps_buffer_init(&parameters, memory, PS_HEADER_BYTES_MAX);
    ps_buffer_init(&head, memory, PS_HEADER_BYTES_MAX);
    ps_header_write_parameters(&slot, 1, memory, &parameters);
    struct ps_json_writer json;
    ps_json_writer_init(&json, &head);
    ps_json_begin_object(&json, NULL);
    /* A text, as in the real header: the quotes of the inner document double there. */
    ps_json_text(&json, "p", (struct ps_bytes){(const uint8_t *)parameters.text, parameters.size});
    for (uint32_t array = 0; array < ps_array_carried(&widest); array++) {
        uint64_t offset = UINT64_MAX - ps_array_bytes(&widest, array);
        ps_header_write_tensor(&json, &widest, array, &offset);
    }
    ps_json_end_object(&json);
    enum ps_status status = ps_buffer_status(&parameters, error);
    if (status == PS_OK)
        status = ps_buffer_status(&head, error);
    *bytes = head.size;
    ps_buffer_fini(&head);
    ps_buffer_fini(&parameters);
    return status;
}
