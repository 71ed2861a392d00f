/* SPDX-License-Identifier: Apache-2.0 */
/* Which pulls need nothing of the host: those of a whole parameter, as it is now. */
#include "server/core/requests/pull_to_room.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "server/core/requests/service_state.h"

/* All of the present version, as it is, into room that the device writes to by itself: nothing of
 * it comes to the host. Whatever else is asked for is made there. */
static bool goes_to_room(const struct ps_parameter *parameter,
                         const struct ps_pull_request *request, uint64_t wanted)
{
    const struct ps_parameter_spec *spec = parameter->spec;
    PS_ASSERT(spec->count > 0);
    PS_ASSERT(request->room != NULL || request->room_size == 0);
    return request->room != NULL && ps_parameter_on_device(parameter) && wanted == 0 &&
           !request->held.present && request->range.first == 0 && request->range.count == 0 &&
           ps_encoding_is_native(request->encoding, spec->dtype) &&
           request->room_size >= ps_parameter_spec_bytes(spec);
}

/* One step: the copy is queued or it is not. Whoever waits for it holds no lock meanwhile, and the
 * caller's room is held by whoever has opened it. */
enum ps_status ps_pull_to_room(struct ps_parameter *parameter,
                               const struct ps_pull_request *request, uint64_t wanted,
                               struct ps_parameter_spec **copied, uint64_t *version,
                               struct ps_device_due *ready, struct ps_error *error)
{
    PS_ASSERT(ready->gather == 0 && parameter->spec != NULL);
    *copied = NULL;
    if (!goes_to_room(parameter, request, wanted))
        return PS_OK;
    PS_TRY(ps_parameter_copy_out(parameter, request->room, version, ready, error));
    *copied = ps_parameter_spec_acquire(parameter->spec);
    return PS_OK;
}

/* Takes `spec`. The content is where the caller wants it: only its size is told. */
void ps_pull_give_room(struct ps_parameter_spec *spec, enum ps_encoding encoding,
                       struct ps_pull *pull)
{
    PS_ASSERT(spec != NULL && ps_encoding_is_native(encoding, spec->dtype));
    *pull = (struct ps_pull){.reply = {.name = spec->name,
                                       .dtype = spec->dtype,
                                       .shared_size = ps_parameter_spec_bytes(spec),
                                       .encoding = encoding},
                             .spec = spec};
}
