/* SPDX-License-Identifier: Apache-2.0 */
/* psctl show: how the servers update a parameter. */
#include "tools/psctl/psctl_config.h"

#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* What the rows are shown in, and what became of them: a visit has no result of its own. */
struct shown {
    struct json_document document;
    size_t count;
    int code;
};

/* Whoever asks why training stands still wants to know this: which round, and for whom it waits. A
 * round is known by the version that it makes. */
static void show_round(const struct psclient_param_info *info)
{
    if (info->round_workers == 0)
        return;
    (void)printf("  round %" PRIu64 ": %" PRIu32 " of %" PRIu32 " have contributed",
                 info->version + 1, info->round_counted, info->round_workers);
    /* Before the first contribution nobody is waited for, and all would be named. */
    if (info->round_counted > 0 && info->round_missing[0] != '\0')
        (void)printf("; missing:%s", info->round_missing);
    (void)printf("\n");
}

/* A parameter without rounds has no such member: a script asks whether it is there. */
static void json_round(struct ps_json_writer *json, const struct psclient_param_info *info)
{
    ps_json_begin_object(json, "round");
    ps_json_uint(json, "version", info->version + 1);
    ps_json_uint(json, "workers", info->round_workers);
    ps_json_uint(json, "contributed", info->round_counted);
    /* Ranks as text, the first few: for a person, as in the table. */
    ps_json_text(json, "missing",
                 ps_bytes_of_text(info->round_missing + (info->round_missing[0] == ' ')));
    ps_json_end_object(json);
}

/* A parameter is shown once, wherever it is. */
static void show_param(const struct psctl *control, uint32_t index,
                       const struct psclient_param_info *info, const struct psclient_config *told,
                       void *context)
{
    /* Asked for with the row: a visit that wants configurations has one for each. */
    struct shown *shown = context;
    struct ps_optimizer_config config;
    char name[sizeof info->name];
    if (!psctl_matches(control->argument, info, name))
        return;
    /* Counted before it is read, so that "does not exist" is never said of what cannot be read. */
    shown->count++;
    /* One that cannot be read does not hide the others; the exit status says it. */
    int code = psctl_read_config(told, &config);
    if (code != EXIT_SUCCESS) {
        shown->code = code;
        return;
    }
    if (psctl_is_repeated(index, &config))
        return;
    if (!control->json) {
        (void)printf("%s: ", name);
        psctl_print_config(&config);
        /* The rate of a schedule is told beside the one that it begins with. */
        (void)printf("; version %" PRIu64 ", the next step's rate is %g\n", info->version,
                     info->learning_rate);
        show_round(info);
        return;
    }
    /* The whole configuration, defaults too: a script compares it with what it wants. */
    struct ps_json_writer *json = &shown->document.json;
    ps_json_begin_object(json, NULL);
    ps_json_text(json, "name", ps_bytes_of_text(name));
    ps_json_uint(json, "version", info->version);
    ps_json_real(json, "learning_rate", info->learning_rate);
    if (info->round_workers > 0)
        json_round(json, info);
    psctl_json_config(json, "config", &config);
    ps_json_end_object(json);
}

/* Without a match the exit status is that of get: there is no such parameter. */
static int show(const struct psctl *control)
{
    struct shown shown = {.code = EXIT_SUCCESS};
    json_document_init(&shown.document);
    ps_json_begin_array(&shown.document.json, NULL);
    /* With a server missing nobody could say that a parameter does not exist. */
    const struct psctl_visit visit = {
        .visit = show_param, .context = &shown, .stops = true, .configs = true};
    int code = psctl_visit_params(control, &visit);
    ps_json_end_array(&shown.document.json);
    if (control->json)
        json_document_print(&shown.document);
    json_document_fini(&shown.document);
    /* In the order of what is worse: no answer, no configuration, no parameter. */
    if (code == EXIT_SUCCESS)
        code = shown.code;
    if (code == EXIT_SUCCESS && shown.count == 0)
        code = psctl_no_such_param(control->argument);
    return code;
}

const struct psctl_command psctl_show = {
    .page = {.name = "show",
             .argument = "NAME",
             .summary = "how a parameter is updated",
             .text = "The rule, the learning rate, and all numbers that are not what they are by\n"
                     "default; --output json shows all. A * at the end of NAME stands for every\n"
                     "parameter whose name begins so.\n",
             .examples = "  psctl show linear/bias --etcd http://127.0.0.1:2379\n"
                         "  psctl show 'linear/*' --servers 127.0.0.1:8000 --output json\n"},
    .run = show,
};
