/* SPDX-License-Identifier: Apache-2.0 */
/* psctl set: other numbers in the configurations of parameters, while the job trains. Parameters
 * are changed as the servers list them, one after the other, so that it does not matter how many
 * there are. */
#include "tools/psctl/psctl_config.h"

#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* How far the command has come. */
struct progress {
    struct json_document document;
    size_t count;
    int code; /* of the last parameter that could not be changed */
};

/* One parameter, before and after. */
struct edit {
    char name[513];
    struct ps_optimizer_config before, after;
    char bytes[2 * sizeof(((struct psclient_config *)NULL)->bytes)]; /* the present ones, and the
                                                                         change behind them */
    size_t present_size;
    struct ps_buffer buffer; /* over `bytes` */
    uint64_t step;
};

static void set_param(const struct psctl *control, uint32_t index,
                      const struct psclient_param_info *info, const struct psclient_config *told,
                      void *context);
static int begin_edit(struct edit *edit, const struct psclient_param_info *info,
                      const struct psclient_config *told);
static int put_words(const struct psctl *control, struct edit *edit);
static int configure(const struct psctl *control, struct edit *edit);
static void say_text(const struct psctl *control, const struct edit *edit);
static void say_json(const struct psctl *control, const struct edit *edit,
                     struct ps_json_writer *json);

/* Words are looked at before a server is asked: a slip in the third must not leave the first two
 * done. */
static int set(const struct psctl *control)
{
    /* The first word is the name, which may have a "=" in it. */
    for (size_t i = 1; i < control->word_count; i++) {
        if (strchr(control->words[i], '=') != NULL)
            continue;
        (void)fprintf(stderr, "psctl: set: %s: FIELD=VALUE is wanted, as in lr=0.01\n",
                      control->words[i]);
        return EX_USAGE;
    }
    /* The document grows as parameters are changed, and is printed when all are. */
    struct progress progress = {.code = EXIT_SUCCESS};
    json_document_init(&progress.document);
    ps_json_begin_array(&progress.document.json, NULL);
    /* A server that does not answer keeps the others from nothing: what is set there, is set. */
    const struct psctl_visit visit = {.visit = set_param, .context = &progress, .configs = true};
    int code = psctl_visit_params(control, &visit);
    ps_json_end_array(&progress.document.json);
    if (control->json)
        json_document_print(&progress.document);
    json_document_fini(&progress.document);
    /* What was wrong with a parameter says more than that a server is away. */
    if (progress.code != EXIT_SUCCESS)
        code = progress.code;
    if (code == EXIT_SUCCESS && progress.count == 0)
        code = psctl_no_such_param(control->argument);
    return code;
}

/* A word that does not fit one rule may fit the next: the others go on, and the exit status says
 * it. */
static void set_param(const struct psctl *control, uint32_t index,
                      const struct psclient_param_info *info, const struct psclient_config *told,
                      void *context)
{
    struct progress *progress = context;
    /* On the stack: the next parameter begins from nothing. */
    struct edit edit;
    if (!psctl_matches(control->argument, info, edit.name))
        return;
    /* Before anything can fail: what was found is not "does not exist". */
    progress->count++;
    /* Each step has said itself why it failed. */
    int code = begin_edit(&edit, info, told);
    /* A change of a table goes to all servers at once. */
    if (code == EXIT_SUCCESS && psctl_is_repeated(index, &edit.before))
        return;
    if (code == EXIT_SUCCESS)
        code = put_words(control, &edit);
    if (code == EXIT_SUCCESS && !control->options.dry_run)
        code = configure(control, &edit);
    if (code != EXIT_SUCCESS)
        progress->code = code;
    else if (control->json)
        say_json(control, &edit, &progress->document.json);
    else
        say_text(control, &edit);
}

/* The present bytes come first in the buffer: the change is written behind them, so that both
 * together are what protobuf merges. No bytes are SGD with a rate of 1; where the parameter is
 * another one, the server is older than the question. */
static int begin_edit(struct edit *edit, const struct psclient_param_info *info,
                      const struct psclient_config *told)
{
    if (told->size == 0 && (strcmp(info->rule, "sgd") != 0 || info->learning_rate != 1.0)) {
        (void)fprintf(stderr, "psctl: set %s: its server is older, and tells no configuration\n",
                      edit->name);
        return EX_UNAVAILABLE;
    }

    /* Until it is done there is no step that it holds from. */
    edit->step = 0;
    edit->present_size = told->size;
    ps_buffer_init_fixed(&edit->buffer, edit->bytes, sizeof edit->bytes);
    int code = psctl_read_config(told, &edit->before);
    if (code == EXIT_SUCCESS)
        ps_buffer_append(&edit->buffer, (struct ps_bytes){told->bytes, told->size});
    /* What the words before have made is where the next one begins. */
    edit->after = edit->before;
    return code;
}

