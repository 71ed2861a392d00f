/* SPDX-License-Identifier: Apache-2.0 */
/* One process of a storm that uses the client library: a trainer that pushes numbered gradients, a
 * reader that watches, and the calls that begin and end a storm. What it did stands in its record
 * file, one line per event, written before the next thing is done:
 *
 *     I NS PARAMETER NUMBER                     a push is about to be sent
 *     A NS PARAMETER NUMBER VERSION POSITION DUPLICATE   it was acknowledged
 *     F NS PARAMETER NUMBER STATUS TEXT         it was not
 *     R NS NS PARAMETER SHARD EPOCH VERSION     a read: began, ended; EPOCH 0: it changed meanwhile
 *     X NS PARAMETER VERSION                    a read whose values are not those of whole pushes
 *     O NS SLOT STEP                            a step of storm_change.h is about to be taken
 *     K NS SLOT STEP VERSION POSITION DUPLICATE VALUES   it was acknowledged
 *     N NS SLOT STEP STATUS TEXT                it was not
 *     T NS SLOT STEP                            a step of storm_rows.h is about to be taken
 *     U NS SLOT STEP                            it was acknowledged
 *     V NS SLOT STEP STATUS TEXT                it was not
 *
 * NS is CLOCK_MONOTONIC, which all processes of a machine share. */
#include "client/psclient.h"
#include "tests/chaos/storm_change.h"
#include "tests/chaos/storm_model.h"
#include "tests/chaos/storm_record.h"
#include "tests/chaos/storm_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BATCH_MAX 64u

struct options {
    const char *mode;
    const char *etcd;
    const char *servers;
    const char *model;
    const char *record;
    size_t slots, slot, batch;
    bool changes; /* a parameter of its own comes and goes beside the pushes, and it has a table */
    uint64_t seed, pause_us, timeout_ms;
};

struct trainer {
    struct options options;
    struct storm_model model;
    struct psclient *client;
    int record;        /* descriptor */
    uint32_t *numbers; /* of the last push to each parameter */
    uint64_t random;
    bool stopped;
};

static bool read_options(struct options *options, int argc, char **argv);
static bool open_trainer(struct trainer *trainer);
static void close_trainer(struct trainer *trainer);
static int run_init(struct trainer *trainer);
static int run_push(struct trainer *trainer);
static int run_read(struct trainer *trainer);
static int run_dump(struct trainer *trainer);
static int run_replay(struct trainer *trainer);
static int run_dump_changes(struct trainer *trainer);
static int run_replay_changes(struct trainer *trainer);
static int run_dump_rows(struct trainer *trainer);
static int run_replay_rows(struct trainer *trainer);

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(struct trainer *trainer);
    } modes[] = {{"init", run_init},
                 {"push", run_push},
                 {"read", run_read},
                 {"dump", run_dump},
                 {"replay", run_replay},
                 {"dump-changes", run_dump_changes},
                 {"replay-changes", run_replay_changes},
                 {"dump-rows", run_dump_rows},
                 {"replay-rows", run_replay_rows}};
    struct trainer trainer = {.record = -1};
    if (!read_options(&trainer.options, argc, argv))
        return 2;
    int code = 1;
    if (open_trainer(&trainer)) {
        for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
            if (strcmp(modes[i].name, trainer.options.mode) == 0)
                code = modes[i].run(&trainer);
        }
    }
    close_trainer(&trainer);
    return code;
}

