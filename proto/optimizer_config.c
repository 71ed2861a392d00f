/* SPDX-License-Identifier: Apache-2.0 */
/* OptimizerConfig <-> struct, through protobuf-c, which knows the defaults of the .proto. These
 * messages come from Paddle's proto2 files, whose fields have defaults and presence, so "absent"
 * and "0" differ: every field is read through its default and written with its presence.
 *
 * The numbers of an optimizer (epsilon, beta_1 ...) are not listed here. The descriptor that
 * protobuf-c generates names the optimizers, the message of each and its fields, and the struct
 * carries them by name: a new optimizer in the .proto needs no line in this file. */
#include "proto/optimizer_config.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "proto/arena.h"
#include "proto/round_config.h"
#include "proto/table_config.h"
#include "proto/unpack.h"
#include "proto/wire.h"

#include "pserver/v1/optimizer_config.pb-c.h"

#include <string.h>

/* Sets an optional field of a protobuf-c struct. */
#define SET(message, field, value_) ((message)->has_##field = 1, (message)->field = (value_))

/* The messages that every configuration has, so that absent ones can stand for their defaults. */
struct parts {
    Paddle__AddConfig add;
    Paddle__IntegerSGDConfig integer_sgd;
    Paddle__ConstLrConfig const_lr;
    Paddle__LinearLrConfig linear_lr;
    Paddle__ScheduleConfig schedule;
};

/* Room for the message of any optimizer: the struct begins with ProtobufCMessage, and has at
 * most a pair of words for each number. */
union own_message {
    ProtobufCMessage base;
    uint64_t words[8 + 2 * PS_CONFIG_NUMBERS_MAX];
};

static void init_parts(struct parts *parts);
static void complete(Paddle__OptimizerConfig *message, struct parts *parts);
static enum ps_status check_numbers(const Paddle__OptimizerConfig *message, struct ps_error *error);
static enum ps_status read_message(const Paddle__OptimizerConfig *message,
                                   struct ps_optimizer_config *config, struct ps_error *error);
static void read_optimizer(const Paddle__OptimizerConfig *message,
                           struct ps_optimizer_config *config);
static void read_choices(const Paddle__OptimizerConfig *message,
                         struct ps_optimizer_config *config);
static enum ps_status read_policy(const Paddle__OptimizerConfig *message,
                                  struct ps_optimizer_config *config, struct ps_error *error);
static void write_message(const struct ps_optimizer_config *config,
                          Paddle__OptimizerConfig *message);
static bool write_optimizer(const struct ps_optimizer_config *config,
                            Paddle__OptimizerConfig *message, union own_message *own);
static void write_number(const struct ps_config_number *number,
                         const ProtobufCMessageDescriptor *descriptor, union own_message *own);
static void write_choices(const struct ps_optimizer_config *config, struct parts *parts);
static void write_policy(const struct ps_optimizer_config *config, struct parts *parts,
                         char *segments);
static void append(ProtobufCBuffer *buffer, size_t size, const uint8_t *data);

/* Made from an empty message, so the .proto is the only place that knows a default. */
void ps_optimizer_config_defaults(struct ps_optimizer_config *config)
{
    Paddle__OptimizerConfig message = PADDLE__OPTIMIZER_CONFIG__INIT;
    struct parts parts;
    init_parts(&parts);
    complete(&message, &parts);
    enum ps_status status = read_message(&message, config, NULL);
    PS_ASSERT(status == PS_OK);
}

/* The struct owns its values; the unpacked message and its arena end here. `*config` is written
 * only when everything was valid. */
enum ps_status ps_optimizer_config_decode(struct ps_bytes bytes, const struct ps_allocator *memory,
                                          struct ps_optimizer_config *config,
                                          struct ps_error *error)
{
    /* The same bound as in a request: this also reads what a checkpoint holds. */
    if (bytes.size > PS_CONFIG_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: %zu bytes are too long, %d are allowed",
                       bytes.size, PS_CONFIG_BYTES_MAX);
    struct ps_arena arena;
    ps_arena_init(&arena, memory, ps_unpack_bytes_max(bytes.size));
    struct parts parts;
    ProtobufCMessage *unpacked = NULL;
    enum ps_status status =
        ps_unpack(&paddle__optimizer_config__descriptor, bytes, &arena, &unpacked, error);
    /* Everything below fills `read` from a message that has every part: nothing is NULL any
     * more. */
    if (status == PS_OK) {
        Paddle__OptimizerConfig *message = (Paddle__OptimizerConfig *)unpacked;
        init_parts(&parts);
        complete(message, &parts);
        status = read_message(message, config, error);
    }
    ps_arena_release(&arena);
    return status;
}

