/* SPDX-License-Identifier: Apache-2.0 */
/* psctl define: a table more, while the job trains. Other parameters have values to begin with, and
 * are given by trainers.
 *
 * Words are read as psctl set reads them, one after the other into one configuration, and what the
 * servers will make of it is looked at after each: a slip is said with the word that it is in. */
#include "tools/psctl/psctl_config.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* What the words have made so far. */
struct definition {
    int type;
    struct ps_optimizer_config config;
    char bytes[PS_CONFIG_BYTES_MAX];
    struct ps_buffer buffer; /* over `bytes` */
};

static int put_word(struct definition *definition, const char *word);
static int choose_type(struct definition *definition, const char *value);
static int choose_rule(struct definition *definition, const char *value);
static int define_table(const struct psctl *control, const struct definition *definition);

/* The rule first, wherever it was typed: what is said of its numbers would be of another rule. All
 * others keep their order, in which the later one holds. */
static int define(const struct psctl *control)
{
    struct definition definition = {.type = PSCLIENT_FLOAT32};
    ps_optimizer_config_defaults(&definition.config);
    ps_buffer_init_fixed(&definition.buffer, definition.bytes, sizeof definition.bytes);
    for (int behind_rule = 0; behind_rule < 2; behind_rule++)
        for (size_t i = 1; i < control->word_count; i++) {
            bool is_rule = strncmp(control->words[i], "rule=", strlen("rule=")) == 0;
            int code = EXIT_SUCCESS;
            if (is_rule == (behind_rule == 0))
                code = put_word(&definition, control->words[i]);
            if (code != EXIT_SUCCESS)
                return code;
        }
    /* Without a width it would be a parameter of no elements. */
    if (definition.config.table.width == 0) {
        (void)fputs("psctl: define: how wide is a row? As in width=16\n", stderr);
        return EX_USAGE;
    }
    return define_table(control, &definition);
}

/* The fields of TableConfig go by their own names here, and by those of psctl set (table.width):
 * the command is about nothing else. None of them is a number of a rule. */
static bool is_of_table(const char *word, size_t length)
{
    static const char *const names[] = {"width",     "rows_max",      "init",          "low",
                                        "high",      "seed",          "full",          "admission",
                                        "expire_ms", "expire_clocks", "clocks",        "partition",
                                        "keys_max",  "chunk",         "candidates_max"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == length && strncmp(names[i], word, length) == 0)
            return true;
    return false;
}

/* Words end where the "=" is, and have no NUL there. */
static bool is_word(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && strncmp(word, name, length) == 0;
}

/* As psctl set reads a word, but for type and rule, which nobody can set afterwards. */
static int put_word(struct definition *definition, const char *word)
{
    struct ps_error error = {0};
    /* The name that the configuration has for it. */
    char field[64];
    size_t length = strcspn(word, "=");
    if (word[length] == '\0') {
        (void)fprintf(stderr, "psctl: define: %s: FIELD=VALUE is wanted, as in width=16\n", word);
        return EX_USAGE;
    }
    const char *value = word + length + 1;
    /* Neither is a number of the configuration: the type is the parameter's, the rule its kind. */
    if (is_word(word, length, "type"))
        return choose_type(definition, value);
    if (is_word(word, length, "rule"))
        return choose_rule(definition, value);
    /* A word that is longer than any field is refused by its beginning. */
    int size = snprintf(field, sizeof field, "%s%.*s", is_of_table(word, length) ? "table." : "",
                        length < 40 ? (int)length : 40, word);
    enum ps_status status = ps_optimizer_change_put(
        &definition->config, (struct ps_bytes){(const uint8_t *)field, (size_t)size}, value,
        &definition->buffer, &error);
    if (status == PS_OK)
        status = ps_buffer_status(&definition->buffer, &error);
    /* What the servers will make of it, with this word. */
    if (status == PS_OK)
        status = ps_optimizer_config_decode(
            (struct ps_bytes){(const uint8_t *)definition->buffer.text, definition->buffer.size},
            ps_allocator_heap(), &definition->config, &error);
    if (status == PS_OK)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "psctl: define: %s\n", error.text);
    return EX_USAGE;
}

/* The words of psctl params: "f32". Whether the rule takes the type is for the servers to say: they
 * know which rules there are for whole numbers. */
