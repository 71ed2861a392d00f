/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/saver.c: publications whose answer was lost, and that land later. */
#include "checkpoint/catalog.h"
#include "tests/unit/core/core_saver.h"

#include <stdio.h>
#include <string.h>

/* A store whose answers get lost: the first change lands when it is told to, the others never. */
static struct {
    struct ps_kv base;
    struct ps_kv *real;
    struct ps_kv_compare compares[3];
    char key[64], owner[64], value[1024];
    size_t value_size;
    bool has_late;
    enum ps_status later; /* what the other changes are answered with */
} slow;

/* A store that does not answer, and one that cannot be reached any more. */
static const enum ps_status away[] = {PS_ERR_TIMEOUT, PS_ERR_UNAVAILABLE};

static enum ps_status slow_read(struct ps_kv *self, const char *key, bool is_prefix,
                                uint64_t deadline_ms, struct ps_kv_entries *entries,
                                struct ps_error *error)
{
    (void)self;
    return slow.real->methods->read(slow.real, key, is_prefix, deadline_ms, entries, error);
}

static enum ps_status slow_commit(struct ps_kv *self, const struct ps_kv_transaction *transaction,
                                  uint64_t deadline_ms, bool *done, int64_t *revision,
                                  struct ps_error *error)
{
    (void)self;
    (void)deadline_ms;
    (void)done;
    (void)revision;
    if (slow.has_late)
        return ps_fail(error, slow.later, "nobody answers");
    slow.has_late = true;
    slow.compares[0] = transaction->compares[0];
    slow.compares[1] = transaction->compares[1];
    (void)snprintf(slow.owner, sizeof slow.owner, "%s", transaction->compares[0].key);
    (void)snprintf(slow.key, sizeof slow.key, "%s", transaction->changes[0].key);
    slow.compares[0].key = slow.owner;
    slow.compares[1].key = slow.key;
    slow.value_size = transaction->changes[0].value.size;
    ck_assert_uint_le(slow.value_size, sizeof slow.value);
    memcpy(slow.value, transaction->changes[0].value.data, slow.value_size);
    return ps_fail(error, PS_ERR_TIMEOUT, "the answer was lost");
}

static bool land(void)
{
    const struct ps_kv_change change = {
        PS_KV_PUT, slow.key, {(const uint8_t *)slow.value, slow.value_size}, {0}};
    const struct ps_kv_transaction transaction = {slow.compares, 2, &change, 1};
    bool done = false;
    int64_t revision = 0;
    ck_assert_int_eq(
        ps_kv_commit(slow.real, &transaction, PS_DEADLINE_NEVER, &done, &revision, NULL), PS_OK);
    return done;
}

START_TEST(a3_a_pointer_that_lands_late_names_a_file_that_is_there)
{
    static const struct ps_kv_methods methods = {.read = slow_read, .commit = slow_commit};
    struct ps_registry registry = store.registry;
    struct ps_checkpoint_place pointer;
    struct ps_bytes content;
    ck_assert_int_eq(save(), PS_OK);
    memset(&slow, 0, sizeof slow);
    slow.base.methods = &methods;
    slow.real = store.registry.kv;
    slow.later = away[_i];
    registry.kv = &slow.base;
    saver.registry = &registry;

    for (int i = 0; i < 6; i++) {
        push();
        ck_assert_int_eq(save(), i == 0 ? PS_ERR_TIMEOUT : slow.later);
    }
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 2);
    ck_assert(land());

    read_pointer(&pointer);
    ck_assert(memory_files_get(disk, pointer.path, &content));
    saver.registry = &store.registry;
    ck_assert_int_eq(save(), PS_OK);
    ck_assert(!land());
    push();
    ck_assert_int_eq(save(), PS_OK);
    read_pointer(&pointer);
    ck_assert_str_eq(pointer.uuid, place.uuid);
}
END_TEST

/* The store names the first file. A newer one was written and not published; the next owner loads
 * that, and cannot publish either: then it has to keep both, and none of its own but the newest. */
START_TEST(what_the_store_names_stays_until_an_owner_publishes_and_files_do_not_pile_up)
{
    static const struct ps_kv_methods methods = {.read = slow_read, .commit = slow_commit};
    struct ps_registry registry = store.registry;
    struct ps_claim claim = store.claim;
    struct ps_checkpoint_place named, loaded;
    struct ps_recovered recovered;
    struct core_world next;
    struct ps_bytes content;
    ck_assert_int_eq(save(), PS_OK);
    read_pointer(&named);
    slow.base.methods = &methods;
    slow.real = store.registry.kv;
    slow.has_late = true;
    slow.later = PS_ERR_UNAVAILABLE;
    registry.kv = &slow.base;
    saver.registry = &registry;
    push();
    ck_assert_int_eq(save(), PS_ERR_UNAVAILABLE);

    claim.epoch++;
    disk_world_init(&next, claim.epoch);
    char json[2048] = "";
    struct ps_buffer pointer;
    ps_buffer_init_fixed(&pointer, json, sizeof json);
    ps_catalog_pointer_write(&named, &pointer);
    ck_assert_int_eq(disk_load(&next, disk, json, &recovered), PS_OK);
    ck_assert_str_ne(recovered.place.uuid, named.uuid);
    loaded = recovered.place;
    struct ps_saver late = disk_saver(&next, disk);
    late.registry = &registry;
    late.claim = &claim;
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(world_push(&next, "w", PS_F32, saver_ones, sizeof saver_ones, NULL),
                         PS_OK);
        ck_assert_int_eq(ps_saver_save(&late, PS_DEADLINE_NEVER, &place, &next.error),
                         PS_ERR_UNAVAILABLE);
    }

    ck_assert(memory_files_get(disk, named.path, &content));
    ck_assert(memory_files_get(disk, loaded.path, &content));
    ck_assert_uint_le(disk_count(disk, ".safetensors"), 4);
    world_fini(&next);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("saver_late");
    tcase_add_checked_fixture(tests, saver_rig_setup, saver_rig_teardown);
    tcase_add_loop_test(tests, a3_a_pointer_that_lands_late_names_a_file_that_is_there, 0,
                        PS_ARRAY_COUNT(away));
    tcase_add_test(tests,
                   what_the_store_names_stays_until_an_owner_publishes_and_files_do_not_pile_up);
    return run_tests("saver_late", tests);
}
