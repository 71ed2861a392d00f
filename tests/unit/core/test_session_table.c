/* SPDX-License-Identifier: Apache-2.0 */
/* core/sessions/session_table.c: slots that grow with what a client has sent. */
#include "server/core/sessions/session_table.h"

#include "base/random.h"
#include "tests/unit/core/core_world.h"

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_sessions sessions;

static void begin_test(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    ps_sessions_init(&sessions, &memory, 10, 1000);
}

static void end_test(void)
{
    ps_sessions_check(&sessions);
    ps_sessions_fini(&sessions);
    ck_assert_int_eq(heap.live, 0);
}

static struct ps_session_entry *add(const char *name, uint64_t session)
{
    struct ps_session_entry *entry = ps_session_add(&sessions, text(name), session);
    ck_assert_ptr_nonnull(entry);
    ps_session_enlist(&sessions, entry, 5);
    return entry;
}

static void put(struct ps_session_entry *entry, uint64_t sequence)
{
    ck_assert_int_eq(ps_session_reserve(&sessions, entry, sequence, NULL), PS_OK);
    struct ps_session_slot *slot = ps_session_place_of(&entry->client, sequence);
    if (slot->sequence < sequence)
        *slot = (struct ps_session_slot){.sequence = sequence, .fingerprint = (uint32_t)sequence};
}

START_TEST(a_client_of_one_request_has_few_slots)
{
    struct ps_session_entry *entry = add("a", 1);
    put(entry, 1);

    ck_assert_uint_le(entry->client.slot_places, 4);
    ck_assert_ptr_nonnull(ps_session_slot_of(&entry->client, 1));
    ck_assert_ptr_null(ps_session_slot_of(&entry->client, 2));
}
END_TEST

START_TEST(one_residue_takes_one_slot_however_long_it_goes_on)
{
    struct ps_session_entry *entry = add("a", 1);
    for (uint64_t i = 0; i < 1000; i++)
        put(entry, 7 + i * PS_SESSION_SLOTS);

    ck_assert_uint_le(entry->client.slot_places, 4);
    ck_assert_uint_eq(ps_session_slot_of(&entry->client, 7)->sequence,
                      7 + (uint64_t)999 * PS_SESSION_SLOTS);
}
END_TEST

START_TEST(a_request_under_way_keeps_its_place)
{
    struct ps_session_entry *entry = add("a", 1);
    struct ps_session_call call = {.entry = entry, .sequence = 3};
    ck_assert_int_eq(ps_session_reserve(&sessions, entry, 3, NULL), PS_OK);
    entry->applying = &call;

    put(entry, 7);
    put(entry, 3 + 128);

    struct ps_session_slot *place = ps_session_place_of(&entry->client, 3);
    ck_assert_uint_eq(place->sequence, 0);
    entry->applying = NULL;
}
END_TEST

/* Each residue has its newest sequence, whatever came in which order. */
START_TEST(any_order_gives_what_a_full_ring_would)
{
    struct ps_random random;
    uint64_t ring[PS_SESSION_SLOTS] = {0};
    ps_random_init(&random, 0x7ab1e000 + (uint64_t)_i);
    struct ps_session_entry *entry = add("a", 1);
    for (int step = 0; step < 300; step++) {
        uint64_t sequence = 1 + ps_random_below(&random, (uint64_t)4 << _i);
        put(entry, sequence);
        if (ring[sequence % PS_SESSION_SLOTS] < sequence)
            ring[sequence % PS_SESSION_SLOTS] = sequence;
    }
    for (uint64_t residue = 0; residue < PS_SESSION_SLOTS; residue++) {
        const struct ps_session_slot *slot = ps_session_slot_of(&entry->client, residue);
        ck_assert_msg((slot == NULL ? 0 : slot->sequence) == ring[residue], "seed %d", _i);
    }
}
END_TEST

START_TEST(without_memory_to_grow_nothing_is_lost)
{
    struct ps_session_entry *entry = add("a", 1);
    put(entry, 1);
    heap.refuse_at = heap.seen;

    ck_assert_int_eq(ps_session_reserve(&sessions, entry, 5, NULL), PS_ERR_NO_MEMORY);

    heap.refuse_at = -1;
    ck_assert_ptr_nonnull(ps_session_slot_of(&entry->client, 1));
}
END_TEST

START_TEST(the_floor_is_above_the_highest_session_forgotten)
{
    (void)add("a", 9);
    (void)add("b", 3);
    ck_assert(ps_session_forget_one(&sessions, 5));
    ck_assert_uint_eq(sessions.floor, 10);
    ck_assert(ps_session_forget_one(&sessions, 5));
    ck_assert_uint_eq(sessions.floor, 10);
    ck_assert(!ps_session_forget_one(&sessions, 5));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("session_table");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, a_client_of_one_request_has_few_slots);
    tcase_add_test(tests, one_residue_takes_one_slot_however_long_it_goes_on);
    tcase_add_test(tests, a_request_under_way_keeps_its_place);
    tcase_add_loop_test(tests, any_order_gives_what_a_full_ring_would, 0, 10);
    tcase_add_test(tests, without_memory_to_grow_nothing_is_lost);
    tcase_add_test(tests, the_floor_is_above_the_highest_session_forgotten);
    return run_tests("session_table", tests);
}
