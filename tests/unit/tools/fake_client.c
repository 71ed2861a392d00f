/* SPDX-License-Identifier: Apache-2.0 */
/* A push is applied when it is begun, and its answer is made then: the values that a later push
 * finds are not in it. A test so sees of which push a gradient was computed. */
#include "fake_client.h"

#include "client/psclient.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct psclient {
    int opened;
};

struct psclient_operation {
    size_t number;
    enum fake_fate fate;
    float answer[FAKE_ELEMENTS_MAX];
    struct psclient_parameter *parameters;
    size_t count;
    uint64_t version;
    bool under_way;
};

struct fake_server fake_server;
static struct psclient the_client;
static struct psclient_operation operations[4];

void fake_server_begin(void)
{
    memset(&fake_server, 0, sizeof fake_server);
    memset(operations, 0, sizeof operations);
    the_client.opened = 0;
}

static void note(const char *format, ...)
{
    size_t used = strlen(fake_server.trace);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(fake_server.trace + used, sizeof fake_server.trace - used, format, arguments);
    va_end(arguments);
    ck_assert_uint_lt(strlen(fake_server.trace) + 1, sizeof fake_server.trace);
}

static int say(struct psclient_error *error, enum psclient_status status)
{
    error->status = status;
    (void)snprintf(error->text, sizeof error->text, "as told");
    return (int)status;
}

/* Copies between the caller's arrays and the server's one. */
static size_t move(float *values, const struct psclient_parameter *parameter, size_t at, bool in)
{
    size_t count = parameter->content_size / sizeof *values;
    ck_assert_uint_le(at + count, FAKE_ELEMENTS_MAX);
    if (in)
        memcpy(values + at, parameter->content, parameter->content_size);
    else
        memcpy(parameter->content, values + at, parameter->content_size);
    return at + count;
}

int psclient_open_sized(const struct psclient_options *options, const struct psclient_sizes *sizes,
                        struct psclient **client, struct psclient_error *error)
{
    (void)options;
    (void)sizes;
    if (fake_server.refuse_open)
        return say(error, PSCLIENT_UNAVAILABLE);
    the_client.opened++;
    *client = &the_client;
    note("open\n");
    return PSCLIENT_OK;
}

void psclient_close(struct psclient *client)
{
    ck_assert_ptr_eq(client, &the_client);
    ck_assert_int_eq(fake_server.under_way, 0);
    note("close\n");
}

uint64_t psclient_retries(const struct psclient *client)
{
    ck_assert_ptr_eq(client, &the_client);
    return 3;
}

const char *psclient_status_name(enum psclient_status status)
{
    return status == PSCLIENT_OK ? "ok" : "not ok";
}

int psclient_begin_init(struct psclient *client, uint64_t timeout_ms, int *selected,
                        struct psclient_error *error)
{
    (void)client, (void)timeout_ms, (void)error;
    *selected = fake_server.initialised ? 0 : 1;
    return PSCLIENT_OK;
}

int psclient_init(struct psclient *client, const struct psclient_parameter *parameters,
                  size_t count, uint64_t timeout_ms, struct psclient_result *results,
                  struct psclient_error *error)
{
    (void)client, (void)timeout_ms, (void)results, (void)error;
    fake_server.count = 0;
    for (size_t i = 0; i < count; i++)
        fake_server.count = move(fake_server.values, &parameters[i], fake_server.count, true);
    note("init %g\n", (double)fake_server.values[0]);
    return PSCLIENT_OK;
}

int psclient_finish_init(struct psclient *client, uint64_t timeout_ms, struct psclient_error *error)
{
    (void)client, (void)timeout_ms, (void)error;
    fake_server.initialised = true;
    return PSCLIENT_OK;
}

int psclient_configure(struct psclient *client, const char *const *names, size_t count,
                       const void *change, size_t change_size, uint64_t timeout_ms,
                       struct psclient_result *results, struct psclient_config *configs,
                       struct psclient_error *error)
{
    (void)client, (void)change, (void)timeout_ms, (void)results, (void)configs, (void)error;
    note("configure %zu parameters from %s, %zu bytes\n", count, names[0], change_size);
    return PSCLIENT_OK;
}

int psclient_set_clocks(struct psclient *client, const char *name,
                        const struct psclient_clocks *clocks, uint64_t timeout_ms,
                        struct psclient_error *error)
{
    (void)client, (void)timeout_ms, (void)error;
    note("clocks %s of %u\n", name, clocks->workers);
    return PSCLIENT_OK;
}

int psclient_clock(struct psclient *client, const char *name, uint32_t worker, uint64_t clock,
                   uint64_t timeout_ms, uint64_t *now, struct psclient_error *error)
{
    (void)client, (void)name, (void)timeout_ms, (void)error;
    ck_assert_uint_eq(worker, 3);
    if (clock > fake_server.clock)
        fake_server.clock = clock;
    *now = fake_server.clock;
    return PSCLIENT_OK;
}

