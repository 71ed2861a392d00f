/* OptimizerConfig <-> struct, through protobuf-c, which knows the defaults of the .proto. These
 * messages come from Paddle's proto2 files, whose fields have defaults and presence, so "absent"
 * and "0" differ: every field is read through its default and written with its presence. */
#include "proto/optimizer_config.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "proto/arena.h"
#include "proto/unpack.h"
#include "proto/wire.h"

#include "pserver/v1/optimizer_config.pb-c.h"

#include <string.h>

/* X(message, field): what has the same name in the .proto and in the struct. */
#define RULE_FIELDS(X)               \
    X(sgd, momentum)                 \
    X(sgd, decay)                    \
    X(sgd, nesterov)                 \
    X(adadelta, epsilon)             \
    X(adadelta, decay)               \
    X(adadelta, rho)                 \
    X(adagrad, epsilon)              \
    X(adagrad, decay)                \
    X(adagrad, initial_accumulator)  \
    X(adagrad, reference_sign)       \
    X(adagrad, epsilon_outside_root) \
    X(adam, beta_1)                  \
    X(adam, beta_2)                  \
    X(adam, epsilon)                 \
    X(adam, decay)                   \
    X(adam, epsilon_outside_root)    \
    X(adamw, beta_1)                 \
    X(adamw, beta_2)                 \
    X(adamw, epsilon)                \
    X(adamw, weight_decay)           \
    X(rmsprop, rho)                  \
    X(rmsprop, epsilon)              \
    X(ftrl, l1)                      \
    X(ftrl, l2)                      \
    X(ftrl, beta)                    \
    X(ftrl, initial_accumulator)

/* Sets an optional field of a protobuf-c struct. */
#define SET(message, field, value_) ((message)->has_##field = 1, (message)->field = (value_))

/* The messages of a whole configuration, so that absent ones can stand for their defaults. */
struct parts {
    Paddle__SGDConfig sgd;
    Paddle__AdadeltaConfig adadelta;
    Paddle__AdagradConfig adagrad;
    Paddle__AdamConfig adam;
    Paddle__AdamWConfig adamw;
    Paddle__RMSPropConfig rmsprop;
    Paddle__FtrlConfig ftrl;
    Paddle__AddConfig add;
    Paddle__IntegerSGDConfig integer_sgd;
    Paddle__ConstLrConfig const_lr;
    Paddle__LinearLrConfig linear_lr;
    Paddle__ScheduleConfig schedule;
};

static void init_parts(struct parts *parts);
static void complete(Paddle__OptimizerConfig *message, struct parts *parts);
static enum ps_status check_numbers(const Paddle__OptimizerConfig *message, struct ps_error *error);
static enum ps_status read_message(const Paddle__OptimizerConfig *message,
                                   struct ps_optimizer_config *config, struct ps_error *error);
static void read_rules(const Paddle__OptimizerConfig *message, struct ps_optimizer_config *config);
static enum ps_status read_policy(const Paddle__OptimizerConfig *message,
                                  struct ps_optimizer_config *config, struct ps_error *error);
static void write_message(const struct ps_optimizer_config *config,
                          Paddle__OptimizerConfig *message);
static void write_rules(const struct ps_optimizer_config *config, struct parts *parts);
static void write_policy(const struct ps_optimizer_config *config, struct parts *parts,
                         char *segments);
static void append(ProtobufCBuffer *buffer, size_t size, const uint8_t *data);

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
    if (bytes.size > PS_CONFIG_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: %zu bytes are too long, %d are allowed",
                       bytes.size, PS_CONFIG_BYTES_MAX);
    struct ps_arena arena;
    ps_arena_init(&arena, memory, ps_unpack_bytes_max(bytes.size));
    struct parts parts;
    ProtobufCMessage *unpacked = NULL;
    enum ps_status status =
        ps_unpack(&paddle__optimizer_config__descriptor, bytes, &arena, &unpacked, error);
    if (status == PS_OK) {
        Paddle__OptimizerConfig *message = (Paddle__OptimizerConfig *)unpacked;
        init_parts(&parts);
        complete(message, &parts);
        status = read_message(message, config, error);
    }
    ps_arena_release(&arena);
    return status;
}

