/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of an answer is borrowed from what is released here, so tests ask for it
 * themselves where they need it. */
#include "core_change.h"

struct change_answers answers;

static struct ps_request_id numbered(uint64_t sequence)
{
    return (struct ps_request_id){
        .present = sequence > 0, .client_id = text("client"), .session = 1, .sequence = sequence};
}

enum ps_status change_define(struct core_world *world, const char *name, const float *values,
                             size_t count, struct ps_bytes config, uint64_t sequence)
{
    struct ps_bytes piece = {(const uint8_t *)values, count * sizeof *values};
    const struct ps_init_request request = {.name = text(name),
                                            .dtype = PS_F32,
                                            .content = ps_view_of(&piece),
                                            .config = config,
                                            .request = numbered(sequence)};
    return ps_service_define(world->service, &request, &answers.defined, &world->wait,
                             &world->error);
}

static enum ps_status keep(enum ps_status status, struct ps_changed *changed)
{
    answers.changed = changed->reply;
    answers.changed.config = (struct ps_bytes){0};
    ps_changed_release(changed);
    return status;
}

enum ps_status change_drop(struct core_world *world, const char *name, uint64_t sequence)
{
    const struct ps_change_request request = {.name = text(name), .request = numbered(sequence)};
    struct ps_changed changed = {0};
    return keep(ps_service_drop(world->service, &request, &changed, &world->wait, &world->error),
                &changed);
}

enum ps_status change_configure_to(struct core_world *world, const char *name,
                                   struct ps_bytes change, uint64_t sequence)
{
    const struct ps_change_request request = {
        .name = text(name), .change = change, .request = numbered(sequence)};
    struct ps_changed changed = {0};
    return keep(
        ps_service_configure(world->service, &request, &changed, &world->wait, &world->error),
        &changed);
}

enum ps_status change_configure(struct core_world *world, const char *name, double rate,
                                uint64_t sequence)
{
    return change_configure_to(world, name, config_of("sgd", rate), sequence);
}