static bool read_options(struct options *options, int argc, char **argv)
{
    static const struct option table[] = {
        {"etcd", required_argument, NULL, 'e'},     {"servers", required_argument, NULL, 's'},
        {"model", required_argument, NULL, 'm'},    {"record", required_argument, NULL, 'r'},
        {"slots", required_argument, NULL, 'n'},    {"slot", required_argument, NULL, 'k'},
        {"batch", required_argument, NULL, 'b'},    {"seed", required_argument, NULL, 'x'},
        {"pause-us", required_argument, NULL, 'p'}, {"timeout-ms", required_argument, NULL, 't'},
        {"changes", no_argument, NULL, 'c'},        {NULL, 0, NULL, 0}};
    *options = (struct options){.slots = 1, .batch = 4, .timeout_ms = 60000};
    int letter;
    while ((letter = getopt_long(argc, argv, "", table, NULL)) != -1) {
        uint64_t number = optarg == NULL ? 0 : strtoull(optarg, NULL, 10);
        switch (letter) {
        case 'e':
            options->etcd = optarg;
            break;
        case 's':
            options->servers = optarg;
            break;
        case 'm':
            options->model = optarg;
            break;
        case 'r':
            options->record = optarg;
            break;
        case 'n':
            options->slots = number;
            break;
        case 'k':
            options->slot = number;
            break;
        case 'b':
            options->batch = number;
            break;
        case 'x':
            options->seed = number;
            break;
        case 'p':
            options->pause_us = number;
            break;
        case 't':
            options->timeout_ms = number;
            break;
        case 'c':
            options->changes = true;
            break;
        default:
            return false;
        }
    }
    options->mode = optind == argc - 1 ? argv[optind] : "";
    if (options->model != NULL && options->mode[0] != '\0' && options->slot < options->slots &&
        options->batch >= 1 && options->batch <= BATCH_MAX)
        return true;
    fprintf(stderr, "storm_trainer: see tests/chaos/storm for how it is called\n");
    return false;
}

/* SIGTERM is blocked before any thread is there, so that stopped() alone takes it. */
static bool open_trainer(struct trainer *trainer)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    const struct options *options = &trainer->options;
    if (!storm_model_init(&trainer->model, options->model, options->slots))
        return false;
    trainer->numbers = calloc(trainer->model.parameter_count, sizeof *trainer->numbers);
    trainer->random = options->seed * 2 + 1;
    if (options->record != NULL)
        trainer->record = open(options->record, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (trainer->numbers == NULL || (options->record != NULL && trainer->record < 0)) {
        fprintf(stderr, "storm_trainer: cannot begin: %s\n", strerror(errno));
        return false;
    }
    struct psclient_options wish = {.etcd = options->etcd, .servers = options->servers};
    struct psclient_error error = {PSCLIENT_OK, ""};
    if (psclient_open(&wish, &trainer->client, &error) == PSCLIENT_OK)
        return true;
    fprintf(stderr, "storm_trainer: %s\n", error.text);
    return false;
}

static void close_trainer(struct trainer *trainer)
{
    psclient_close(trainer->client);
    storm_model_fini(&trainer->model);
    free(trainer->numbers);
    if (trainer->record >= 0)
        close(trainer->record);
}

/* ---- Small helpers ---- */

/* Pauses for the time between batches; true once SIGTERM has come. */
static bool stopped(struct trainer *trainer)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    uint64_t pause_us = trainer->options.pause_us;
    struct timespec pause = {(time_t)(pause_us / 1000000), (long)(pause_us % 1000000) * 1000};
    if (!trainer->stopped && sigtimedwait(&stop, NULL, &pause) == SIGTERM)
        trainer->stopped = true;
    return trainer->stopped;
}

/* xorshift64*: only the order of pushes depends on it. */
static uint64_t random_below(struct trainer *trainer, uint64_t bound)
{
    trainer->random ^= trainer->random >> 12;
    trainer->random ^= trainer->random << 25;
    trainer->random ^= trainer->random >> 27;
    return (trainer->random * 2685821657736338717u >> 33) % bound;
}

/* Takes any parameters of the model, each at most once: their indices, in no order. */
static size_t choose(struct trainer *trainer, size_t *chosen, size_t count_max)
{
    size_t count = 0;
    size_t total = trainer->model.parameter_count;
    size_t at = random_below(trainer, total);
    for (size_t i = 0; i < total && count < count_max; i++, at = (at + 1) % total) {
        if (trainer->numbers[at] < STORM_PUSHES_MAX)
            chosen[count++] = at;
    }
    return count;
}

static int fail(const char *what, const struct psclient_error *error)
{
    fprintf(stderr, "storm_trainer: %s: %s: %s\n", what, psclient_status_name(error->status),
            error->text);
    return 1;
}

/* ---- The trainer ---- */

