/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a reply of etcd's, to every reader of replies. */
#include "fuzz_target.h"

#include "etcd/etcd_reply.h"

#include <stdlib.h>
#include <string.h>

static void read_range(struct ps_bytes reply)
{
    struct ps_kv_entries entries = {0};
    if (ps_etcd_reply_range(reply, ps_allocator_heap(), &entries, NULL) != PS_OK)
        return;
    for (size_t i = 0; i < entries.count; i++)
        if (strlen(entries.entries[i].key) == 0 ||
            entries.entries[i].value[entries.entries[i].value_size] != 0)
            abort();
    ps_kv_entries_release(&entries);
}

static void read_token(struct ps_bytes reply)
{
    char *token = NULL;
    if (ps_etcd_reply_token(reply, ps_allocator_heap(), &token, NULL) != PS_OK)
        return;
    if (strpbrk(token, "\r\n") != NULL)
        abort();
    ps_release(ps_allocator_heap(), token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ps_bytes reply = {data, size};
    struct ps_etcd_error error;
    ps_etcd_reply_error(reply, 200, &error);
    ps_etcd_reply_error(reply, 503, &error);
    read_range(reply);
    read_token(reply);
    bool done = false;
    int64_t revision = 0;
    enum ps_status status = ps_etcd_reply_transaction(reply, &done, &revision, NULL);
    struct ps_etcd_watch_line line;
    if (status == PS_OK)
        status = ps_etcd_reply_keep(reply, NULL);
    if (status != PS_OK)
        status = ps_etcd_reply_watch(reply, &line, NULL);
    return 0;
}