int psclient_pull(struct psclient *client, struct psclient_parameter *parameters, size_t count,
                  uint64_t timeout_ms, struct psclient_result *results,
                  struct psclient_error *error)
{
    (void)client, (void)timeout_ms, (void)results, (void)error;
    ck_assert_int_eq(fake_server.under_way, 0);
    /* A real server would hold the pull back until its deadline. */
    ck_assert(fake_server.initialised);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        parameters[i].version = fake_server.version;
        fake_server.read_at = parameters[i].clocks != NULL ? parameters[i].clock : 0;
        at = move(fake_server.values, &parameters[i], at, false);
    }
    note("pull %g\n", (double)fake_server.values[0]);
    return PSCLIENT_OK;
}

static void apply(const struct psclient_gradient *gradients, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const float *gradient = gradients[i].content;
        for (size_t j = 0; j < gradients[i].content_size / sizeof *gradient; j++)
            fake_server.values[at++] -= gradient[j];
    }
    ck_assert_uint_eq(at, fake_server.count);
    fake_server.version++;
}

int psclient_push_pull_begin(struct psclient *client, const struct psclient_gradient *gradients,
                             struct psclient_parameter *parameters, size_t count,
                             uint64_t timeout_ms, void *user, struct psclient_operation **operation,
                             struct psclient_error *error)
{
    (void)client, (void)timeout_ms, (void)user, (void)error;
    struct psclient_operation *made = &operations[fake_server.pushes % 4];
    ck_assert(!made->under_way);
    *made = (struct psclient_operation){.number = fake_server.pushes,
                                        .fate = fake_server.fates[fake_server.pushes],
                                        .parameters = parameters,
                                        .count = count,
                                        .under_way = true};
    fake_server.rounds[fake_server.pushes] = gradients[0].round;
    fake_server.ranks[fake_server.pushes] = gradients[0].worker;
    fake_server.pushes++;
    if (++fake_server.under_way > fake_server.under_way_max)
        fake_server.under_way_max = fake_server.under_way;
    if (made->fate == FAKE_LOST)
        fake_server.initialised = false;
    if (!fake_server.initialised)
        made->fate = FAKE_LOST;
    else if (made->fate != FAKE_REFUSED)
        apply(gradients, count);
    made->version = fake_server.version;
    memcpy(made->answer, fake_server.values, sizeof made->answer);
    note("push %zu\n", made->number);
    *operation = made;
    return PSCLIENT_OK;
}

/* What did not come is written over, as the real client may do. */
int psclient_end(struct psclient_operation *operation, struct psclient_result *results,
                 struct psclient_error *error)
{
    static const enum psclient_status statuses[] = {
        [FAKE_OK] = PSCLIENT_OK,
        [FAKE_UNKNOWN] = PSCLIENT_UNKNOWN,
        [FAKE_LOST] = PSCLIENT_NOT_INITIALIZED,
        [FAKE_REFUSED] = PSCLIENT_INVALID,
        [FAKE_PULL_FAILED] = PSCLIENT_OK,
    };
    ck_assert(operation->under_way);
    operation->under_way = false;
    fake_server.under_way--;
    size_t at = 0;
    for (size_t i = 0; i < operation->count; i++) {
        if (results != NULL) {
            results[i].status = statuses[operation->fate];
            results[i].late = fake_server.late ? 1 : 0;
        }
        operation->parameters[i].version = operation->version;
        if (operation->fate == FAKE_OK)
            at = move(operation->answer, &operation->parameters[i], at, false);
        else
            memset(operation->parameters[i].content, 0x7f, operation->parameters[i].content_size);
    }
    note("end %zu\n", operation->number);
    if (operation->fate == FAKE_PULL_FAILED)
        return say(error, PSCLIENT_UNAVAILABLE);
    return say(error, statuses[operation->fate]);
}

int psclient_push_pull(struct psclient *client, const struct psclient_gradient *gradients,
                       struct psclient_parameter *parameters, size_t count, uint64_t timeout_ms,
                       struct psclient_result *results, struct psclient_error *error)
{
    struct psclient_operation *operation;
    (void)psclient_push_pull_begin(client, gradients, parameters, count, timeout_ms, NULL,
                                   &operation, error);
    return psclient_end(operation, results, error);
}

int psclient_push(struct psclient *client, const struct psclient_gradient *gradients, size_t count,
                  uint64_t timeout_ms, struct psclient_result *results,
                  struct psclient_error *error)
{
    (void)client, (void)timeout_ms;
    apply(gradients, count);
    for (size_t i = 0; i < count; i++)
        results[i].status = PSCLIENT_OK;
    return say(error, PSCLIENT_OK);
}