static void note_results(struct trainer *trainer, const size_t *chosen, size_t count,
                         const struct psclient_result *results)
{
    uint64_t now = storm_now_ns();
    for (size_t i = 0; i < count; i++) {
        uint32_t number = trainer->numbers[chosen[i]];
        if (results[i].status == PSCLIENT_OK)
            storm_note(trainer->record, "A %" PRIu64 " %zu %u %" PRIu64 " %" PRIu64 " %d\n", now,
                       chosen[i], number, results[i].version, results[i].position,
                       results[i].duplicate);
        else
            storm_note(trainer->record, "F %" PRIu64 " %zu %u %s %s\n", now, chosen[i], number,
                       psclient_status_name(results[i].status), results[i].text);
    }
}

/* A push that failed is never sent again under a new number: it stays in doubt. */
static int run_push(struct trainer *trainer)
{
    size_t chosen[BATCH_MAX];
    struct psclient_gradient gradients[BATCH_MAX];
    struct psclient_result results[BATCH_MAX];
    struct psclient_error error;
    struct storm_changer changer = {.client = trainer->client,
                                    .timeout_ms = trainer->options.timeout_ms,
                                    .record = trainer->record,
                                    .slot = trainer->options.slot};
    struct storm_rows rows = {.client = trainer->client,
                              .timeout_ms = trainer->options.timeout_ms,
                              .record = trainer->record,
                              .slot = trainer->options.slot};
    while (!stopped(trainer)) {
        size_t count = choose(trainer, chosen, trainer->options.batch);
        if (count == 0)
            break;
        uint64_t now = storm_now_ns();
        for (size_t i = 0; i < count; i++) {
            uint32_t number = ++trainer->numbers[chosen[i]];
            struct storm_parameter *parameter = &trainer->model.parameters[chosen[i]];
            storm_gradient(&trainer->model, chosen[i], trainer->options.slot, number);
            gradients[i] = (struct psclient_gradient){.name = parameter->name,
                                                      .type = PSCLIENT_FLOAT32,
                                                      .content = parameter->values,
                                                      .content_size =
                                                          parameter->element_count * sizeof(float)};
            storm_note(trainer->record, "I %" PRIu64 " %zu %u\n", now, chosen[i], number);
        }
        memset(results, 0, sizeof results);
        (void)psclient_push(trainer->client, gradients, count, trainer->options.timeout_ms, results,
                            &error);
        note_results(trainer, chosen, count, results);
        if (trainer->options.changes)
            storm_change_step(&changer);
        if (trainer->options.changes)
            storm_rows_step(&rows);
    }
    storm_rows_close(&rows);
    return 0;
}

/* ---- The reader ---- */

static struct psclient_parameter pull_request(struct trainer *trainer, size_t i)
{
    struct storm_parameter *parameter = &trainer->model.parameters[i];
    return (struct psclient_parameter){.name = parameter->name,
                                       .type = PSCLIENT_FLOAT32,
                                       .content = parameter->values,
                                       .content_size = parameter->element_count * sizeof(float)};
}

