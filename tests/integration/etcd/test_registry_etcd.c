/* SPDX-License-Identifier: Apache-2.0 */
/* The registry on a real etcd: answers lost on the way, servers that start at once. */
#include "gateway_words.h"

#include "base/thread.h"
#include "etcd/registry.h"

#define SERVERS 6

static struct etcd_process process;

static void setup(void)
{
    etcd_process_start(&process, NULL);
}

static void teardown(void)
{
    etcd_process_fini(&process);
}

static struct ps_registry registry_on(struct ps_kv *kv)
{
    struct ps_registry registry;
    ck_assert_int_eq(ps_registry_init(&registry, kv, "job", NULL), PS_OK);
    return registry;
}

static struct ps_kv_lease grant(struct ps_kv *kv)
{
    struct ps_kv_lease lease = {0};
    ck_assert_int_eq(ps_kv_lease_grant(kv, 60000, in_ms(120000), &lease, NULL), PS_OK);
    return lease;
}

static size_t count_servers(struct ps_kv *kv)
{
    struct ps_kv_entries entries = {0};
    ck_assert_int_eq(ps_kv_read(kv, "/job/ps/", true, in_ms(120000), &entries, NULL), PS_OK);
    size_t count = entries.count;
    ps_kv_entries_release(&entries);
    return count;
}

/* A gateway in front of etcd that passes a look at /ps/ and then treats the claim's transaction as
 * told. */
static const struct gateway_step claims[][3] = {
    {{GATEWAY_FORWARD, 0, NULL}, {GATEWAY_FORWARD_CLOSE, 0, NULL}, {GATEWAY_FORWARD, 0, NULL}},
    {{GATEWAY_FORWARD, 0, NULL}, {GATEWAY_FORWARD_SILENT, 0, NULL}, {GATEWAY_FORWARD, 0, NULL}},
    {{GATEWAY_FORWARD, 0, NULL}, {GATEWAY_CLOSE, 0, NULL}, {GATEWAY_FORWARD, 0, NULL}},
    {{GATEWAY_FORWARD, 0, NULL}, {GATEWAY_REPLY, 503, TIMED_OUT}, {GATEWAY_FORWARD, 0, NULL}},
};

START_TEST(b12_a_claim_whose_answer_is_lost_on_the_way_takes_one_index)
{
    struct fake_gateway *gateway = fake_gateway_start(claims[_i], 3, process.client_port);
    struct ps_kv *direct = open_as(process.url, NULL, 60000);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), NULL, 10000);
    struct ps_registry registry = registry_on(kv);
    struct ps_kv_lease lease = grant(direct);
    struct ps_claim claim;
    struct ps_error error = {0};

    enum ps_status status =
        ps_registry_claim(&registry, 4, UINT32_MAX, lease, in_ms(120000), &claim, &error);

    ck_assert_msg(status == PS_OK, "claim: %s", error.text);
    ck_assert_uint_eq(claim.index, 0);
    ck_assert_uint_eq(count_servers(direct), 1);
    ck_assert_int_eq(ps_registry_publish_address(&registry, &claim, "host:1", in_ms(120000), NULL),
                     PS_OK);
    ps_kv_destroy(kv);
    ps_kv_destroy(direct);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(b12_a_frozen_etcd_does_not_give_a_second_index)
{
    struct ps_kv *kv = open_as(process.url, NULL, 4000);
    struct ps_registry registry = registry_on(kv);
    struct ps_kv_lease lease = grant(kv);
    struct ps_claim claim;
    etcd_process_freeze(&process);
    ck_assert_int_ne(ps_registry_claim(&registry, 4, UINT32_MAX, lease, in_ms(500), &claim, NULL),
                     PS_OK);
    etcd_process_thaw(&process);

    ck_assert_int_eq(
        ps_registry_claim(&registry, 4, UINT32_MAX, lease, in_ms(120000), &claim, NULL), PS_OK);

    ck_assert_uint_eq(claim.index, 0);
    ck_assert_uint_eq(count_servers(kv), 1);
    ps_kv_destroy(kv);
}
END_TEST

struct server {
    struct ps_thread thread;
    struct ps_kv *kv;
    struct ps_kv_lease lease;
    enum ps_status status;
    struct ps_claim claim;
};

static void claim_one(void *argument)
{
    struct server *server = argument;
    struct ps_registry registry = registry_on(server->kv);
    uint32_t count = 0;
    server->status = ps_registry_desired(&registry, SERVERS, in_ms(120000), &count, NULL);
    if (server->status == PS_OK)
        server->status = ps_registry_claim(&registry, count, UINT32_MAX, server->lease,
                                           in_ms(120000), &server->claim, NULL);
}

START_TEST(servers_that_start_at_once_get_different_indices)
{
    struct server servers[SERVERS] = {0};
    bool taken[SERVERS] = {false};
    for (size_t i = 0; i < SERVERS; i++) {
        servers[i].kv = open_as(process.url, NULL, 60000);
        servers[i].lease = grant(servers[i].kv);
    }
    for (size_t i = 0; i < SERVERS; i++)
        ck_assert_int_eq(
            ps_thread_start(&servers[i].thread, "server", claim_one, &servers[i], NULL), PS_OK);
    for (size_t i = 0; i < SERVERS; i++)
        ps_thread_join(&servers[i].thread);

    for (size_t i = 0; i < SERVERS; i++) {
        ck_assert_int_eq(servers[i].status, PS_OK);
        ck_assert(!taken[servers[i].claim.index]);
        taken[servers[i].claim.index] = true;
    }
    struct ps_registry registry = registry_on(servers[0].kv);
    struct ps_claim more;
    ck_assert_int_eq(ps_registry_claim(&registry, SERVERS, UINT32_MAX, grant(servers[0].kv),
                                       in_ms(120000), &more, NULL),
                     PS_ERR_BUSY);
    for (size_t i = 0; i < SERVERS; i++)
        ps_kv_destroy(servers[i].kv);
}
END_TEST

