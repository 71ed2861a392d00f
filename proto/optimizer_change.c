/* SPDX-License-Identifier: Apache-2.0 */
/* A change is a message in which only the changed fields are set: proto2 knows a field that is 0
 * from one that is absent. Which message a name belongs to is looked up in the descriptors, so that
 * a field of the .proto can be changed with no line here. */
#include "proto/optimizer_change.h"

#include "base/assert.h"
#include "base/quantity.h"

#include "pserver/v1/optimizer_config.pb-c.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Room for any message of the .proto: a generated struct begins with ProtobufCMessage. */
union any_message {
    ProtobufCMessage base;
    uint64_t words[64];
};

static const struct {
    const char *name;
    enum ps_config_policy policy;
} schedules[] = {
    {"const", PS_POLICY_CONST},   {"linear", PS_POLICY_LINEAR},
    {"poly", PS_POLICY_POLY},     {"caffe_poly", PS_POLICY_CAFFE_POLY},
    {"exp", PS_POLICY_EXP},       {"discexp", PS_POLICY_DISCEXP},
    {"manual", PS_POLICY_MANUAL}, {"pass_manual", PS_POLICY_PASS_MANUAL},
};

/* Numbers of a schedule, wherever its message has them: a change gives them to all three messages,
 * of which the present schedule reads its own. */
static const struct {
    const char *name;
    const char *message;
    const char *field;
} rates[] = {
    {"lr", "const_lr", "learning_rate"},
    {"lr", "linear_lr", "learning_rate"},
    {"lr", "schedule", "learning_rate"},
    {"decay_a", "linear_lr", "lr_decay_a"},
    {"decay_a", "schedule", "decay_a"},
    {"decay_b", "linear_lr", "lr_decay_b"},
    {"decay_b", "schedule", "decay_b"},
    {"segments", "schedule", "segments"},
    {"steps_per_pass", "schedule", "steps_per_pass"},
};

/* Fields of rounds and of tables are named with their message: "workers" alone could be anything's.
 * Their names behind the prefix are looked up as all others are, so that a field more needs no line
 * here. */
static const char rounds_prefix[] = "rounds.";
static const char table_prefix[] = "table.";

static enum ps_status put_schedule(const struct ps_optimizer_config *present, const char *value,
                                   struct ps_buffer *change, struct ps_error *error);
static enum ps_status put_in(const char *message, const char *field, const char *value,
                             struct ps_buffer *change, struct ps_error *error);
static bool has_field(const char *message, const char *field);
static enum ps_status set_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                                const char *value, struct ps_error *error);
static void write_message(const Paddle__OptimizerConfig *message, struct ps_buffer *bytes);
static void append(ProtobufCBuffer *buffer, size_t size, const uint8_t *data);

/* The message of a field: the schedule's, the rule's own, those of rules on whole numbers, or the
 * configuration itself. */
enum ps_status ps_optimizer_change_put(const struct ps_optimizer_config *present,
                                       struct ps_bytes field, const char *value,
                                       struct ps_buffer *change, struct ps_error *error)
{
    /* With a NUL behind it, as the descriptors are asked; no field has a name that is longer. */
    char name[PS_CONFIG_NAME_BYTES_MAX] = "";
    if (field.size == 0 || field.size >= sizeof name)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%.*s: no field has such a name",
                       field.size < 40 ? (int)field.size : 40, (const char *)field.data);
    memcpy(name, field.data, field.size);
    if (strcmp(name, "schedule") == 0)
        return put_schedule(present, value, change, error);
    if (strncmp(name, rounds_prefix, strlen(rounds_prefix)) == 0)
        return put_in("rounds", name + strlen(rounds_prefix), value, change, error);
    if (strncmp(name, table_prefix, strlen(table_prefix)) == 0)
        return put_in("table", name + strlen(table_prefix), value, change, error);
    /* A number of the schedule is in more than one message. */
    bool is_rate = false;
    for (size_t i = 0; i < PS_ARRAY_COUNT(rates); i++) {
        if (strcmp(rates[i].name, name) != 0)
            continue;
        PS_TRY(put_in(rates[i].message, rates[i].field, value, change, error));
        is_rate = true;
    }
    if (is_rate)
        return PS_OK;
    /* The rule's own numbers go before those of the configuration: "l2" of ftrl is its own. */
    if (has_field(present->optimizer, name))
        return put_in(present->optimizer, name, value, change, error);
    /* SGD on whole numbers has a message beside that of SGD, and none of its fields' names. */
    if (strcmp(present->optimizer, "sgd") == 0 && has_field("integer_sgd", name))
        return put_in("integer_sgd", name, value, change, error);
    /* What PyTorch calls weight_decay is l2 here, but of AdamW. */
    return put_in(NULL, strcmp(name, "weight_decay") == 0 ? "l2" : name, value, change, error);
}

