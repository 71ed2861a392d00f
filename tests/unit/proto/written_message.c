/* SPDX-License-Identifier: Apache-2.0 */
/* One message at a time. */
#include "written_message.h"

struct ps_buffer message;
struct ps_decoded decoded;
struct ps_error error;

void message_begin(void)
{
    ps_buffer_init(&message, ps_allocator_heap(), 1 << 20);
}

void message_end(void)
{
    ps_decoded_release(&decoded);
    ps_buffer_fini(&message);
}

struct ps_bytes message_bytes(void)
{
    return (struct ps_bytes){(const uint8_t *)message.text, message.size};
}