START_TEST(b8_a_server_whose_lease_was_revoked_is_fenced)
{
    struct ps_kv *kv = open_as(process.url, NULL, 60000);
    struct ps_registry registry = registry_on(kv);
    struct ps_claim old;
    struct ps_claim fresh;
    ck_assert_int_eq(
        ps_registry_claim(&registry, 1, UINT32_MAX, grant(kv), in_ms(120000), &old, NULL), PS_OK);
    ck_assert_int_eq(ps_kv_lease_revoke(kv, old.lease, in_ms(120000), NULL), PS_OK);
    ck_assert_int_eq(
        ps_registry_claim(&registry, 1, UINT32_MAX, grant(kv), in_ms(120000), &fresh, NULL), PS_OK);

    ck_assert_uint_gt(fresh.epoch, old.epoch);
    ck_assert_int_eq(ps_registry_publish_address(&registry, &old, "old:1", in_ms(120000), NULL),
                     PS_ERR_STALE_EPOCH);
    ck_assert_int_eq(ps_registry_publish_checkpoint(&registry, &old, ps_bytes_of_text("{}"),
                                                    in_ms(120000), NULL),
                     PS_ERR_STALE_EPOCH);
    ck_assert_int_eq(ps_registry_publish_checkpoint(&registry, &fresh, ps_bytes_of_text("{}"),
                                                    in_ms(120000), NULL),
                     PS_OK);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(one_trainer_initialises_on_etcd)
{
    struct ps_kv *kv = open_as(process.url, NULL, 60000);
    struct ps_registry registry = registry_on(kv);
    struct ps_init_lock first = {0};
    struct ps_init_lock second = {0};
    enum ps_init_turn turn = PS_INIT_WAIT;
    uint64_t ttl_ms = 60000;

    ck_assert_int_eq(ps_registry_init_turn(&registry, ttl_ms, &first, in_ms(120000), &turn, NULL),
                     PS_OK);
    ck_assert_int_eq(turn, PS_INIT_SELECTED);
    ck_assert_int_eq(ps_registry_init_turn(&registry, ttl_ms, &second, in_ms(120000), &turn, NULL),
                     PS_OK);
    ck_assert_int_eq(turn, PS_INIT_WAIT);
    ck_assert_int_eq(ps_registry_init_finish(&registry, &first, in_ms(120000), NULL), PS_OK);
    ck_assert_int_eq(ps_registry_init_turn(&registry, ttl_ms, &second, in_ms(120000), &turn, NULL),
                     PS_OK);
    ck_assert_int_eq(turn, PS_INIT_DONE);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_shard_lost_before_the_mark_keeps_the_mark_away_on_etcd)
{
    struct ps_kv *kv = open_as(process.url, NULL, 60000);
    struct ps_registry registry = registry_on(kv);
    struct ps_init_lock lock = {0};
    enum ps_init_turn turn = PS_INIT_WAIT;
    struct ps_claim claim;
    ck_assert_int_eq(ps_registry_init_turn(&registry, 60000, &lock, in_ms(120000), &turn, NULL),
                     PS_OK);
    ck_assert_int_eq(
        ps_registry_claim(&registry, 1, UINT32_MAX, grant(kv), in_ms(120000), &claim, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_init_prepare(&registry, &lock, in_ms(120000), NULL), PS_OK);

    ck_assert_int_eq(ps_registry_forget_done(&registry, &claim, in_ms(120000), NULL), PS_OK);
    ck_assert_int_eq(ps_registry_init_finish(&registry, &lock, in_ms(120000), NULL),
                     PS_ERR_CONFLICT);

    ck_assert_int_eq(ps_registry_init_prepare(&registry, &lock, in_ms(120000), NULL), PS_OK);
    ck_assert_int_eq(ps_registry_init_finish(&registry, &lock, in_ms(120000), NULL), PS_OK);
    ps_kv_destroy(kv);
}
END_TEST

int main(void)
{
    if (!etcd_process_available()) {
        (void)printf("skipped: no etcd to test with\n");
        return 77;
    }
    TCase *tests = tcase_create("registry_etcd");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, b12_a_claim_whose_answer_is_lost_on_the_way_takes_one_index, 0,
                        (int)PS_ARRAY_COUNT(claims));
    tcase_add_test(tests, b12_a_frozen_etcd_does_not_give_a_second_index);
    tcase_add_test(tests, servers_that_start_at_once_get_different_indices);
    tcase_add_test(tests, b8_a_server_whose_lease_was_revoked_is_fenced);
    tcase_add_test(tests, one_trainer_initialises_on_etcd);
    tcase_add_test(tests, a_shard_lost_before_the_mark_keeps_the_mark_away_on_etcd);
    return run_case("registry_etcd", tests);
}
