/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter that comes, changes and goes during a storm. */
#include "tests/chaos/storm_change.h"

#include "client/psclient.h"
#include "tests/chaos/storm_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ELEMENTS 4u
#define DIGIT 64u
#define CYCLE 8u
#define RATE_BYTES 11u

/* One step: the values are what a define or a push brings and what a pull has read. */
struct step {
    struct psclient *client;
    uint64_t timeout_ms;
    uint64_t number;
    char name[32];
    float values[ELEMENTS];
    struct psclient_result result;
    struct psclient_error error;
};

static int define(struct step *step);
static int push(struct step *step);
static int set_rate(struct step *step);
static int pull(struct step *step);
static int drop(struct step *step);

static int (*const cycle[CYCLE])(struct step *step) = {define, push, push, set_rate,
                                                       push,   push, pull, drop};

static struct step make_step(struct psclient *client, size_t slot, uint64_t number,
                             uint64_t timeout_ms)
{
    struct step step = {.client = client, .timeout_ms = timeout_ms, .number = number};
    snprintf(step.name, sizeof step.name, "own/%zu", slot);
    return step;
}

static uint64_t cycle_of(const struct step *step)
{
    return (step->number - 1) / CYCLE;
}

static int take(struct step *step)
{
    return cycle[(step->number - 1) % CYCLE](step);
}

static struct psclient_parameter parameter_of(struct step *step)
{
    return (struct psclient_parameter){.name = step->name,
                                       .type = PSCLIENT_FLOAT32,
                                       .content = step->values,
                                       .content_size = sizeof step->values};
}

static int define(struct step *step)
{
    step->values[1] = (float)cycle_of(step);
    struct psclient_parameter parameter = parameter_of(step);
    return psclient_define(step->client, &parameter, 1, step->timeout_ms, &step->result,
                           &step->error);
}

static int push(struct step *step)
{
    step->values[0] = -1.0f;
    step->values[2] = -(float)(step->number / DIGIT);
    step->values[3] = -(float)(step->number % DIGIT);
    struct psclient_gradient gradient = {.name = step->name,
                                         .type = PSCLIENT_FLOAT32,
                                         .content = step->values,
                                         .content_size = sizeof step->values};
    return psclient_push(step->client, &gradient, 1, step->timeout_ms, &step->result, &step->error);
}

/* OptimizerConfig {const_lr {learning_rate: cycle + 1}} */
static int set_rate(struct step *step)
{
    uint8_t change[RATE_BYTES] = {0x62, 9, 0x09};
    double rate = (double)cycle_of(step) + 1;
    memcpy(change + 3, &rate, sizeof rate);
    const char *name = step->name;
    return psclient_configure(step->client, &name, 1, change, sizeof change, step->timeout_ms,
                              &step->result, NULL, &step->error);
}

static int pull(struct step *step)
{
    struct psclient_parameter parameter = parameter_of(step);
    int status =
        psclient_pull(step->client, &parameter, 1, step->timeout_ms, &step->result, &step->error);
    step->result.version = parameter.version;
    return status;
}

static int drop(struct step *step)
{
    const char *name = step->name;
    return psclient_drop(step->client, &name, 1, step->timeout_ms, &step->result, &step->error);
}

void storm_change_step(struct storm_changer *changer)
{
    if (changer->failed)
        return;
    struct step step =
        make_step(changer->client, changer->slot, ++changer->step, changer->timeout_ms);
    storm_note(changer->record, "O %" PRIu64 " %zu %" PRIu64 "\n", storm_now_ns(), changer->slot,
               step.number);
    changer->failed = take(&step) != PSCLIENT_OK;
    uint64_t now = storm_now_ns();
    if (changer->failed)
        storm_note(changer->record, "N %" PRIu64 " %zu %" PRIu64 " %s %s\n", now, changer->slot,
                   step.number, psclient_status_name(step.error.status), step.error.text);
    else
        storm_note(changer->record,
                   "K %" PRIu64 " %zu %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %.9g %.9g %.9g %.9g\n",
                   now, changer->slot, step.number, step.result.version, step.result.position,
                   step.result.duplicate, (double)step.values[0], (double)step.values[1],
                   (double)step.values[2], (double)step.values[3]);
}

static int fail(const struct step *step)
{
    fprintf(stderr, "storm_trainer: %s, step %" PRIu64 ": %s: %s\n", step->name, step->number,
            psclient_status_name(step->error.status), step->error.text);
    return 1;
}

int storm_change_dump(struct psclient *client, size_t slot_count, uint64_t timeout_ms)
{
    for (size_t slot = 0; slot < slot_count; slot++) {
        struct step step = make_step(client, slot, 0, timeout_ms);
        int status = pull(&step);
        if (status == PSCLIENT_NOT_FOUND)
            continue;
        if (status != PSCLIENT_OK)
            return fail(&step);
        printf("%zu %" PRIu64, slot, step.result.version);
        for (size_t i = 0; i < ELEMENTS; i++)
            printf(" %.9g", (double)step.values[i]);
        printf("\n");
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

int storm_change_replay(struct psclient *client, uint64_t timeout_ms)
{
    size_t slot = 0;
    uint64_t number = 0;
    while (scanf("%zu %" SCNu64, &slot, &number) == 2 && number > 0) {
        struct step step = make_step(client, slot, number, timeout_ms);
        if (take(&step) != PSCLIENT_OK)
            return fail(&step);
    }
    return feof(stdin) ? 0 : 1;
}
