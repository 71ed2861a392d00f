/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient.h, which includes it: a snapshot of the whole model.
 *
 * A set is one checkpoint of every shard. Each shard's instant lies behind the call, so that
 * everything that was acknowledged before it is in. Pushes that are under way during the call may
 * be in one shard's checkpoint and not in another's: trainers that want one instant of all shards
 * meet at a barrier, one of them calls this, and they meet again.
 *
 * Threads:  as psclient.h says.
 * Blocking: at most `timeout_ms`, and a few seconds for each server that does not answer.
 * Errors:   said at the function.
 * Memory:   the answer is the caller's, to be released.
 */
#ifndef PSCLIENT_MODEL_H
#define PSCLIENT_MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient;
struct psclient_error;

/* One shard of a set. Neither this struct nor the next ever grows. */
struct psclient_set_shard {
    char uuid[40]; /* "": this shard is not there yet */
    char path[1024];
    uint64_t position, bytes, epoch, unix_ns;
};

struct psclient_set {
    char name[72];
    int whole;                         /* every shard is there */
    int existed;                       /* it was whole before the call */
    uint32_t shard_count, saved_count; /* of the job; that are there */
    struct psclient_set_shard *shards; /* shard_count rows, by index */
};

/* Has every shard write a checkpoint of the set `name` (letters, digits, '.', '_' and '-', at most
 * 64; NULL: the time makes one), or joins a set of that name that is under way or whole. `*set` is
 * set on PSCLIENT_OK, when the set is whole, and on PSCLIENT_UNKNOWN, when the time was over
 * before: the servers go on, and the same call under set->name asks again. To be released in both
 * cases.
 *
 * PSCLIENT_EXHAUSTED  another set was under way all the time; the text says which
 * PSCLIENT_INVALID    the name, a server without a data directory, or one that has no such call
 */
int psclient_save_model(struct psclient *client, const char *name, uint64_t timeout_ms,
                        struct psclient_set *set, struct psclient_error *error);
void psclient_set_release(struct psclient_set *set);

#ifdef __cplusplus
}
#endif

#endif