/* Each schedule has its rate in its own message, whose default is 1: the present one goes along. */
static enum ps_status put_schedule(const struct ps_optimizer_config *present, const char *value,
                                   struct ps_buffer *change, struct ps_error *error)
{
    /* Words of ours and not of the .proto, whose names have capitals in the middle. */
    size_t i = 0;
    while (i < PS_ARRAY_COUNT(schedules) && strcmp(schedules[i].name, value) != 0)
        i++;
    if (i == PS_ARRAY_COUNT(schedules))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "schedule=%.40s: const, linear, poly, caffe_poly, exp, discexp, manual or "
                       "pass_manual",
                       value);
    /* The initialisers set nothing: what is not marked below is not written. */
    Paddle__OptimizerConfig message = PADDLE__OPTIMIZER_CONFIG__INIT;
    Paddle__ConstLrConfig const_lr = PADDLE__CONST_LR_CONFIG__INIT;
    Paddle__LinearLrConfig linear_lr = PADDLE__LINEAR_LR_CONFIG__INIT;
    Paddle__ScheduleConfig schedule = PADDLE__SCHEDULE_CONFIG__INIT;
    const_lr.has_learning_rate = linear_lr.has_learning_rate = schedule.has_learning_rate = 1;
    const_lr.learning_rate = linear_lr.learning_rate = schedule.learning_rate =
        present->learning_rate;
    /* Segments and the like stay what they were: whoever changes a schedule says them, too. */
    message.has_lr_policy = 1;
    message.lr_policy = (Paddle__OptimizerConfig__LrPolicy)schedules[i].policy;
    message.const_lr = &const_lr;
    message.linear_lr = &linear_lr;
    message.schedule = &schedule;
    write_message(&message, change);
    return PS_OK;
}

/* By its name in the .proto, of whichever message. */
static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *descriptor,
                                                  const char *name)
{
    return protobuf_c_message_descriptor_get_field_by_name(descriptor, name);
}

/* Of the field that holds the message of this name; NULL: there is none. */
static const ProtobufCFieldDescriptor *find_part(const char *message)
{
    const ProtobufCFieldDescriptor *part =
        find_field(&paddle__optimizer_config__descriptor, message);
    return part != NULL && part->type == PROTOBUF_C_TYPE_MESSAGE ? part : NULL;
}

/* Names are asked for that no message has; that is said by whoever looks last. */
static bool has_field(const char *message, const char *field)
{
    const ProtobufCFieldDescriptor *part = find_part(message);
    return part != NULL && find_field(part->descriptor, field) != NULL;
}

/* Of a part of the configuration, or, without one, of the configuration itself, whose messages are
 * no fields to be set. */
