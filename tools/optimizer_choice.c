/* Optimizers by name. */
#include "tools/optimizer_choice.h"

#include "proto/optimizer_config.h"

#include <string.h>

struct choice {
    const char *name;
    enum ps_config_optimizer optimizer;
    double rate; /* when the user names none: fit for mini-batches of a convex model */
    double momentum;
    bool nesterov;
};

static const struct choice choices[] = {
    {"sgd", PS_CONFIG_SGD, 0.1, 0, false},
    {"momentum", PS_CONFIG_SGD, 0.02, 0.9, false},
    {"nesterov", PS_CONFIG_SGD, 0.02, 0.9, true},
    {"adagrad", PS_CONFIG_ADAGRAD, 0.1, 0, false},
    {"adadelta", PS_CONFIG_ADADELTA, 1.0, 0, false},
    {"adam", PS_CONFIG_ADAM, 0.005, 0, false},
    {"adamw", PS_CONFIG_ADAMW, 0.005, 0, false},
    {"rmsprop", PS_CONFIG_RMSPROP, 0.002, 0, false},
    {"ftrl", PS_CONFIG_FTRL, 0.1, 0, false},
};

enum ps_status ps_optimizer_choice(const char *name, double rate, double l2,
                                   struct ps_buffer *bytes, struct ps_error *error)
{
    const struct choice *chosen = NULL;
    for (size_t i = 0; i < PS_ARRAY_COUNT(choices); i++) {
        if (strcmp(choices[i].name, name) == 0)
            chosen = &choices[i];
    }
    if (chosen == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--optimizer %s: choose one of %s", name,
                       PS_OPTIMIZER_CHOICES);
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    config.optimizer = chosen->optimizer;
    config.learning_rate = rate > 0 ? rate : chosen->rate;
    config.sgd.momentum = chosen->momentum;
    config.sgd.nesterov = chosen->nesterov;
    config.l2 = l2;
    ps_optimizer_config_encode(&config, bytes);
    return ps_buffer_status(bytes, error);
}