/* Each word is read by the configuration that the words before it have made. */
static int put_words(const struct psctl *control, struct edit *edit)
{
    struct ps_error error = {0};
    for (size_t i = 1; i < control->word_count; i++) {
        const char *word = control->words[i];
        /* The first "=" ends the name; a value may have others. */
        size_t length = strcspn(word, "=");
        enum ps_status status =
            ps_optimizer_change_put(&edit->after, (struct ps_bytes){(const uint8_t *)word, length},
                                    word + length + 1, &edit->buffer, &error);
        if (status == PS_OK)
            status = ps_buffer_status(&edit->buffer, &error);
        /* What protobuf makes of both is what the server will make of them. */
        if (status == PS_OK)
            status = ps_optimizer_config_decode(
                (struct ps_bytes){(const uint8_t *)edit->buffer.text, edit->buffer.size},
                ps_allocator_heap(), &edit->after, &error);
        if (status == PS_OK)
            continue;
        /* The name goes along: the same word may fit the rule of another parameter. */
        (void)fprintf(stderr, "psctl: set %s: %s\n", edit->name, error.text);
        return EX_USAGE;
    }
    return EXIT_SUCCESS;
}

/* What holds then is the server's to say: another change may have come first. */
static int configure(const struct psctl *control, struct edit *edit)
{
    /* The answer's configuration, in the place of another question for it. */
    struct psclient_config now = {.size = 0};
    struct psclient_error error = {0};
    const char *name = edit->name;
    /* Only the change goes out: what others have set meanwhile stays. */
    if (psclient_configure(control->client, &name, 1, edit->buffer.text + edit->present_size,
                           edit->buffer.size - edit->present_size, control->options.timeout_ms,
                           NULL, &now, &error) != PSCLIENT_OK) {
        (void)fprintf(stderr, "psctl: set %s\n", error.text);
        return EX_UNAVAILABLE;
    }
    /* From here on pushes have the new numbers; those that were applied before keep the old. */
    edit->step = now.step;
    return psctl_read_config(&now, &edit->after);
}

/* One line for each parameter, as a record of what was there before. */
static void say_text(const struct psctl *control, const struct edit *edit)
{
    (void)printf("%s: ", edit->name);
    psctl_print_config(&edit->before);
    (void)printf(" -> ");
    psctl_print_config(&edit->after);
    /* Without a step: nobody can say at which it would be. */
    if (control->options.dry_run)
        (void)printf(" (not done)\n");
    else
        (void)printf(" from step %" PRIu64 " on\n", edit->step);
}

/* Both configurations whole, so that a script can set back what was. */
static void say_json(const struct psctl *control, const struct edit *edit,
                     struct ps_json_writer *json)
{
    ps_json_begin_object(json, NULL);
    ps_json_text(json, "name", ps_bytes_of_text(edit->name));
    ps_json_bool(json, "done", !control->options.dry_run);
    /* 0 of one that was not done; "done" tells it from a parameter that nobody has pushed to. */
    ps_json_uint(json, "step", edit->step);
    psctl_json_config(json, "before", &edit->before);
    psctl_json_config(json, "after", &edit->after);
    ps_json_end_object(json);
}

const struct psctl_command psctl_set = {
    .page = {.name = "set",
             .argument = "NAME FIELD=VALUE...",
             .summary = "another learning rate, clip ... while the job trains",
             .text =
                 "A * at the end of NAME stands for every parameter whose name begins so. The\n"
                 "change holds from the next step on; values, states and steps stay what they\n"
                 "are. Prints what was and what is now; --dry-run changes nothing. FIELD is one\n"
                 "of:\n"
                 "\n"
                 "  lr                     the learning rate, whatever the schedule\n"
                 "  schedule               const, linear, poly, caffe_poly, exp, discexp,\n"
                 "                         manual, pass_manual: from the step that it finds\n"
                 "  decay_a, decay_b, segments, steps_per_pass, samples_per_step\n"
                 "                         numbers of the schedule\n"
                 "  weight_decay, l2, clip_norm, clip_value, nonfinite, rounds.workers,\n"
                 "  rounds.quorum, rounds.grace_ms, rounds.combine, rounds.late\n"
                 "                         what gradients go through; 0 ends a clip\n"
                 "  momentum, beta_1, epsilon ...\n"
                 "                         numbers of the rule, as psctl show has them\n"
                 "\n"
                 "The rule itself, and what shapes its states, stays.\n",
             .examples = "  psctl set linear/bias lr=0.01 --etcd http://127.0.0.1:2379\n"
                         "  psctl set '*' lr=0.001 clip_norm=1 --servers 127.0.0.1:8000\n"
                         "  psctl set 'conv/*' schedule=exp decay_a=0.5 decay_b=1000 --dry-run\n"},
    .run = set,
};