static enum ps_status put_in(const char *message, const char *name, const char *value,
                             struct ps_buffer *change, struct ps_error *error)
{
    Paddle__OptimizerConfig config = PADDLE__OPTIMIZER_CONFIG__INIT;
    union any_message own;
    ProtobufCMessage *place = &config.base;
    /* By the descriptor's offset, as protobuf-c itself finds the member of a message. */
    if (message != NULL) {
        const ProtobufCFieldDescriptor *part = find_part(message);
        PS_ASSERT(part != NULL);
        /* With the defaults of the .proto, none of which is present and so written. */
        const ProtobufCMessageDescriptor *descriptor = part->descriptor;
        PS_ASSERT(descriptor->sizeof_message <= sizeof own);
        protobuf_c_message_init(descriptor, &own);
        place = &own.base;
        char *pointer = (char *)&config + part->offset;
        *(ProtobufCMessage **)(void *)pointer = place;
    }
    /* Fields that are messages are not numbers: their own fields are set by their names. Lists are
     * not numbers either, and a change would only make one longer. */
    const ProtobufCFieldDescriptor *field = find_field(place->descriptor, name);
    if (field == NULL || field->type == PROTOBUF_C_TYPE_MESSAGE ||
        field->label == PROTOBUF_C_LABEL_REPEATED)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: no field has such a name", name);
    /* Nothing is written before the value was read: a change that failed leaves no bytes. */
    PS_TRY(set_field(place, field, value, error));
    write_message(&config, change);
    return PS_OK;
}

/* A finite number, and nothing behind it. */
static bool read_double(const char *value, double *number)
{
    char *end = NULL;
    /* strtod passes over blanks, and an empty text is 0 to it. */
    if (value[0] == '\0' || isspace((unsigned char)value[0]))
        return false;
    *number = strtod(value, &end);
    return *end == '\0' && isfinite(*number);
}

/* Wider numbers are refused and not cut: 2^32 + 4 workers are not 4. As a whole number it is read
 * first, so that both kinds take the same words ("64ki"). The struct has room for 32 bits there,
 * and not for more. */
static bool read_uint32(const char *value, uint32_t *number)
{
    uint64_t wide;
    if (!ps_quantity_number(value, &wide) || wide > UINT32_MAX)
        return false;
    *number = (uint32_t)wide;
    return true;
}

/* By the words of the .proto, in whatever case. */
static bool read_word(const ProtobufCEnumDescriptor *words, const char *value, int *number)
{
    /* In the order of the .proto; a word stands for its number. */
    for (unsigned i = 0; i < words->n_values; i++) {
        *number = words->values[i].value;
        if (strcasecmp(words->values[i].name, value) == 0)
            return true;
    }
    return false;
}

/* As people type them: the .proto's own begin with a capital. Whoever is at a terminal has no
 * .proto at hand; no enum of a configuration has more than a handful of words. */
static enum ps_status fail_word(const ProtobufCFieldDescriptor *field, const char *value,
                                struct ps_error *error)
{
    const ProtobufCEnumDescriptor *words = field->descriptor;
    char list[160];
    struct ps_buffer text;
    ps_buffer_init_fixed(&text, list, sizeof list);
    for (unsigned i = 0; i < words->n_values; i++)
        ps_buffer_append_format(&text, "%s%c%s", i > 0 ? ", " : "",
                                tolower((unsigned char)words->values[i].name[0]),
                                words->values[i].name + 1);
    return ps_fail(error, PS_ERR_BAD_INPUT, "%s=%.40s: one of %s is wanted", field->name, value,
                   list);
}

/* Reads the value into its place in the generated struct, which is reached by an offset as
 * protobuf-c reaches it. NULL: it is there; else what is wanted instead. */
static const char *read_value(const ProtobufCFieldDescriptor *field, const char *value, void *place)
{
    /* Both the words and the numbers by which configurations tell flags. */
    bool is_true = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    bool is_false = strcmp(value, "false") == 0 || strcmp(value, "0") == 0;
    switch (field->type) {
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_double(value, place) ? NULL : "a number";
    case PROTOBUF_C_TYPE_UINT64:
        return ps_quantity_number(value, place) ? NULL : "a whole number";
    /* Only rounds have such. */
    case PROTOBUF_C_TYPE_UINT32:
        return read_uint32(value, place) ? NULL : "a whole number below 2^32";
    case PROTOBUF_C_TYPE_ENUM:
        return read_word(field->descriptor, value, place) ? NULL : "a word"; /* see fail_word */
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)place = is_true;
        return is_true || is_false ? NULL : "true or false";
    case PROTOBUF_C_TYPE_STRING:
        /* Not written to: protobuf-c's pointer is not const. */
        memcpy(place, &value, sizeof value);
        return NULL;
    default:
        return "a newer program"; /* a kind that the .proto did not have */
    }
}

