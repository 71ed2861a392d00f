/* Base64 (RFC 4648, with padding): how etcd's JSON carries keys and values.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   false for text that is no base64.
 * Memory:   in buffers of the caller's.
 */
#ifndef PS_ETCD_ETCD_BASE64_H
#define PS_ETCD_ETCD_BASE64_H

#include "base/buffer.h"
#include "base/bytes.h"

/* Appends the encoded bytes. */
void ps_etcd_base64_encode(struct ps_buffer *buffer, struct ps_bytes bytes);

/* Bytes that `text_size` characters can decode to, at most. */
size_t ps_etcd_base64_decoded_max(size_t text_size);

/* Decodes to `bytes`, which has room for ps_etcd_base64_decoded_max. Only the canonical form:
 * padded, unused bits 0, no spaces. */
PS_MUST_USE bool ps_etcd_base64_decode(struct ps_bytes text, uint8_t *bytes, size_t *size);

#endif
