/* SPDX-License-Identifier: Apache-2.0 */
/* A job of server programs, in processes. */
#include "program_rig.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLACES = 1 << 18, WORDS = 6 };

void program_rig_begin(struct program_rig *rig, uint32_t servers, uint32_t workers,
                       const char *program)
{
    *rig = (struct program_rig){.server_count = servers, .worker_count = workers};
    temp_folder_init(&rig->folder);
    for (uint32_t i = 0; i < servers; i++) {
        size_t used = strlen(rig->list);
        pserver_process_start_alone(&rig->servers[i], PSERVER_PROGRAM, &rig->folder, i);
        (void)snprintf(rig->list + used, sizeof rig->list - used, "%s%s", i > 0 ? "," : "",
                       rig->servers[i].address);
    }
    for (uint32_t i = 0; program != NULL && i < servers; i++)
        rig->programs[i] = program_rig_child(rig, program, i);
}

void program_rig_end(struct program_rig *rig)
{
    for (uint32_t i = 0; i < rig->server_count; i++) {
        if (rig->programs[i] != 0) {
            (void)kill(rig->programs[i], SIGKILL);
            (void)waitpid(rig->programs[i], NULL, 0);
        }
        pserver_process_kill(&rig->servers[i]);
    }
    temp_folder_fini(&rig->folder);
}

pid_t program_rig_child(const struct program_rig *rig, const char *act, uint32_t rank)
{
    char program[] = "/proc/self/exe", numbers[3][16];
    (void)snprintf(numbers[0], sizeof numbers[0], "%u", rank);
    (void)snprintf(numbers[1], sizeof numbers[1], "%u", rig->server_count);
    (void)snprintf(numbers[2], sizeof numbers[2], "%u", rig->worker_count);
    char *const words[] = {program,
                           (char *)(uintptr_t)act,
                           (char *)(uintptr_t)rig->list,
                           numbers[0],
                           numbers[1],
                           numbers[2],
                           NULL};
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execv(program, words);
        _exit(127);
    }
    return child;
}

void program_rig_expect_end(pid_t child)
{
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child ended with %d", status);
}

/* By a worker of the job, which is this process. */
void program_rig_stop_programs(struct program_rig *rig)
{
    struct psclient_error error;
    struct psclient *client = program_rig_open(rig->list);
    struct ps_customer *customer = NULL;
    int64_t timestamp = -1;
    program_rig_must(ps_customer_open(client, NULL, &customer, &error), &error, "open");
    program_rig_must(ps_simple_app_request(customer, RIG_STOP, NULL, 0, PS_GROUP_SERVERS, NULL,
                                           NULL, &timestamp, &error),
                     &error, "stop");
    program_rig_must(ps_simple_app_wait(customer, timestamp, RIG_LONG_MS, &error), &error, "stop");
    program_rig_must(ps_customer_close(customer, &error), &error, "close");
    psclient_close(client);
    for (uint32_t i = 0; i < rig->server_count; i++) {
        program_rig_expect_end(rig->programs[i]);
        rig->programs[i] = 0;
    }
}

struct psclient *program_rig_open(const char *list)
{
    struct psclient_error error;
    struct psclient *client = NULL;
    const struct psclient_options options = {.servers = list, .open_timeout_ms = RIG_LONG_MS};
    program_rig_must(psclient_open(&options, &client, &error), &error, "psclient_open");
    return client;
}

/* In a child there is no test that could fail: its status says it. */
void program_rig_must(int status, const struct psclient_error *error, const char *what)
{
    if (status == PSCLIENT_OK)
        return;
    (void)fprintf(stderr, "%d: %s: %d %s\n", (int)getpid(), what, status, error->text);
    exit(3);
}

bool program_rig_words(int argc, char **argv, struct program_words *words)
{
    if (argc != WORDS)
        return false;
    *words = (struct program_words){.act = argv[1],
                                    .list = argv[2],
                                    .rank = (uint32_t)atoi(argv[3]),
                                    .servers = (uint32_t)atoi(argv[4]),
                                    .workers = (uint32_t)atoi(argv[5])};
    return true;
}

/* ---- The program of keys ---- */

struct place {
    uint64_t key;
    float value;
    bool is_used;
};

static struct place places[PLACES];

/* Open addressing: tests have fewer keys than half the places. */
static float *value_of(uint64_t key)
{
    size_t at = (size_t)(key * 0x9E3779B97F4A7C15u >> 46);
    while (places[at].is_used && places[at].key != key)
        at = (at + 1) % PLACES;
    places[at].is_used = true;
    places[at].key = key;
    return &places[at].value;
}

/* One value of each key, as in ps-lite. */
static void serve_one(struct ps_serving *serving, const struct ps_serving_request *request)
{
    struct psclient_error error;
    struct ps_serving_reply reply = {0};
    struct psclient_tensor tensor = {.dtype = PSCLIENT_FLOAT32, .element_size = 4, .rank = 1};
    float *values = malloc(request->key_count * sizeof *values + 1);
    bool pushes = request->kind == PS_SERVING_PUSH || request->kind == PS_SERVING_PUSH_PULL;
    for (size_t i = 0; i < request->key_count; i++) {
        float *value = value_of(request->keys[i]);
        if (pushes)
            *value += ((const float *)request->tensors[0].content)[i];
        values[i] = *value;
    }
    tensor.shape[0] = request->key_count;
    tensor.content = values;
    tensor.size = request->key_count * sizeof *values;
    if (request->kind == PS_SERVING_PULL || request->kind == PS_SERVING_PUSH_PULL) {
        reply.tensors = &tensor;
        reply.tensor_count = 1;
    } else {
        reply.body = request->body;
        reply.body_size = request->body_size;
    }
    int status = ps_serving_reply(serving, request->handler, &reply, RIG_LONG_MS, &error);
    /* A worker that was killed wants no answer any more. */
    if (status != PSCLIENT_NOT_FOUND)
        program_rig_must(status, &error, "reply");
    free(values);
}

void program_rig_serve_keys(const struct program_words *words)
{
    struct psclient_error error;
    struct ps_serving *serving = NULL;
    struct psclient *client = program_rig_open(words->list);
    const struct ps_serving_options options = {.role = PS_SERVING_SERVER,
                                               .rank = words->rank,
                                               .workers = words->workers,
                                               .lease_ms = 3000,
                                               .again = 1,
                                               .name = words->act};
    program_rig_must(ps_serving_init(client, &options, &serving, &error), &error, "init");
    bool goes_on = true;
    while (goes_on) {
        const struct ps_serving_wish wish = {.max = 64};
        struct ps_serving_batch *batch = NULL;
        int status = ps_serving_get_batch(serving, &wish, 1000, &batch, &error);
        if (status == PSCLIENT_UNKNOWN || status == PSCLIENT_UNAVAILABLE)
            continue;
        program_rig_must(status, &error, "get_batch");
        for (size_t i = 0; i < batch->count; i++) {
            goes_on = goes_on && !(batch->requests[i].kind == PS_SERVING_SIMPLE &&
                                   batch->requests[i].command == RIG_STOP);
            serve_one(serving, &batch->requests[i]);
        }
        ps_serving_batch_release(batch);
    }
    program_rig_must(ps_serving_stop(serving, 0, &error), &error, "stop");
    psclient_close(client);
}