static void init_parts(struct parts *parts)
{
    *parts = (struct parts){
        .sgd = PADDLE__SGDCONFIG__INIT,
        .adadelta = PADDLE__ADADELTA_CONFIG__INIT,
        .adagrad = PADDLE__ADAGRAD_CONFIG__INIT,
        .adam = PADDLE__ADAM_CONFIG__INIT,
        .adamw = PADDLE__ADAM_WCONFIG__INIT,
        .rmsprop = PADDLE__RMSPROP_CONFIG__INIT,
        .ftrl = PADDLE__FTRL_CONFIG__INIT,
        .add = PADDLE__ADD_CONFIG__INIT,
        .integer_sgd = PADDLE__INTEGER_SGDCONFIG__INIT,
        .const_lr = PADDLE__CONST_LR_CONFIG__INIT,
        .linear_lr = PADDLE__LINEAR_LR_CONFIG__INIT,
        .schedule = PADDLE__SCHEDULE_CONFIG__INIT,
    };
}

/* Puts the default in the place of every message that is absent. */
static void complete(Paddle__OptimizerConfig *message, struct parts *parts)
{
#define COMPLETE(name) message->name = message->name != NULL ? message->name : &parts->name
    COMPLETE(sgd);
    COMPLETE(adadelta);
    COMPLETE(adagrad);
    COMPLETE(adam);
    COMPLETE(adamw);
    COMPLETE(rmsprop);
    COMPLETE(ftrl);
    COMPLETE(add);
    COMPLETE(integer_sgd);
    COMPLETE(const_lr);
    COMPLETE(linear_lr);
    COMPLETE(schedule);
#undef COMPLETE
}

static enum ps_status read_message(const Paddle__OptimizerConfig *message,
                                   struct ps_optimizer_config *config, struct ps_error *error)
{
    PS_TRY(check_numbers(message, error));
    struct ps_optimizer_config read = {
        .optimizer = (enum ps_config_optimizer)message->optimizer,
        .policy = (enum ps_config_policy)message->lr_policy,
        .clip_norm = message->has_clip_norm ? message->clip_norm : 0.0,
        .clip_value = message->has_clip_value ? message->clip_value : 0.0,
        .nonfinite = (int32_t)message->nonfinite,
        .l2 = message->l2,
        .samples_per_step = message->samples_per_step,
    };
    read_rules(message, &read);
    PS_TRY(read_policy(message, &read, error));
    *config = read;
    return PS_OK;
}

/* protobuf-c keeps enum numbers that the .proto does not have, where others drop them. Such a
 * number is a newer client's rule: training on with another one than was asked for would be silent,
 * so it is refused. */
static enum ps_status check_numbers(const Paddle__OptimizerConfig *message, struct ps_error *error)
{
    const struct {
        const ProtobufCEnumDescriptor *descriptor;
        int value;
    } numbers[] = {
        {&paddle__optimizer_config__optimizer__descriptor, (int)message->optimizer},
        {&paddle__optimizer_config__lr_policy__descriptor, (int)message->lr_policy},
        {&paddle__optimizer_config__nonfinite__descriptor, (int)message->nonfinite},
        {&paddle__add_config__overflow__descriptor, (int)message->add->overflow},
        {&paddle__integer_sgdconfig__rounding__descriptor, (int)message->integer_sgd->rounding},
    };
    for (size_t i = 0; i < PS_ARRAY_COUNT(numbers); i++) {
        if (protobuf_c_enum_descriptor_get_value(numbers[i].descriptor, numbers[i].value) == NULL)
            return ps_fail(error, PS_ERR_BAD_INPUT, "config: %s has no number %d",
                           numbers[i].descriptor->short_name, numbers[i].value);
    }
    return PS_OK;
}

