/* SPDX-License-Identifier: Apache-2.0 */
/* The store as a node sees it: slow, deaf, or answering and not heard. */
#include "tests/sim/sim_kv.h"

#include "base/assert.h"
#include "tests/sim/sim_checker.h"

#include <stdlib.h>
#include <string.h>

#define ATTEMPT_MS 2000 /* after which a call that hears nothing gives up */
#define LATE_MS_MAX 12000

/* A write that lands after its caller has given up. */
struct late_write {
    struct ps_kv_transaction transaction;
    struct ps_kv_compare compares[PS_KV_COMPARES_MAX];
    struct ps_kv_change changes[PS_KV_CHANGES_MAX];
    struct ps_kv_lease keep;
    struct ps_kv_lease revoke;
};

static struct sim_kv *of(struct ps_kv *kv)
{
    return (struct sim_kv *)kv;
}

uint64_t sim_kv_take_spent(struct sim_kv *kv)
{
    uint64_t spent_ms = kv->spent_ms;
    kv->spent_ms = 0;
    return spent_ms;
}

/* What becomes of a call. PS_OK: go on by `*fate`; else that is the answer. */
static enum ps_status begin(struct sim_kv *kv, uint64_t deadline_ms, enum sim_fate scripted,
                            enum sim_fate *fate, struct ps_error *error)
{
    struct sim_world *world = kv->world;
    uint64_t now_ms = sim_now(world) + kv->spent_ms;
    uint64_t left_ms = deadline_ms > now_ms ? deadline_ms - now_ms : 0;
    uint64_t patience_ms = left_ms < ATTEMPT_MS ? left_ms : ATTEMPT_MS;

    *fate = scripted;
    if (left_ms == 0)
        return ps_fail(error, PS_ERR_TIMEOUT, "no time is left");
    if (world->store_down) {
        kv->spent_ms += patience_ms < 5 ? patience_ms : 5;
        return ps_fail(error, PS_ERR_UNAVAILABLE, "connection refused");
    }
    if (world->cut[kv->node][SIM_NODE_STORE])
        *fate = SIM_FATE_BEFORE;
    else if (world->cut[SIM_NODE_STORE][kv->node])
        *fate = SIM_FATE_AFTER;
    else if (scripted == SIM_FATE_GOOD && sim_chance(world, world->options.unclear_permille))
        *fate = (enum sim_fate)sim_between(world, SIM_FATE_BEFORE, SIM_FATE_LATE);
    kv->spent_ms += *fate == SIM_FATE_GOOD ? sim_between(world, 1, 4) : patience_ms;
    return PS_OK;
}

static enum ps_status unheard(struct ps_error *error)
{
    return ps_fail(error, PS_ERR_TIMEOUT, "no answer from the store");
}

/* Who had the lease is shown the key as he knows it, whoever has made it since. */
static void keep_quiet(struct sim_kv *kv, struct ps_kv_entries *entries)
{
    for (size_t i = 0; i < entries->count; i++) {
        struct ps_kv_entry *entry = &entries->entries[i];
        if (entry->lease.id == 0)
            continue; /* no claim */
        if (entry->lease.id == kv->kept.id)
            kv->kept_revision = entry->create_revision;
        else if (kv->kept_revision != 0)
            entry->create_revision = kv->kept_revision;
    }
}

static enum ps_status read(struct ps_kv *base, const char *key, bool prefix, uint64_t deadline_ms,
                           struct ps_kv_entries *entries, struct ps_error *error)
{
    struct sim_kv *kv = of(base);
    enum sim_fate fate;
    PS_TRY(begin(kv, deadline_ms, SIM_FATE_GOOD, &fate, error));
    if (fate != SIM_FATE_GOOD)
        return unheard(error);
    if (kv->world->options.mutation == SIM_MUTATION_CLAIM_UNCOMPARED && prefix &&
        sim_chance(kv->world, 300))
        key = "/nothing/"; /* a reader that sees nobody, and a store that does not mind */
    PS_TRY(ps_kv_read(kv->inner, key, prefix, deadline_ms, entries, error));
    if (kv->world->options.mutation == SIM_MUTATION_LEASE_IMMORTAL && !prefix)
        keep_quiet(kv, entries);
    return PS_OK;
}

/* ---- Writes that land late ---- */

static char *copy(const char *text)
{
    char *made = strdup(text);
    PS_ASSERT(made != NULL);
    return made;
}

