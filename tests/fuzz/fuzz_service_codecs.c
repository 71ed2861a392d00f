/* Any bytes as a question to the health and the reflection service, and as what a server says of
 * the others. */
#include "fuzz_target.h"

#include "proto/cluster_codec.h"
#include "proto/health_codec.h"
#include "proto/reflection_codec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ps_bytes bytes = {data, size};
    char service[PS_HEALTH_SERVICE_BYTES_MAX + 1];
    if (ps_decode_health(ps_view_of(&bytes), service, NULL) == PS_OK &&
        strlen(service) > PS_HEALTH_SERVICE_BYTES_MAX)
        abort();

    struct ps_cluster_reply cluster = {0};
    if (ps_decode_cluster(ps_view_of(&bytes), ps_allocator_heap(), &cluster, NULL) == PS_OK &&
        cluster.shard_count > PS_SHARDS_MAX)
        abort();
    ps_cluster_reply_release(&cluster);

    struct ps_buffer reply;
    ps_buffer_init(&reply, ps_allocator_heap(), PS_REFLECTION_REPLY_BYTES_MAX);
    enum ps_status status = ps_reflection_answer(ps_view_of(&bytes), &reply, NULL);
    if (status != PS_OK && status != PS_ERR_BAD_INPUT)
        abort();
    ps_buffer_fini(&reply);
    return 0;
}
