/* SPDX-License-Identifier: Apache-2.0 */
/* FlexPS's channel: messages from worker to worker, delivered in rounds. What its LocalChannel does
 * is two calls over the rendezvous (psclient_rendezvous.h), and a barrier.
 *
 *     FlexPS                                   here
 *     Channel(...), GetLocalChannels()        ps_local_channel_open(client, &options, ..)
 *     channel.PushTo(id, bin)                  ps_local_channel_push_to(channel, id, bytes, ..)
 *     channel.SyncAndGet()                     ps_local_channel_sync_and_get(channel, &got, ..)
 *     channel.Wait()                           ps_local_channel_wait(channel, ..)
 *
 * Messages of one worker to another come in the order in which they were pushed; those of different
 * workers in any. What is pushed in a round is got in that round, and no sooner.
 *
 * Threads:  a channel belongs to one worker, which is one thread at a time.
 * Blocking: each call at most the channel's `timeout_ms`.
 * Errors:   enum psclient_status: those of the rendezvous and of psclient_barrier. Behind a failure
 *           a round may be in part: open the channel under another step then.
 * Memory:   pushed bytes are borrowed for the call. The client outlives its channels.
 */
#ifndef FLEXPS_CHANNEL_H
#define FLEXPS_CHANNEL_H

#include "psclient.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise. */
struct ps_local_channel_options {
    const char *name;    /* of the channel, the same for all its workers: at most 64 bytes */
    uint64_t step;       /* of the rendezvous: no other user of that number */
    uint32_t worker;     /* this one, below `workers` */
    uint32_t workers;    /* that share the channel */
    uint64_t timeout_ms; /* 0: ten minutes */
};

struct ps_local_channel;

/* What a round brought to one worker. Zero before the first use; given back with release. */
struct ps_local_channel_messages {
    struct psclient_tensor *list;
    size_t count;
};

/* Ended with close, which accepts NULL; by then the worker has got what it was to get. */
int ps_local_channel_open(struct psclient *client, const struct ps_local_channel_options *options,
                          struct ps_local_channel **channel, struct psclient_error *error);
void ps_local_channel_close(struct ps_local_channel *channel);

/* Any bytes, none included; `to` is a worker, perhaps this one. */
int ps_local_channel_push_to(struct ps_local_channel *channel, uint32_t to, const void *bytes,
                             size_t size, struct psclient_error *error);

/* Waits until every worker of the channel has called it, and gets what was pushed to this one since
 * the time before. */
int ps_local_channel_sync_and_get(struct ps_local_channel *channel,
                                  struct ps_local_channel_messages *messages,
                                  struct psclient_error *error);
void ps_local_channel_messages_release(struct ps_local_channel_messages *messages);

/* Waits until every worker of the channel has called it. */
int ps_local_channel_wait(struct ps_local_channel *channel, struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
