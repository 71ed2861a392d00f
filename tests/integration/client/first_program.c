/* SPDX-License-Identifier: Apache-2.0 */
/* The structs below are those of 0.1.0 and stay as they are, whatever becomes of psclient.h: this
 * file stands for binaries that are not compiled again. So it does without that header. */
#include "tests/integration/client/first_program.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct psclient;

struct psclient_error {
    int status;
    char text[256];
};

struct psclient_options {
    const char *etcd, *etcd_user, *etcd_password, *servers, *job;
    uint64_t open_timeout_ms, split_bytes, lock_ttl_ms;
    int ack;
    const char *busy_poll;
    int encoding, reply_encoding;
    double top_k_share;
    uint64_t feedback_bytes_max;
    int shared_memory;
    const char *tls_ca, *tls_cert, *tls_key, *tls_server_name, *token_file;
    const char *etcd_ca, *etcd_cert, *etcd_key, *etcd_password_file;
    int etcd_insecure_password;
};

struct psclient_parameter {
    const char *name;
    int type;
    void *content;
    size_t content_size;
    const void *config;
    size_t config_size;
    uint64_t version;
};

struct psclient_gradient {
    const char *name;
    int type;
    const void *content;
    size_t content_size;
};

struct psclient_result {
    int status;
    uint64_t version;
    uint32_t retries;
    int duplicate;
    uint64_t position;
    char text[128];
};

struct psclient_counters {
    uint64_t retries, resends, duplicates, feedback_bytes, shared_calls, shared_bytes;
    uint32_t tcp_servers, unix_servers, shared_servers;
};

int psclient_open(const struct psclient_options *, struct psclient **, struct psclient_error *);
void psclient_close(struct psclient *);
int psclient_push(struct psclient *, const struct psclient_gradient *, size_t, uint64_t,
                  struct psclient_result *, struct psclient_error *);
int psclient_pull(struct psclient *, struct psclient_parameter *, size_t, uint64_t,
                  struct psclient_result *, struct psclient_error *);
void psclient_get_counters(const struct psclient *, struct psclient_counters *);

#define LONG_MS 120000
#define FLOAT32 4
#define UNTOUCHED 0x5a

#define EXPECT(condition)    \
    do {                     \
        if (!(condition))    \
            return __LINE__; \
    } while (0)

/* What lies behind the program's structs is its own. */
static int is_untouched(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != UNTOUCHED)
            return 0;
    return 1;
}

static int use(struct psclient *client)
{
    static const float ones[4] = {1, 1, 1, 1};
    float contents[2][4] = {{0}};
    struct psclient_error error;
    struct {
        struct psclient_result results[2];
        uint8_t behind[64];
    } told;
    struct {
        struct psclient_parameter parameters[2];
        uint8_t behind[64];
    } wish;
    struct {
        struct psclient_counters counters;
        uint8_t behind[64];
    } counted;
    memset(&told, UNTOUCHED, sizeof told);
    memset(&wish, UNTOUCHED, sizeof wish);
    memset(&counted, UNTOUCHED, sizeof counted);

    const struct psclient_gradient gradients[2] = {{"param_a", FLOAT32, ones, sizeof ones},
                                                   {"param_b", FLOAT32, ones, 7}};
    EXPECT(psclient_push(client, gradients, 2, LONG_MS, told.results, &error) != 0);
    EXPECT(told.results[0].status == 0);
    EXPECT(told.results[1].status != 0);
    EXPECT(strstr(told.results[1].text, "parameter param_b") != NULL);
    EXPECT(is_untouched(told.behind, sizeof told.behind));

    for (int i = 0; i < 2; i++)
        wish.parameters[i] = (struct psclient_parameter){
            i == 0 ? "param_a" : "param_b", FLOAT32, contents[i], sizeof contents[i], NULL, 0, 0};
    EXPECT(psclient_pull(client, wish.parameters, 2, LONG_MS, told.results, &error) == 0);
    for (int i = 0; i < 2; i++) {
        EXPECT(memcmp(contents[i], ones, sizeof ones) == 0);
        EXPECT(wish.parameters[i].version == 6 + (uint64_t)i);
        EXPECT(told.results[i].version == 6 + (uint64_t)i);
    }
    EXPECT(is_untouched(wish.behind, sizeof wish.behind));
    EXPECT(is_untouched(told.behind, sizeof told.behind));

    psclient_get_counters(client, &counted.counters);
    EXPECT(counted.counters.tcp_servers == 2);
    EXPECT(is_untouched(counted.behind, sizeof counted.behind));
    return 0;
}

int first_program_run(const char *list)
{
    struct {
        struct psclient_options options;
        uint8_t behind[64];
    } wish;
    memset(&wish, UNTOUCHED, sizeof wish);
    wish.options = (struct psclient_options){.servers = list};
    struct psclient *client;
    struct psclient_error error;
    EXPECT(psclient_open(&wish.options, &client, &error) == 0);
    int failed = use(client);
    psclient_close(client);
    return failed;
}