/* protobuf-c's initialisers carry the defaults of the .proto; a zeroed struct would not. */
static void init_parts(struct parts *parts)
{
    *parts = (struct parts){
        .add = PADDLE__ADD_CONFIG__INIT,
        .integer_sgd = PADDLE__INTEGER_SGDCONFIG__INIT,
        .const_lr = PADDLE__CONST_LR_CONFIG__INIT,
        .linear_lr = PADDLE__LINEAR_LR_CONFIG__INIT,
        .schedule = PADDLE__SCHEDULE_CONFIG__INIT,
    };
}

/* Puts the default in the place of every message that is absent, so that whoever reads or writes
 * the fields behind it needs no check for NULL. `parts` must live as long as `message`. */
static void complete(Paddle__OptimizerConfig *message, struct parts *parts)
{
#define COMPLETE(name) message->name = message->name != NULL ? message->name : &parts->name
    COMPLETE(add);
    COMPLETE(integer_sgd);
    COMPLETE(const_lr);
    COMPLETE(linear_lr);
    COMPLETE(schedule);
#undef COMPLETE
}

/* The numbers of all enums are checked before the first one is used. Ranges of values (a rate below
 * 0, a beta of 2) are judged by the optimizer's own settings check, which knows what they mean. */
static enum ps_status read_message(const Paddle__OptimizerConfig *message,
                                   struct ps_optimizer_config *config, struct ps_error *error)
{
    PS_TRY(check_numbers(message, error));
    /* Filled aside and handed out when all of it is right. */
    struct ps_optimizer_config read = {
        .policy = (enum ps_config_policy)message->lr_policy,
        .clip_norm = message->has_clip_norm ? message->clip_norm : 0.0,
        .clip_value = message->has_clip_value ? message->clip_value : 0.0,
        .nonfinite = (int32_t)message->nonfinite,
        .l2 = message->l2,
        .samples_per_step = message->samples_per_step,
    };
    read_optimizer(message, &read);
    read_choices(message, &read);
    ps_round_config_read(message->rounds, &read.rounds);
    PS_TRY(ps_table_config_read(message->table, &read.table, error));
    PS_TRY(read_policy(message, &read, error));
    *config = read;
    return PS_OK;
}

/* protobuf-c keeps enum numbers that the .proto does not have, where others drop them. Such a
 * number is a newer client's rule: training on with another one than was asked for would be silent,
 * so it is refused. */
static enum ps_status check_numbers(const Paddle__OptimizerConfig *message, struct ps_error *error)
{
    const Paddle__RoundConfig *rounds = message->rounds;
    const Paddle__TableConfig *table = message->table;
    const struct {
        const ProtobufCEnumDescriptor *descriptor;
        int value;
    } numbers[] = {
        {&paddle__optimizer_config__optimizer__descriptor, (int)message->optimizer},
        {&paddle__optimizer_config__lr_policy__descriptor, (int)message->lr_policy},
        {&paddle__optimizer_config__nonfinite__descriptor, (int)message->nonfinite},
        {&paddle__add_config__overflow__descriptor, (int)message->add->overflow},
        {&paddle__integer_sgdconfig__rounding__descriptor, (int)message->integer_sgd->rounding},
        {&paddle__round_config__combine__descriptor, rounds != NULL ? (int)rounds->combine : 0},
        {&paddle__round_config__late__descriptor, rounds != NULL ? (int)rounds->late : 0},
        {&paddle__table_config__init__descriptor, table != NULL ? (int)table->init : 0},
        {&paddle__table_config__full__descriptor, table != NULL ? (int)table->full : 0},
        {&paddle__table_config__partition__descriptor, table != NULL ? (int)table->partition : 0},
    };
    /* One loop over all enums, each judged by the descriptor of its own type. */
    for (size_t i = 0; i < PS_ARRAY_COUNT(numbers); i++) {
        if (protobuf_c_enum_descriptor_get_value(numbers[i].descriptor, numbers[i].value) == NULL)
            return ps_fail(error, PS_ERR_BAD_INPUT, "config: %s has no number %d",
                           numbers[i].descriptor->short_name, numbers[i].value);
    }
    return PS_OK;
}