/* Present from here on, also where the value is the default; a text is present when it is not its
 * default. */
static enum ps_status set_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                                const char *value, struct ps_error *error)
{
    char *start = (char *)message;
    const char *wanted = read_value(field, value, start + field->offset);
    /* The text names the field as the .proto does: "lr" is a learning_rate there. */
    if (wanted != NULL && field->type == PROTOBUF_C_TYPE_ENUM)
        return fail_word(field, value, error);
    if (wanted != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s=%.40s: %s is wanted", field->name, value,
                       wanted);
    if (field->type != PROTOBUF_C_TYPE_STRING)
        *(protobuf_c_boolean *)(void *)(start + field->quantifier_offset) = 1;
    return PS_OK;
}

/* protobuf-c's interface for output, with our buffer behind it. */
struct sink {
    ProtobufCBuffer base; /* first: `append` gets a pointer to it */
    struct ps_buffer *bytes;
};

/* A full buffer says so itself: protobuf-c cannot be told. */
static void write_message(const Paddle__OptimizerConfig *message, struct ps_buffer *bytes)
{
    struct sink sink = {.base = {.append = append}, .bytes = bytes};
    (void)paddle__optimizer_config__pack_to_buffer(message, &sink.base);
}

/* The pieces of a message, in order. */
static void append(ProtobufCBuffer *buffer, size_t size, const uint8_t *data)
{
    struct sink *sink = (struct sink *)buffer;
    ps_buffer_append(sink->bytes, (struct ps_bytes){data, size});
}

/* ---- What a configuration says ---- */

/* Decoding has refused every number that is not in the table. */
static const char *schedule_name(enum ps_config_policy policy)
{
    size_t i = 0;
    while (i + 1 < PS_ARRAY_COUNT(schedules) && schedules[i].policy != policy)
        i++;
    return schedules[i].name;
}

/* In the order of the .proto. */
static const char *nonfinite_name(int32_t nonfinite)
{
    static const char *const names[] = {"reject", "skip", "allow"};
    PS_ASSERT((size_t)nonfinite < PS_ARRAY_COUNT(names));
    return names[nonfinite];
}

/* Words of the .proto in lower case, as they are typed; decoding has refused every other number. */
static const char *combine_name(int32_t combine)
{
    static const char *const names[] = {"average", "sum", "weighted"};
    PS_ASSERT((size_t)combine < PS_ARRAY_COUNT(names));
    return names[combine];
}

/* Words and numbers of a table, in the order of the .proto, where the default of each of these is
 * zero or the first word. Bounds are a list, and would be lines of numbers. */
static size_t add_table(const struct ps_table_settings *table, struct ps_config_entry *entries)
{
    static const char *const inits[] = {"zero", "constant", "uniform", "normal"};
    static const char *const fulls[] = {"refuse", "oldest"};
    static const char *const partitions[] = {"hash", "range", "given"};
    PS_ASSERT((size_t)table->init < PS_ARRAY_COUNT(inits));
    PS_ASSERT((size_t)table->full < PS_ARRAY_COUNT(fulls));
    PS_ASSERT((size_t)table->partition < PS_ARRAY_COUNT(partitions));
    const struct ps_config_entry all[] = {
        {.name = "table.width", .number = table->width},
        {.name = "table.rows_max", .number = (double)table->rows_max},
        {.name = "table.init", .text = inits[table->init], .number = table->init},
        {.name = "table.low", .number = table->low},
        {.name = "table.high", .number = table->high},
        {.name = "table.seed", .number = (double)table->seed},
        {.name = "table.full", .text = fulls[table->full], .number = table->full},
        {.name = "table.admission", .number = table->admission},
        {.name = "table.expire_ms", .number = (double)table->expire_ms},
        {.name = "table.expire_clocks", .number = (double)table->expire_clocks},
        {.name = "table.clocks", .text = table->clocks, .number = table->clocks[0]},
        {.name = "table.partition",
         .text = partitions[table->partition],
         .number = table->partition},
        {.name = "table.keys_max", .number = (double)table->keys_max},
        {.name = "table.candidates_max", .number = (double)table->candidates_max},
    };
    /* Numbers of texts were only for this comparison. */
    for (size_t i = 0; i < PS_ARRAY_COUNT(all); i++) {
        entries[i] = all[i];
        entries[i].is_default = all[i].number == 0;
        if (all[i].text != NULL)
            entries[i].number = 0;
    }
    return PS_ARRAY_COUNT(all);
}

