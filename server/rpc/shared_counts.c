/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sentences of the metrics of shared memory. A metric is registered once in the life of a
 * server, whether it has clients that share or not: a graph then shows a zero and no gap. */
#include "server/rpc/shared_counts.h"

/* Without a registry the pointers stay NULL, and counting does nothing. */
void ps_shared_counts_register(struct ps_metrics *metrics, struct ps_shared_counts *counts)
{
    if (metrics == NULL)
        return;
    counts->client_count = ps_metrics_gauge(metrics, "ps_shared_memory_clients",
                                            "Clients that share memory with this server.", NULL);
    counts->segment_count =
        ps_metrics_gauge(metrics, "ps_shared_memory_segments", "Memories that they share.", NULL);
    counts->mapped_bytes =
        ps_metrics_gauge(metrics, "ps_shared_memory_bytes", "Bytes that they share.", NULL);
    /* Apart from the others: these take nothing of the host's memory. */
    counts->device_bytes =
        ps_metrics_gauge(metrics, "ps_shared_memory_device_bytes",
                         "Bytes of the device's own memory that clients on this host share.", NULL);
    counts->refused = ps_metrics_counter(metrics, "ps_shared_memory_refused_total",
                                         "Clients, or memory of theirs, that were refused.", NULL);
    static const char content[] = "Bytes of content that went through shared memory.";
    counts->push_bytes = ps_metrics_counter(metrics, "ps_shared_memory_content_bytes_total",
                                            content, "way=\"push\"");
    counts->pull_bytes = ps_metrics_counter(metrics, "ps_shared_memory_content_bytes_total",
                                            content, "way=\"pull\"");
    counts->copied_bytes =
        ps_metrics_counter(metrics, "ps_shared_memory_copied_bytes_total",
                           "Those of them that the server copied: all that is pulled, and what is "
                           "pushed where a journal is kept or in an encoding but rows.",
                           NULL);
}