/* "AdamW" becomes "adamw", which is also the name of the field that holds its message. */
static void lower_name(const char *name, char lower[PS_CONFIG_NAME_BYTES_MAX])
{
    size_t length = strlen(name);
    PS_ASSERT(length < PS_CONFIG_NAME_BYTES_MAX);
    for (size_t i = 0; i <= length; i++)
        lower[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
}

/* The number in the .proto of the optimizer that has this name in lower case; NULL: none has. */
static const ProtobufCEnumValue *find_optimizer(const char *name)
{
    const ProtobufCEnumDescriptor *optimizers = &paddle__optimizer_config__optimizer__descriptor;
    /* Names in the .proto have capitals, names in options do not; the comparison is in lower
     * case. */
    for (unsigned i = 0; i < optimizers->n_values; i++) {
        char lower[PS_CONFIG_NAME_BYTES_MAX];
        lower_name(optimizers->values[i].name, lower);
        if (strcmp(lower, name) == 0)
            return &optimizers->values[i];
    }
    return NULL;
}

/* The field that holds the message of this optimizer; NULL: the optimizer has none. */
static const ProtobufCFieldDescriptor *own_field(const char *optimizer)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(
        &paddle__optimizer_config__descriptor, optimizer);
    return field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE ? field : NULL;
}

/* Enum fields are no numbers: they are choices, which have fields of their own in the struct. */
static bool is_number(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_DOUBLE || field->type == PROTOBUF_C_TYPE_BOOL;
}

/* By the descriptor's offset into the generated struct; a bool is a number of 0 or 1 from here
 * on. */
static double number_in(const ProtobufCMessage *own, const ProtobufCFieldDescriptor *field)
{
    const char *place = (const char *)own + field->offset;
    if (field->type == PROTOBUF_C_TYPE_BOOL)
        return *(const protobuf_c_boolean *)place != 0 ? 1.0 : 0.0;
    return *(const double *)place;
}

/* Fills the numbers of an optimizer from its message; an absent one stands for its defaults. */
static void take_numbers(const ProtobufCMessage *own, const ProtobufCFieldDescriptor *field,
                         struct ps_optimizer_config *config)
{
    const ProtobufCMessageDescriptor *descriptor = field->descriptor;
    union own_message defaults;
    /* The generated structs grow with the .proto; the room of own_message must grow with them. */
    PS_ASSERT(descriptor->sizeof_message <= sizeof defaults);
    /* protobuf_c_message_init writes the .proto's defaults, as for the messages that every
     * configuration has. */
    if (own == NULL) {
        protobuf_c_message_init(descriptor, &defaults);
        own = &defaults.base;
    }
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        if (!is_number(&descriptor->fields[i]))
            continue;
        PS_ASSERT(config->number_count < PS_CONFIG_NUMBERS_MAX);
        config->numbers[config->number_count++] = (struct ps_config_number){
            descriptor->fields[i].name, number_in(own, &descriptor->fields[i])};
    }
}

/* check_numbers has refused every number without a name, so the value is found. An optimizer
 * without a message of its own has no numbers. */
static void read_optimizer(const Paddle__OptimizerConfig *message,
                           struct ps_optimizer_config *config)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(
        &paddle__optimizer_config__optimizer__descriptor, (int)message->optimizer);
    PS_ASSERT(value != NULL);
    lower_name(value->name, config->optimizer);
    const ProtobufCFieldDescriptor *field = own_field(config->optimizer);
    if (field == NULL)
        return;
    const char *place = (const char *)message + field->offset;
    take_numbers(*(ProtobufCMessage *const *)(const void *)place, field, config);
}

/* The numbers of the optimizer chosen before go: each has its own, and a name in both (epsilon)
 * need not mean the same. */
bool ps_optimizer_config_choose(struct ps_optimizer_config *config, const char *name)
{
    PS_ASSERT(config != NULL && name != NULL);
    /* False for a name that the .proto does not have; the caller tells people which names there
     * are. */
    const ProtobufCEnumValue *value = find_optimizer(name);
    if (value == NULL)
        return false;
    lower_name(value->name, config->optimizer);
    config->number_count = 0;
    const ProtobufCFieldDescriptor *field = own_field(config->optimizer);
    if (field != NULL)
        take_numbers(NULL, field, config);
    return true;
}