static uint32_t shard_of(const struct trainer *trainer, size_t i)
{
    uint32_t hash = 2166136261u;
    for (const char *at = trainer->model.parameters[i].name; *at != '\0'; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    return hash % psclient_shard_count(trainer->client);
}

static uint64_t epoch_of(struct trainer *trainer, uint32_t shard)
{
    struct psclient_server_status status = {0};
    struct psclient_error error;
    int code = psclient_server_status(trainer->client, shard, trainer->options.timeout_ms, &status,
                                      &error);
    return code == PSCLIENT_OK ? status.epoch : 0;
}

/* The epoch is asked before and after: when it is the same, the value came from it. */
static int run_read(struct trainer *trainer)
{
    while (!stopped(trainer)) {
        size_t i = random_below(trainer, trainer->model.parameter_count);
        uint32_t shard = shard_of(trainer, i);
        uint64_t epoch = epoch_of(trainer, shard);
        struct psclient_parameter parameter = pull_request(trainer, i);
        struct psclient_error error;
        uint64_t start = storm_now_ns();
        if (epoch == 0 || psclient_pull(trainer->client, &parameter, 1, trainer->options.timeout_ms,
                                        NULL, &error) != PSCLIENT_OK)
            continue;
        uint64_t end = storm_now_ns();
        if (epoch_of(trainer, shard) != epoch)
            epoch = 0;
        storm_note(trainer->record, "R %" PRIu64 " %" PRIu64 " %zu %u %" PRIu64 " %" PRIu64 "\n",
                   start, end, i, shard, epoch, parameter.version);
        if (!storm_values_whole(&trainer->model, i, parameter.version))
            storm_note(trainer->record, "X %" PRIu64 " %zu %" PRIu64 "\n", end, i,
                       parameter.version);
    }
    return 0;
}

/* ---- Begin and end ---- */

static int run_init(struct trainer *trainer)
{
    struct psclient_error error = {PSCLIENT_OK, ""};
    uint64_t timeout_ms = trainer->options.timeout_ms;
    int selected = 0;
    if (psclient_begin_init(trainer->client, timeout_ms, &selected, &error) != PSCLIENT_OK)
        return fail("begin", &error);
    for (size_t i = 0; i < trainer->model.parameter_count && selected; i++) {
        struct psclient_parameter parameter = pull_request(trainer, i);
        if (psclient_init(trainer->client, &parameter, 1, timeout_ms, NULL, &error) != PSCLIENT_OK)
            return fail(parameter.name, &error);
    }
    if (selected && psclient_finish_init(trainer->client, timeout_ms, &error) != PSCLIENT_OK)
        return fail("finish", &error);
    return 0;
}

/* One line per parameter: index, version, all elements. */
static int run_dump(struct trainer *trainer)
{
    for (size_t i = 0; i < trainer->model.parameter_count; i++) {
        struct psclient_error error = {PSCLIENT_OK, ""};
        struct psclient_parameter parameter = pull_request(trainer, i);
        if (psclient_pull(trainer->client, &parameter, 1, trainer->options.timeout_ms, NULL,
                          &error) != PSCLIENT_OK)
            return fail(parameter.name, &error);
        printf("%zu %" PRIu64, i, parameter.version);
        for (size_t j = 0; j < trainer->model.parameters[i].element_count; j++)
            printf(" %.9g", (double)trainer->model.parameters[i].values[j]);
        printf("\n");
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

/* Reads lines "PARAMETER SLOT NUMBER" and pushes them one batch after the other; a batch ends where
 * a parameter comes again, so that each parameter gets its pushes in the order of the lines. */
static int run_replay(struct trainer *trainer)
{
    struct psclient_gradient gradients[BATCH_MAX];
    struct psclient_error error = {PSCLIENT_OK, ""};
    bool *taken = calloc(trainer->model.parameter_count, sizeof *taken);
    size_t count = 0, parameter = 0, slot = 0;
    unsigned number = 0;
    bool more = taken != NULL;
    while (more && error.status == PSCLIENT_OK) {
        more = scanf("%zu %zu %u", &parameter, &slot, &number) == 3 &&
               parameter < trainer->model.parameter_count && slot < trainer->model.slot_count;
        if (count > 0 && (!more || taken[parameter] || count == BATCH_MAX)) {
            (void)psclient_push(trainer->client, gradients, count, trainer->options.timeout_ms,
                                NULL, &error);
            memset(taken, 0, trainer->model.parameter_count * sizeof *taken);
            count = 0;
        }
        if (!more)
            break;
        storm_gradient(&trainer->model, parameter, slot, number);
        struct storm_parameter *to = &trainer->model.parameters[parameter];
        gradients[count++] =
            (struct psclient_gradient){.name = to->name,
                                       .type = PSCLIENT_FLOAT32,
                                       .content = to->values,
                                       .content_size = to->element_count * sizeof(float)};
        taken[parameter] = true;
    }
    free(taken);
    if (error.status != PSCLIENT_OK)
        return fail("replay", &error);
    return feof(stdin) ? 0 : 1;
}

static int run_dump_changes(struct trainer *trainer)
{
    return storm_change_dump(trainer->client, trainer->options.slots, trainer->options.timeout_ms);
}

static int run_replay_changes(struct trainer *trainer)
{
    return storm_change_replay(trainer->client, trainer->options.timeout_ms);
}

static int run_dump_rows(struct trainer *trainer)
{
    return storm_rows_dump(trainer->client, trainer->options.slots, trainer->options.timeout_ms);
}

static int run_replay_rows(struct trainer *trainer)
{
    return storm_rows_replay(trainer->client, trainer->options.slots, trainer->options.timeout_ms);
}