/* The numbers of the rule, beside those that it has by default. */
static size_t add_numbers(const struct ps_optimizer_config *config,
                          const struct ps_optimizer_config *defaults,
                          struct ps_config_entry *entries)
{
    PS_ASSERT(config->number_count == defaults->number_count);
    /* Both are of one rule, and so have the same numbers in the same order. */
    for (uint32_t i = 0; i < config->number_count; i++)
        entries[i] = (struct ps_config_entry){.name = config->numbers[i].name,
                                              .number = config->numbers[i].value,
                                              .is_default = config->numbers[i].value ==
                                                            defaults->numbers[i].value};
    return config->number_count;
}

/* Numbers of a schedule that is const say nothing. */
size_t ps_optimizer_config_entries(const struct ps_optimizer_config *config,
                                   struct ps_config_entry entries[PS_CONFIG_ENTRIES_MAX])
{
    /* What a number is by default depends on the rule. */
    struct ps_optimizer_config defaults;
    ps_optimizer_config_defaults(&defaults);
    bool is_known = ps_optimizer_config_choose(&defaults, config->optimizer);
    PS_ASSERT(is_known);
    size_t count = 0;
#define TEXT(name_, value, default_)                                                   \
    entries[count++] = (struct ps_config_entry)                                        \
    {                                                                                  \
        .name = (name_), .text = (value), .is_default = strcmp((value), default_) == 0 \
    }
#define NUMBER(name_, member)                              \
    entries[count++] = (struct ps_config_entry)            \
    {                                                      \
        .name = (name_), .number = (double)config->member, \
        .is_default = config->member == defaults.member    \
    }
    /* The order is that of people's questions: which rule, how fast, how it changes, what is
     * cut. */
    TEXT("rule", config->optimizer, "");
    /* Never a default: whoever looks wants to see it. */
    entries[count++] = (struct ps_config_entry){.name = "lr", .number = config->learning_rate};
    count += add_numbers(config, &defaults, entries + count);
    TEXT("schedule", schedule_name(config->policy), "const");
    /* A const schedule keeps them for one that may follow; until then they say nothing. */
    if (config->policy != PS_POLICY_CONST) {
        NUMBER("decay_a", decay_a);
        NUMBER("decay_b", decay_b);
        TEXT("segments", config->segments, "");
        NUMBER("steps_per_pass", steps_per_pass);
        NUMBER("samples_per_step", samples_per_step);
    }
    NUMBER("clip_norm", clip_norm);
    NUMBER("clip_value", clip_value);
    NUMBER("l2", l2);
    TEXT("nonfinite", nonfinite_name(config->nonfinite), "reject");
    /* Without workers the others say nothing: a configuration that has left rounds keeps them, for
     * one that comes back to rounds. */
    if (config->rounds.workers > 0) {
        NUMBER("rounds.workers", rounds.workers);
        NUMBER("rounds.quorum", rounds.quorum);
        NUMBER("rounds.grace_ms", rounds.grace_ms);
        TEXT("rounds.combine", combine_name(config->rounds.combine), "average");
        TEXT("rounds.late", config->rounds.late == 0 ? "drop" : "next", "drop");
    }
    if (config->table.width > 0)
        count += add_table(&config->table, entries + count);
#undef TEXT
#undef NUMBER
    /* A rule of more numbers than there is room for does not pass the decoder. */
    PS_ASSERT(count <= PS_CONFIG_ENTRIES_MAX);
    return count;
}