/* A walk: an optimizer has less than ten numbers. */
static uint32_t number_index(const struct ps_optimizer_config *config, const char *name)
{
    uint32_t i = 0;
    while (i < config->number_count && strcmp(config->numbers[i].name, name) != 0)
        i++;
    return i;
}

/* Names come from our own tables and tools; one that the optimizer does not have is a bug there. */
void ps_optimizer_config_set(struct ps_optimizer_config *config, const char *name, double value)
{
    uint32_t i = number_index(config, name);
    PS_ASSERT(i < config->number_count);
    config->numbers[i].value = value;
}

/* As for setting: the caller knows which numbers the optimizer has. */
double ps_optimizer_config_get(const struct ps_optimizer_config *config, const char *name)
{
    uint32_t i = number_index(config, name);
    PS_ASSERT(i < config->number_count);
    return config->numbers[i].value;
}

/* What rules on whole numbers are told, whichever optimizer is chosen. */
static void read_choices(const Paddle__OptimizerConfig *message, struct ps_optimizer_config *config)
{
    config->add_overflow = (int32_t)message->add->overflow;
    config->integer_rounding = (int32_t)message->integer_sgd->rounding;
    config->integer_seed = message->integer_sgd->seed;
    config->integer_gradient_unsigned = message->integer_sgd->gradient_unsigned != 0;
}

/* Takes the numbers from the message that belongs to the policy: the old system has one message for
 * constant and one for linear rates, everything newer shares the schedule. A rate in a message of
 * another policy is ignored. */
static enum ps_status read_policy(const Paddle__OptimizerConfig *message,
                                  struct ps_optimizer_config *config, struct ps_error *error)
{
    const Paddle__ScheduleConfig *schedule = message->schedule;
    /* Belongs to every policy: it says what a pass is. */
    config->steps_per_pass = schedule->steps_per_pass;
    if (config->policy == PS_POLICY_CONST) {
        config->learning_rate = message->const_lr->learning_rate;
        return PS_OK;
    }
    if (config->policy == PS_POLICY_LINEAR) {
        config->learning_rate = message->linear_lr->learning_rate;
        config->decay_a = message->linear_lr->lr_decay_a;
        config->decay_b = message->linear_lr->lr_decay_b;
        return PS_OK;
    }
    config->learning_rate = schedule->learning_rate;
    config->decay_a = schedule->decay_a;
    config->decay_b = schedule->decay_b;
    struct ps_bytes segments = ps_bytes_of_text(schedule->segments);
    /* The struct has room of its own, so that it can be copied; the text must leave room for its
     * NUL. */
    if (segments.size >= sizeof config->segments)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: segments: %zu bytes, %zu are allowed",
                       segments.size, sizeof config->segments - 1);
    if (!ps_wire_is_text(segments))
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: segments: not UTF-8");
    if (segments.size > 0)
        memcpy(config->segments, segments.data, segments.size);
    return PS_OK;
}

/* protobuf-c writes through this: its interface for output, with our buffer behind it. */
struct sink {
    ProtobufCBuffer base; /* first: `append` gets a pointer to it */
    struct ps_buffer *bytes;
};

void ps_optimizer_config_encode(const struct ps_optimizer_config *config, struct ps_buffer *bytes)
{
    PS_ASSERT(config != NULL && bytes != NULL);
    Paddle__OptimizerConfig message = PADDLE__OPTIMIZER_CONFIG__INIT;
    struct parts parts;
    union own_message own;
    Paddle__RoundConfig rounds;
    Paddle__TableConfig table;
    char segments[sizeof config->segments];
    init_parts(&parts);
    write_message(config, &message);
    /* A struct that names no optimizer of the .proto cannot be written; the buffer says so to the
     * caller. */
    if (!write_optimizer(config, &message, &own)) {
        bytes->failed = true;
        return;
    }
    write_choices(config, &parts);
    message.rounds = ps_round_config_write(&config->rounds, &rounds);
    message.table = ps_table_config_write(&config->table, &table);
    write_policy(config, &parts, segments);
    complete(&message, &parts);
    /* Piece by piece: protobuf-c would otherwise want one block of the packed size. */
    struct sink sink = {.base = {.append = append}, .bytes = bytes};
    (void)paddle__optimizer_config__pack_to_buffer(&message, &sink.base);
}

/* A clip of 0 means "no clipping" in the struct and is absent in the message; a present 0 would
 * clip every gradient to nothing. */
