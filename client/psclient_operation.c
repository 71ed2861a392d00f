/* libpsclient: pushes and pulls that do not wait. */
#include "client/psclient.h"

#include "client/client_state.h"
#include "client/status_map.h"

struct psclient_operation {
    struct ps_client_job job; /* first: a job that is announced is an operation */
    struct psclient *client;  /* borrowed */
    void *user;
    struct ps_item *items; /* owned */
    size_t count;
    struct psclient_parameter *parameters; /* borrowed; NULL: a push */
};

static int begin(struct psclient *client, enum ps_method method,
                 const struct psclient_operation *wish, uint64_t timeout_ms,
                 struct psclient_operation **out, struct psclient_error *error);

PS_EXPORT int psclient_push_begin(struct psclient *client,
                                  const struct psclient_gradient *gradients, size_t count,
                                  uint64_t timeout_ms, void *user,
                                  struct psclient_operation **operation,
                                  struct psclient_error *error)
{
    const struct psclient_operation wish = {
        .user = user, .items = ps_client_push_items(client, gradients, count), .count = count};
    return begin(client, PS_METHOD_PUSH, &wish, timeout_ms, operation, error);
}

PS_EXPORT int psclient_pull_begin(struct psclient *client, struct psclient_parameter *parameters,
                                  size_t count, uint64_t timeout_ms, void *user,
                                  struct psclient_operation **operation,
                                  struct psclient_error *error)
{
    const struct psclient_operation wish = {.user = user,
                                            .items =
                                                ps_client_pull_items(client, parameters, count),
                                            .count = count,
                                            .parameters = parameters};
    return begin(client, PS_METHOD_PULL, &wish, timeout_ms, operation, error);
}

PS_EXPORT int psclient_push_pull_begin(struct psclient *client,
                                       const struct psclient_gradient *gradients,
                                       struct psclient_parameter *parameters, size_t count,
                                       uint64_t timeout_ms, void *user,
                                       struct psclient_operation **operation,
                                       struct psclient_error *error)
{
    const struct psclient_operation wish = {
        .user = user,
        .items = ps_client_push_pull_items(client, gradients, parameters, count),
        .count = count,
        .parameters = parameters};
    return begin(client, PS_METHOD_PUSH_PULL, &wish, timeout_ms, operation, error);
}

/* Takes the items of the wish. */
static int begin(struct psclient *client, enum ps_method method,
                 const struct psclient_operation *wish, uint64_t timeout_ms,
                 struct psclient_operation **out, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_ERR_NO_MEMORY, .text = "no memory for a batch"};
    struct psclient_operation *operation = ps_zeroed(client->memory, sizeof *operation);
    enum ps_status status = PS_ERR_NO_MEMORY;
    if (operation != NULL && wish->items != NULL) {
        *operation = *wish;
        operation->client = client;
        operation->job.announced = true;
        const struct ps_batch_request request =
            ps_client_request(client, method, wish->items, wish->count, timeout_ms);
        status = ps_client_begin(client, &request, &operation->job, &why);
    }
    if (status != PS_OK) {
        ps_release(client->memory, operation);
        for (size_t i = 0; wish->items != NULL && i < wish->count; i++)
            wish->items[i].status = status; /* none was sent */
        ps_client_release_items(client, wish->items, wish->count);
        return ps_client_fail(error, status, why.text);
    }
    *out = operation;
    return ps_client_succeed(error);
}

PS_EXPORT struct psclient_operation *psclient_next(struct psclient *client, uint64_t timeout_ms)
{
    return (struct psclient_operation *)ps_client_next(
        client, ps_deadline_after(client->clock, timeout_ms));
}

PS_EXPORT void *psclient_operation_user(const struct psclient_operation *operation)
{
    return operation->user;
}

PS_EXPORT int psclient_end(struct psclient_operation *operation, struct psclient_result *results,
                           struct psclient_error *error)
{
    struct psclient *client = operation->client;
    ps_client_end(client, &operation->job);
    if (operation->parameters != NULL)
        ps_client_note_pulled(operation->items, operation->parameters, operation->count);
    int status = ps_client_verdict(operation->items, operation->count, results, error);
    ps_client_release_items(client, operation->items, operation->count);
    ps_release(client->memory, operation);
    return status;
}