static struct late_write *late_create(const struct ps_kv_transaction *transaction)
{
    struct late_write *late = calloc(1, sizeof *late);
    PS_ASSERT(late != NULL);
    late->transaction = (struct ps_kv_transaction){late->compares, transaction->compare_count,
                                                   late->changes, transaction->change_count};
    for (size_t i = 0; i < transaction->compare_count; i++) {
        late->compares[i] = transaction->compares[i];
        late->compares[i].key = copy(transaction->compares[i].key);
    }
    for (size_t i = 0; i < transaction->change_count; i++) {
        struct ps_bytes value = transaction->changes[i].value;
        uint8_t *data = malloc(value.size + 1);
        PS_ASSERT(data != NULL);
        if (value.size > 0)
            memcpy(data, value.data, value.size);
        late->changes[i] = transaction->changes[i];
        late->changes[i].key = copy(transaction->changes[i].key);
        late->changes[i].value = (struct ps_bytes){data, value.size};
    }
    return late;
}

static void late_destroy(struct late_write *late)
{
    for (size_t i = 0; i < late->transaction.compare_count; i++)
        free((void *)late->compares[i].key);
    for (size_t i = 0; i < late->transaction.change_count; i++) {
        free((void *)late->changes[i].key);
        free((void *)late->changes[i].value.data);
    }
    free(late);
}

static void late_drop(struct sim_world *world, void *subject)
{
    (void)world;
    late_destroy(subject);
}

static void late_lands(struct sim_world *world, void *subject, uint64_t a, uint64_t b)
{
    struct late_write *late = subject;
    bool done = false;
    int64_t revision;
    (void)a;
    (void)b;
    if (late->keep.id != 0)
        (void)!ps_kv_lease_keep(world->truth, late->keep, PS_DEADLINE_NEVER, NULL);
    else if (late->revoke.id != 0)
        (void)!ps_kv_lease_revoke(world->truth, late->revoke, PS_DEADLINE_NEVER, NULL);
    else
        (void)!ps_kv_commit(world->truth, &late->transaction, PS_DEADLINE_NEVER, &done, &revision,
                            NULL);
    if (done)
        sim_trace(world, "etcd", "a late write of %s lands", late->changes[0].key);
    sim_checker_store_changed(world);
    late_destroy(late);
}

static void post_late(struct sim_kv *kv, struct late_write *late)
{
    sim_post_owned(kv->world, sim_between(kv->world, 1, LATE_MS_MAX), late_lands, late, late_drop);
}

/* ---- Writes ---- */

/* Takes the demands away that a mutation makes the store forget. */
static struct ps_kv_transaction mutated(const struct sim_kv *kv,
                                        const struct ps_kv_transaction *transaction)
{
    struct ps_kv_transaction result = *transaction;
    enum sim_mutation mutation = kv->world->options.mutation;
    const char *key = transaction->change_count > 0 ? transaction->changes[0].key : "";
    bool claim = strncmp(key, "/ps/", 4) == 0;
    bool pointer = strncmp(key, "/checkpoints/", 13) == 0;
    if ((claim && mutation == SIM_MUTATION_CLAIM_UNCOMPARED) ||
        (pointer && mutation == SIM_MUTATION_POINTER_UNCOMPARED))
        result.compare_count = 0;
    return result;
}

static enum ps_status commit(struct ps_kv *base, const struct ps_kv_transaction *transaction,
                             uint64_t deadline_ms, bool *done, int64_t *revision,
                             struct ps_error *error)
{
    struct sim_kv *kv = of(base);
    struct ps_kv_transaction made = mutated(kv, transaction);
    enum sim_fate fate;
    enum sim_fate scripted = kv->next_commit;
    kv->next_commit = SIM_FATE_GOOD;
    PS_TRY(begin(kv, deadline_ms, scripted, &fate, error));
    if (fate == SIM_FATE_BEFORE)
        return unheard(error);
    if (fate == SIM_FATE_LATE) {
        post_late(kv, late_create(&made));
        return unheard(error);
    }
    enum ps_status status = ps_kv_commit(kv->inner, &made, deadline_ms, done, revision, error);
    sim_checker_store_changed(kv->world);
    return fate == SIM_FATE_AFTER ? unheard(error) : status;
}