static void write_message(const struct ps_optimizer_config *config,
                          Paddle__OptimizerConfig *message)
{
    SET(message, lr_policy, (Paddle__OptimizerConfig__LrPolicy)config->policy);
    SET(message, nonfinite, (Paddle__OptimizerConfig__Nonfinite)config->nonfinite);
    SET(message, l2, config->l2);
    SET(message, samples_per_step, config->samples_per_step);
    if (config->clip_norm != 0.0)
        SET(message, clip_norm, config->clip_norm);
    if (config->clip_value != 0.0)
        SET(message, clip_value, config->clip_value);
}

/* Writes the chosen optimizer and its message. False when the .proto has no such optimizer. */
static bool write_optimizer(const struct ps_optimizer_config *config,
                            Paddle__OptimizerConfig *message, union own_message *own)
{
    const ProtobufCEnumValue *value = find_optimizer(config->optimizer);
    if (value == NULL)
        return false;
    SET(message, optimizer, (Paddle__OptimizerConfig__Optimizer)value->value);
    const ProtobufCFieldDescriptor *field = own_field(config->optimizer);
    /* A message of choices alone (AddConfig) is written by write_choices. */
    if (field == NULL || config->number_count == 0)
        return true;
    protobuf_c_message_init(field->descriptor, own);
    for (uint32_t i = 0; i < config->number_count; i++)
        write_number(&config->numbers[i], field->descriptor, own);
    /* The pointer to the optimizer's own message, wherever the generated struct has it. */
    char *place = (char *)message + field->offset;
    *(ProtobufCMessage **)(void *)place = &own->base;
    return true;
}

/* A number is written even where it is the default: a reader with other defaults is told. */
static void write_number(const struct ps_config_number *number,
                         const ProtobufCMessageDescriptor *descriptor, union own_message *own)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(descriptor, number->name);
    PS_ASSERT(field != NULL && is_number(field));
    char *start = (char *)own;
    /* What has_... is in the generated struct, found through the descriptor. */
    *(protobuf_c_boolean *)(void *)(start + field->quantifier_offset) = 1;
    if (field->type == PROTOBUF_C_TYPE_BOOL)
        *(protobuf_c_boolean *)(void *)(start + field->offset) = number->value != 0;
    else
        *(double *)(void *)(start + field->offset) = number->value;
}

/* Written for every optimizer, as read_choices reads them: a checkpoint says what a rule would do
 * if the optimizer were changed to it. */
static void write_choices(const struct ps_optimizer_config *config, struct parts *parts)
{
    SET(&parts->add, overflow, (Paddle__AddConfig__Overflow)config->add_overflow);
    SET(&parts->integer_sgd, rounding,
        (Paddle__IntegerSGDConfig__Rounding)config->integer_rounding);
    SET(&parts->integer_sgd, seed, config->integer_seed);
    SET(&parts->integer_sgd, gradient_unsigned, config->integer_gradient_unsigned);
}

/* The way back of read_policy. `segments` is where the text stays while the message is written:
 * protobuf-c's pointer to it is not const. */
static void write_policy(const struct ps_optimizer_config *config, struct parts *parts,
                         char *segments)
{
    /* Steps per pass belong to every policy, as read_policy takes them. */
    SET(&parts->schedule, steps_per_pass, config->steps_per_pass);
    if (config->policy == PS_POLICY_CONST) {
        SET(&parts->const_lr, learning_rate, config->learning_rate);
        return;
    }
    if (config->policy == PS_POLICY_LINEAR) {
        SET(&parts->linear_lr, learning_rate, config->learning_rate);
        SET(&parts->linear_lr, lr_decay_a, config->decay_a);
        SET(&parts->linear_lr, lr_decay_b, config->decay_b);
        return;
    }
    SET(&parts->schedule, learning_rate, config->learning_rate);
    SET(&parts->schedule, decay_a, config->decay_a);
    SET(&parts->schedule, decay_b, config->decay_b);
    memcpy(segments, config->segments, sizeof config->segments);
    parts->schedule.segments = segments[0] != '\0' ? segments : NULL;
}

/* protobuf-c cannot be told that a buffer is full; ps_buffer remembers it, and the caller asks
 * there. */
static void append(ProtobufCBuffer *buffer, size_t size, const uint8_t *data)
{
    struct sink *sink = (struct sink *)buffer;
    ps_buffer_append(sink->bytes, (struct ps_bytes){data, size});
}
