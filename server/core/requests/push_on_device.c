/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes whose gradient lies in a device's memory. The host cannot look at such a gradient:
 * whatever the host would have to do with one is a reason to have it copied first. So it is asked
 * twice whether there is any: before the content is opened, when it can still be copied, and with
 * the cut held, when nothing can change any more. */
#include "server/core/requests/push_on_device.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "server/core/requests/service_state.h"
#include "server/core/sessions/fingerprint.h"
#include "server/core/update/device_store.h"

/* Rounds keep gradients and add them up, tables take rows of them, ranges wait for others, and a
 * journal writes them. All that is the host's. */
static bool reads_device(const struct ps_service *service, const struct ps_parameter *parameter,
                         const struct ps_push_request *request)
{
    const struct ps_parameter_spec *spec = parameter->spec;
    const struct ps_gradient gradient = {.content = request->content,
                                         .encoding = PS_ENCODING_NATIVE};
    PS_ASSERT(request->on_device && request->content.piece_count == 1);
    if (service->queue.journals || parameter->rounds != NULL || parameter->rows != NULL)
        return false;
    /* In the words of the request, which nobody has checked yet: what is wrong with it is found
     * again on the host's way, and said there. */
    if (request->range.count != 0 || request->dtype != ps_parameter_spec_gradient(spec) ||
        !ps_encoding_is_native(request->encoding, request->dtype))
        return false;
    return ps_resident_reads(&parameter->resident, spec, gradient);
}

bool ps_service_reads_device(struct ps_service *service, const struct ps_push_request *request)
{
    PS_ASSERT(request->content.size > 0);
    ps_rwlock_read(&service->cut);
    const struct ps_parameter *parameter = ps_parameter_table_find(&service->table, request->name);
    bool reads = parameter != NULL && reads_device(service, parameter, request);
    ps_rwlock_unlock(&service->cut);
    return reads;
}

/* Between the two questions the parameter may have been dropped and made again on the host, or be
 * trained in rounds from now on. That is rare, and the client sends the push again under its id. */
enum ps_status ps_service_check_on_device(const struct ps_service *service,
                                          const struct ps_parameter *parameter,
                                          const struct ps_push_request *request,
                                          struct ps_error *error)
{
    PS_ASSERT(parameter != NULL);
    if (!request->on_device || reads_device(service, parameter, request))
        return PS_OK;
    return ps_fail(
        error, PS_ERR_UNAVAILABLE,
        "Name: %s, it has changed meanwhile, and reads no memory of a device: send again",
        (const char *)parameter->spec->name.data);
}

/* To copy a sample from the device would be a round trip for each push, and bits that are not known
 * agree with any: a client that uses an id again for another content of the same parameter is not
 * found out then. The journal, where there is one, has them, since its content is the host's. */
uint32_t ps_service_fingerprint(const struct ps_push_request *request)
{
    const struct ps_view unknown = {0};
    PS_ASSERT(!request->on_device || request->range.count == 0);
    return ps_fingerprint_of_push(request, request->on_device ? unknown : request->content);
}
