/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing and opening the store: etcd where it is named, a folder of the data directory for
 * servers of one machine, memory for a server that is alone and keeps nothing. */
#include "server/store.h"

#include "base/assert.h"
#include "base/random.h"

#include <stdio.h>

struct ps_store {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_kv_hub *hub;             /* memory only */
    struct ps_kv *kv;
    struct ps_registry registry;
};

static enum ps_status open_kv(struct ps_store *store, const struct ps_store_options *options,
                              struct ps_error *error);
static enum ps_status open_folder(struct ps_store *store, const struct ps_store_options *options,
                                  struct ps_error *error);
static int64_t any_revision(void);

/* Opening asks nobody: a store that cannot be reached is found out by the first question, and
 * waited for. */
enum ps_status ps_store_open(const struct ps_store_options *options, struct ps_store **out,
                             struct ps_error *error)
{
    PS_ASSERT(options->job != NULL && options->memory != NULL);
    struct ps_store *store = ps_zeroed(options->memory, sizeof *store);
    if (store == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the store");
    store->memory = options->memory;
    enum ps_status status = open_kv(store, options, error);
    if (status == PS_OK)
        status = ps_registry_init(&store->registry, store->kv, options->job, error);
    if (status != PS_OK) {
        ps_store_close(store);
        return status;
    }
    *out = store;
    return PS_OK;
}

/* The hub of a store in memory goes with its only user. */
void ps_store_close(struct ps_store *store)
{
    if (store == NULL)
        return;
    ps_kv_destroy(store->kv);
    ps_kv_hub_destroy(store->hub);
    ps_release(store->memory, store);
}

/* NULL passes through: without a data directory there is no store for checkpoints. */
struct ps_registry *ps_store_registry(struct ps_store *store)
{
    return store != NULL ? &store->registry : NULL;
}

static uint64_t no_time_passes(void *self)
{
    (void)self;
    return 1;
}

/* Of a store that nobody else can see: a lease there is nobody else's, and never runs out, however
 * long the process was stopped. */
static const struct ps_clock no_time = {.now_ms = no_time_passes, .unix_ns = no_time_passes};

/* The first that is named wins, in the order in which they reach further. */
static enum ps_status open_kv(struct ps_store *store, const struct ps_store_options *options,
                              struct ps_error *error)
{
    PS_ASSERT(store->kv == NULL);
    if (options->etcd != NULL) {
        const struct ps_kv_etcd_options wish = {.endpoints = options->etcd,
                                                .access = options->access,
                                                .clock = options->clock,
                                                .memory = options->memory};
        return ps_kv_etcd_open(&wish, &store->kv, error);
    }
    /* Servers of one machine see each other by the folder. */
    if (options->data_dir != NULL)
        return open_folder(store, options, error);
    enum ps_status status = ps_kv_hub_create(options->leases_end ? options->clock : &no_time,
                                             options->memory, &store->hub);
    if (status == PS_OK) {
        /* Before anything is written to it. */
        ps_kv_hub_start_at(store->hub, any_revision());
        status = ps_kv_memory_open(store->hub, &store->kv);
    }
    if (status != PS_OK)
        return ps_fail(error, status, "no memory for the store");
    return PS_OK;
}

/* Epochs are revisions. Nothing is left of this store when the process ends, and the next process
 * must not meet the epochs of this one: clients tell by them whether a server still has what they
 * gave it. 52 bits, so that programs which keep numbers as doubles print them right. */
static int64_t any_revision(void)
{
    uint64_t bits;
    ps_random_system(&bits, sizeof bits);
    return (int64_t)(bits >> 12) + 1;
}

/* All jobs of a data directory share this folder; their keys begin with the job's name. */
static enum ps_status open_folder(struct ps_store *store, const struct ps_store_options *options,
                                  struct ps_error *error)
{
    char folder[4096];
    int length = snprintf(folder, sizeof folder, "%s/store", options->data_dir);
    if (length < 0 || (size_t)length >= sizeof folder)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--data-dir is too long");
    return ps_kv_file_open(folder, options->clock, options->memory, &store->kv, error);
}
