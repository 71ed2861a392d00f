/* SPDX-License-Identifier: Apache-2.0 */
/* Loses the answer of one commit. */
#include "tests/support/etcd/lossy_kv.h"

static bool is_down(const struct lossy_kv *lossy)
{
    return lossy->kind == LOSSY_DOWN && lossy->commits > lossy->lose_at;
}

static enum ps_status lossy_read(struct ps_kv *kv, const char *key, bool prefix,
                                 uint64_t deadline_ms, struct ps_kv_entries *entries,
                                 struct ps_error *error)
{
    struct lossy_kv *lossy = (struct lossy_kv *)kv;
    if (is_down(lossy))
        return ps_fail(error, PS_ERR_UNAVAILABLE, "down");
    return ps_kv_read(lossy->behind, key, prefix, deadline_ms, entries, error);
}

static enum ps_status lossy_commit(struct ps_kv *kv, const struct ps_kv_transaction *transaction,
                                   uint64_t deadline_ms, bool *done, int64_t *revision,
                                   struct ps_error *error)
{
    struct lossy_kv *lossy = (struct lossy_kv *)kv;
    if (is_down(lossy))
        return ps_fail(error, PS_ERR_UNAVAILABLE, "down");
    bool chosen = lossy->commits++ == lossy->lose_at && lossy->kind != LOSSY_NEVER;
    if (!chosen)
        return ps_kv_commit(lossy->behind, transaction, deadline_ms, done, revision, error);
    if (lossy->kind != LOSSY_BEFORE) {
        bool lost_done;
        int64_t lost_revision;
        enum ps_status status = ps_kv_commit(lossy->behind, transaction, deadline_ms, &lost_done,
                                             &lost_revision, error);
        (void)status;
    }
    if (lossy->meanwhile != NULL)
        lossy->meanwhile(lossy->context);
    return ps_fail(error, PS_ERR_TIMEOUT, "the answer is lost");
}

static enum ps_status lossy_grant(struct ps_kv *kv, uint64_t ttl_ms, uint64_t deadline_ms,
                                  struct ps_kv_lease *lease, struct ps_error *error)
{
    struct lossy_kv *lossy = (struct lossy_kv *)kv;
    return ps_kv_lease_grant(lossy->behind, ttl_ms, deadline_ms, lease, error);
}

static enum ps_status lossy_keep(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                 struct ps_error *error)
{
    struct lossy_kv *lossy = (struct lossy_kv *)kv;
    return ps_kv_lease_keep(lossy->behind, lease, deadline_ms, error);
}

static enum ps_status lossy_revoke(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                   struct ps_error *error)
{
    struct lossy_kv *lossy = (struct lossy_kv *)kv;
    return ps_kv_lease_revoke(lossy->behind, lease, deadline_ms, error);
}

static enum ps_status lossy_watch_open(struct ps_kv *kv, const char *prefix, int64_t revision,
                                       uint64_t deadline_ms, struct ps_error *error)
{
    struct lossy_kv *lossy = (struct lossy_kv *)kv;
    return ps_kv_watch_open(lossy->behind, prefix, revision, deadline_ms, error);
}

static enum ps_status lossy_watch_wait(struct ps_kv *kv, uint64_t deadline_ms, bool *changed,
                                       struct ps_error *error)
{
    struct lossy_kv *lossy = (struct lossy_kv *)kv;
    return ps_kv_watch_wait(lossy->behind, deadline_ms, changed, error);
}

static void lossy_interrupt(struct ps_kv *kv)
{
    ps_kv_interrupt(((struct lossy_kv *)kv)->behind);
}

static void lossy_destroy(struct ps_kv *kv)
{
    (void)kv;
}

static const struct ps_kv_methods lossy_methods = {
    .read = lossy_read,
    .commit = lossy_commit,
    .lease_grant = lossy_grant,
    .lease_keep = lossy_keep,
    .lease_revoke = lossy_revoke,
    .watch_open = lossy_watch_open,
    .watch_wait = lossy_watch_wait,
    .interrupt = lossy_interrupt,
    .destroy = lossy_destroy,
};

void lossy_kv_init(struct lossy_kv *lossy, struct ps_kv *behind, enum lossy_kind kind,
                   int64_t lose_at)
{
    *lossy = (struct lossy_kv){
        .base = {&lossy_methods}, .behind = behind, .kind = kind, .lose_at = lose_at};
}
