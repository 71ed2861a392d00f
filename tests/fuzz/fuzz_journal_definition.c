/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the content of a definition in the journal: refused, or a head that is written again
 * as it was. */
#include "fuzz_target.h"

#include "checkpoint/journal_definition.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t head[PS_DEFINITION_HEAD_BYTES_MAX];
    struct ps_definition definition;
    if (ps_definition_read((struct ps_bytes){data, size}, &definition, NULL) != PS_OK)
        return 0;
    if (definition.values.data + definition.values.size != data + size)
        abort();
    size_t written = ps_definition_head_write(&definition, head);
    /* What is not the same are zeros that a writer of another kind has left something in. */
    if (written + definition.values.size != size || memcmp(head, data, 16) != 0)
        abort();
    return 0;
}