static void read_rules(const Paddle__OptimizerConfig *message, struct ps_optimizer_config *config)
{
#define READ(part, field) config->part.field = message->part->field;
    RULE_FIELDS(READ)
#undef READ
    config->add_overflow = (int32_t)message->add->overflow;
    config->integer_rounding = (int32_t)message->integer_sgd->rounding;
    config->integer_seed = message->integer_sgd->seed;
    config->integer_gradient_unsigned = message->integer_sgd->gradient_unsigned != 0;
}

/* Takes the numbers from the message that belongs to the policy. */
static enum ps_status read_policy(const Paddle__OptimizerConfig *message,
                                  struct ps_optimizer_config *config, struct ps_error *error)
{
    const Paddle__ScheduleConfig *schedule = message->schedule;
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
    if (segments.size >= sizeof config->segments)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: segments: %zu bytes, %zu are allowed",
                       segments.size, sizeof config->segments - 1);
    if (!ps_wire_is_text(segments))
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: segments: not UTF-8");
    if (segments.size > 0)
        memcpy(config->segments, segments.data, segments.size);
    return PS_OK;
}

/* protobuf-c writes through this. */
struct sink {
    ProtobufCBuffer base; /* first: `append` gets a pointer to it */
    struct ps_buffer *bytes;
};

void ps_optimizer_config_encode(const struct ps_optimizer_config *config, struct ps_buffer *bytes)
{
    PS_ASSERT(config != NULL && bytes != NULL);
    Paddle__OptimizerConfig message = PADDLE__OPTIMIZER_CONFIG__INIT;
    struct parts parts;
    char segments[sizeof config->segments];
    init_parts(&parts);
    write_message(config, &message);
    write_rules(config, &parts);
    write_policy(config, &parts, segments);
    complete(&message, &parts);
    struct sink sink = {.base = {.append = append}, .bytes = bytes};
    (void)paddle__optimizer_config__pack_to_buffer(&message, &sink.base);
}

static void write_message(const struct ps_optimizer_config *config,
                          Paddle__OptimizerConfig *message)
{
    SET(message, optimizer, (Paddle__OptimizerConfig__Optimizer)config->optimizer);
    SET(message, lr_policy, (Paddle__OptimizerConfig__LrPolicy)config->policy);
    SET(message, nonfinite, (Paddle__OptimizerConfig__Nonfinite)config->nonfinite);
    SET(message, l2, config->l2);
    SET(message, samples_per_step, config->samples_per_step);
    if (config->clip_norm != 0.0)
        SET(message, clip_norm, config->clip_norm);
    if (config->clip_value != 0.0)
        SET(message, clip_value, config->clip_value);
}

/* Every field is written, also one that has its default: a checkpoint then says what it was trained
 * with, whatever the defaults of a later version are. */
static void write_rules(const struct ps_optimizer_config *config, struct parts *parts)
{
#define WRITE(part, field) SET(&parts->part, field, config->part.field);
    RULE_FIELDS(WRITE)
#undef WRITE
    SET(&parts->add, overflow, (Paddle__AddConfig__Overflow)config->add_overflow);
    SET(&parts->integer_sgd, rounding,
        (Paddle__IntegerSGDConfig__Rounding)config->integer_rounding);
    SET(&parts->integer_sgd, seed, config->integer_seed);
    SET(&parts->integer_sgd, gradient_unsigned, config->integer_gradient_unsigned);
}

/* `segments` is where the text stays while the message is written: protobuf-c's pointer to it is
 * not const. */
static void write_policy(const struct ps_optimizer_config *config, struct parts *parts,
                         char *segments)
{
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

static void append(ProtobufCBuffer *buffer, size_t size, const uint8_t *data)
{
    struct sink *sink = (struct sink *)buffer;
    ps_buffer_append(sink->bytes, (struct ps_bytes){data, size});
}
