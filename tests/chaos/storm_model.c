/* SPDX-License-Identifier: Apache-2.0 */
/* What the pushes of a storm look like. */
#include "tests/chaos/storm_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGIT 64u
#define SLOT_ELEMENTS 3u

static bool read_parameter(struct storm_model *model, char *word);

bool storm_model_init(struct storm_model *model, const char *text, size_t slot_count)
{
    *model = (struct storm_model){.slot_count = slot_count};
    size_t count = 1;
    for (const char *at = text; *at != '\0'; at++)
        count += *at == ',';
    model->parameters = calloc(count, sizeof *model->parameters);
    char *copy = strdup(text);
    bool good = model->parameters != NULL && copy != NULL;
    char *rest = copy;
    while (good && rest != NULL) {
        char *word = strsep(&rest, ",");
        good = read_parameter(model, word);
    }
    free(copy);
    if (!good) {
        fprintf(stderr, "storm_trainer: no model: \"%s\"\n", text);
        storm_model_fini(model);
    }
    return good;
}

static bool read_parameter(struct storm_model *model, char *word)
{
    struct storm_parameter *parameter = &model->parameters[model->parameter_count];
    char *colon = strrchr(word, ':');
    if (colon == NULL || colon == word || (size_t)(colon - word) >= sizeof parameter->name)
        return false;
    *colon = '\0';
    char *end = NULL;
    parameter->element_count = strtoul(colon + 1, &end, 10);
    if (*end != '\0' || parameter->element_count < 1 + SLOT_ELEMENTS * model->slot_count ||
        parameter->element_count > (1u << 24))
        return false;
    memcpy(parameter->name, word, strlen(word) + 1);
    parameter->values = calloc(parameter->element_count, sizeof(float));
    if (parameter->values == NULL)
        return false;
    model->parameter_count++;
    return true;
}

void storm_model_fini(struct storm_model *model)
{
    for (size_t i = 0; i < model->parameter_count; i++)
        free(model->parameters[i].values);
    free(model->parameters);
    *model = (struct storm_model){0};
}

/* With rate 1 a push takes its gradient away from the value: -1 counts one up. */
void storm_gradient(struct storm_model *model, size_t parameter, size_t slot, uint32_t number)
{
    struct storm_parameter *to = &model->parameters[parameter];
    size_t padding = 1 + SLOT_ELEMENTS * model->slot_count;
    memset(to->values, 0, to->element_count * sizeof(float));
    to->values[0] = -1.0f;
    float *mine = to->values + 1 + SLOT_ELEMENTS * slot;
    mine[0] = -1.0f;
    mine[1] = -(float)(number / DIGIT);
    mine[2] = -(float)(number % DIGIT);
    for (size_t i = padding; i < to->element_count; i++)
        to->values[i] = -1.0f;
}

bool storm_values_whole(const struct storm_model *model, size_t parameter, uint64_t version)
{
    const struct storm_parameter *from = &model->parameters[parameter];
    double sum = 0;
    for (size_t i = 0; i < model->slot_count; i++)
        sum += (double)from->values[1 + SLOT_ELEMENTS * i];
    if (sum != (double)from->values[0] || sum != (double)version)
        return false;
    for (size_t i = 1 + SLOT_ELEMENTS * model->slot_count; i < from->element_count; i++) {
        if (from->values[i] != from->values[0])
            return false;
    }
    return true;
}
