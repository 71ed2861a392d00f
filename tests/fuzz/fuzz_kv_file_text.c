/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the file of a store, with the checksum put right, since no fuzzer guesses it. What
 * is accepted is whole and comes back when it is written again. */
#include "fuzz_target.h"

#include "base/hash.h"
#include "etcd/kv_file_text.h"

#include <stdlib.h>

static void write_again(const struct ps_kv_table *table)
{
    struct ps_buffer text;
    struct ps_kv_table copy;
    ps_buffer_init(&text, ps_allocator_heap(), PS_KV_FILE_BYTES_MAX);
    ps_kv_table_init(&copy, ps_allocator_heap());
    ps_kv_file_write(table, &text);
    struct ps_bytes bytes = {(const uint8_t *)text.text, text.size};
    if (text.failed || ps_kv_file_read(bytes, &copy, NULL) != PS_OK ||
        copy.entry_count != table->entry_count || copy.revision != table->revision)
        abort();
    ps_kv_table_fini(&copy);
    ps_buffer_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ps_bytes document = {data, size};
    struct ps_buffer text;
    ps_buffer_init(&text, ps_allocator_heap(), PS_KV_FILE_BYTES_MAX);
    ps_buffer_append_format(&text, "pserver-store 1 %08x\n", ps_hash_fnv1a32(document));
    ps_buffer_append(&text, document);

    struct ps_kv_table table;
    ps_kv_table_init(&table, ps_allocator_heap());
    struct ps_bytes bytes = {(const uint8_t *)text.text, text.size};
    if (ps_kv_file_read(bytes, &table, NULL) == PS_OK) {
        ps_kv_table_check(&table);
        write_again(&table);
    }
    ps_kv_table_fini(&table);
    ps_buffer_fini(&text);
    return 0;
}