static int choose_type(struct definition *definition, const char *value)
{
    for (int type = 0; type < PS_DTYPE_COUNT; type++) {
        if (strcmp(ps_dtype_name((enum ps_dtype)type), value) != 0)
            continue;
        definition->type = type;
        return EXIT_SUCCESS;
    }
    (void)fprintf(stderr, "psctl: define: type=%s: i32, u32, i64, u64, f32 or f64\n", value);
    return EX_USAGE;
}

/* Whatever was said of another rule before would be lost: of two rules neither is meant. Words that
 * were read before it would be, too, which is why it is read first. */
static int choose_rule(struct definition *definition, const char *value)
{
    if (definition->buffer.size > 0 || !ps_optimizer_config_choose(&definition->config, value)) {
        (void)fprintf(stderr, "psctl: define: rule=%s: %s\n", value,
                      definition->buffer.size > 0 ? "another rule was named before"
                                                  : "no rule has such a name: sgd, adagrad, adam, "
                                                    "ftrl, add ... (optimizer/README.md)");
        return EX_USAGE;
    }
    /* With all of its numbers: what the words behind it change is written behind. */
    ps_optimizer_config_encode(&definition->config, &definition->buffer);
    return EXIT_SUCCESS;
}

/* An equal table that is there is a success, as for a trainer: the same command finishes what one
 * that was stopped has left to do. */
static int define_table(const struct psctl *control, const struct definition *definition)
{
    struct psclient_table *table = NULL;
    struct psclient_error error = {0};
    const struct psclient_table_options options = {.name = control->argument,
                                                   .type = definition->type,
                                                   .config = definition->buffer.text,
                                                   .config_size = definition->buffer.size};
    int status = psclient_table_define(control->client, &options, control->options.timeout_ms,
                                       &table, &error);
    /* Whoever trains with it opens it again. */
    psclient_table_close(table);
    /* What is wrong with the words, or stands in the way of them, is not an outage. */
    if (status != PSCLIENT_OK) {
        (void)fprintf(stderr, "psctl: define %s: %s\n", control->argument, error.text);
        bool is_usage = status == PSCLIENT_INVALID || status == PSCLIENT_ALREADY;
        return is_usage ? EX_USAGE : EX_UNAVAILABLE;
    }
    /* As psctl show would say it. */
    if (!control->json) {
        (void)printf("%s: ", control->argument);
        psctl_print_config(&definition->config);
        (void)putchar('\n');
        return EXIT_SUCCESS;
    }
    /* The whole configuration, defaults too, as psctl show tells it. */
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_object(&document.json, NULL);
    ps_json_text(&document.json, "name", ps_bytes_of_text(control->argument));
    psctl_json_config(&document.json, "config", &definition->config);
    ps_json_end_object(&document.json);
    json_document_print(&document);
    json_document_fini(&document);
    return EXIT_SUCCESS;
}

const struct psctl_command psctl_define = {
    .page =
        {.name = "define",
         .argument = "NAME FIELD=VALUE...",
         .summary = "a table more, while the job trains",
         .text = "Defines a table at every server; one that is there and equal is fine. FIELD is\n"
                 "one of:\n"
                 "\n"
                 "  type                   of the elements: f32 (without it), f64, i32, ...\n"
                 "  rule                   sgd (without it), adagrad, ftrl, adam ..., with the\n"
                 "                         numbers that psctl set has, too (lr=0.1)\n"
                 "  width                  elements of a row; needed\n"
                 "  init, low, high, seed  what rows begin with: zero, constant, uniform, normal\n"
                 "  rows_max, full         of each server; refuse or oldest\n"
                 "  admission              pushes until a key gets its row; 0 and 1: the first\n"
                 "  candidates_max         keys that each server counts until then; 0: 1048576\n"
                 "  expire_ms, expire_clocks, clocks\n"
                 "                         rows to which nothing was added for so long go\n"
                 "  partition              hash, range (with keys_max, chunk)\n",
         .examples =
             "  psctl define emb rule=adagrad width=16 lr=0.1 init=uniform low=-0.05 high=0.05\n"
             "  psctl define clicks type=i64 rule=add width=1 --servers 127.0.0.1:8000\n"},
    .run = define,
};