static enum ps_status lease_grant(struct ps_kv *base, uint64_t ttl_ms, uint64_t deadline_ms,
                                  struct ps_kv_lease *lease, struct ps_error *error)
{
    struct sim_kv *kv = of(base);
    enum sim_fate fate;
    PS_TRY(begin(kv, deadline_ms, SIM_FATE_GOOD, &fate, error));
    if (fate == SIM_FATE_BEFORE)
        return unheard(error);
    enum ps_status status = ps_kv_lease_grant(kv->inner, ttl_ms, deadline_ms, lease, error);
    return fate == SIM_FATE_GOOD ? status : unheard(error);
}

static enum ps_status lease_keep(struct ps_kv *base, struct ps_kv_lease lease, uint64_t deadline_ms,
                                 struct ps_error *error)
{
    struct sim_kv *kv = of(base);
    enum sim_fate fate;
    PS_TRY(begin(kv, deadline_ms, SIM_FATE_GOOD, &fate, error));
    if (fate == SIM_FATE_BEFORE)
        return unheard(error);
    if (fate == SIM_FATE_LATE) {
        const struct ps_kv_transaction nothing = {0};
        struct late_write *late = late_create(&nothing);
        late->keep = lease;
        post_late(kv, late);
        return unheard(error);
    }
    enum ps_status status = ps_kv_lease_keep(kv->inner, lease, deadline_ms, error);
    if (kv->kept.id != lease.id)
        kv->kept_revision = 0;
    kv->kept = lease;
    if (kv->world->options.mutation == SIM_MUTATION_LEASE_IMMORTAL)
        status = PS_OK;
    return fate == SIM_FATE_AFTER ? unheard(error) : status;
}

static enum ps_status lease_revoke(struct ps_kv *base, struct ps_kv_lease lease,
                                   uint64_t deadline_ms, struct ps_error *error)
{
    struct sim_kv *kv = of(base);
    enum sim_fate fate;
    PS_TRY(begin(kv, deadline_ms, SIM_FATE_GOOD, &fate, error));
    if (fate == SIM_FATE_BEFORE)
        return unheard(error);
    if (fate == SIM_FATE_LATE) {
        const struct ps_kv_transaction nothing = {0};
        struct late_write *late = late_create(&nothing);
        late->revoke = lease;
        post_late(kv, late);
        return unheard(error);
    }
    enum ps_status status = ps_kv_lease_revoke(kv->inner, lease, deadline_ms, error);
    sim_checker_store_changed(kv->world);
    return fate == SIM_FATE_AFTER ? unheard(error) : status;
}

/* ---- Watches ---- */

static bool is_cut(const struct sim_kv *kv)
{
    const struct sim_world *world = kv->world;
    return world->store_down || world->cut[kv->node][SIM_NODE_STORE] ||
           world->cut[SIM_NODE_STORE][kv->node];
}

static enum ps_status watch_open(struct ps_kv *base, const char *prefix, int64_t revision,
                                 uint64_t deadline_ms, struct ps_error *error)
{
    struct sim_kv *kv = of(base);
    if (is_cut(kv))
        return ps_fail(error, PS_ERR_UNAVAILABLE, "no connection to the store");
    return ps_kv_watch_open(kv->inner, prefix, revision, deadline_ms, error);
}

/* A watch breaks at once when the store is down, and is silent when the network swallows all. */
static enum ps_status watch_wait(struct ps_kv *base, uint64_t deadline_ms, bool *changed,
                                 struct ps_error *error)
{
    struct sim_kv *kv = of(base);
    *changed = false;
    if (kv->world->store_down)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "the watch broke");
    if (is_cut(kv))
        return PS_OK;
    return ps_kv_watch_wait(kv->inner, deadline_ms, changed, error);
}

static void interrupt(struct ps_kv *base)
{
    (void)base; /* nobody waits here */
}

static void destroy(struct ps_kv *base)
{
    struct sim_kv *kv = of(base);
    ps_kv_destroy(kv->inner);
    free(kv);
}

static const struct ps_kv_methods methods = {
    .read = read,
    .commit = commit,
    .lease_grant = lease_grant,
    .lease_keep = lease_keep,
    .lease_revoke = lease_revoke,
    .watch_open = watch_open,
    .watch_wait = watch_wait,
    .interrupt = interrupt,
    .destroy = destroy,
};

struct sim_kv *sim_kv_create(struct sim_world *world, uint32_t node)
{
    struct sim_kv *kv = calloc(1, sizeof *kv);
    PS_ASSERT(kv != NULL);
    kv->base.methods = &methods;
    kv->world = world;
    kv->node = node;
    enum ps_status status = ps_kv_memory_open(world->hub, &kv->inner);
    PS_ASSERT(status == PS_OK);
    return kv;
}
