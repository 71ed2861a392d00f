/* SPDX-License-Identifier: Apache-2.0 */
/* What tells two requests apart that carry the same request id: 16 bits of what the request is
 * about, 16 of what it holds. A client that uses an id again for something else (a fixed client id
 * whose session begins at 1 in each run) is found out by them, but for one in 65,536.
 *
 * Bits of 0 are not known, and agree with any: those of the content of a push in ranges that nobody
 * kept, and of records from before there were fingerprints.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_FINGERPRINT_H
#define PS_SERVER_CORE_FINGERPRINT_H

#include "proto/messages.h"

/* Of a push of the whole gradient. `content` may be empty: not known. */
uint32_t ps_fingerprint_of_push(const struct ps_push_request *request, struct ps_view content);

/* Of a parameter's initialisation, whose content is empty when only a range of it is there; and of
 * the end of initialising. */
uint32_t ps_fingerprint_of_init(const struct ps_init_request *request, struct ps_view content);
uint32_t ps_fingerprint_of_finish(void);

/* Of a parameter's definition, as of its initialisation; of a change, whose bytes are empty where a
 * parameter is dropped. */
uint32_t ps_fingerprint_of_define(const struct ps_init_request *request, struct ps_view content);
uint32_t ps_fingerprint_of_change(const struct ps_change_request *request, bool drops);

/* Of clocks that are set, or of a worker's clock; `said` are the settings, or the clock. */
uint32_t ps_fingerprint_of_clocks(struct ps_bytes name, struct ps_bytes said, bool sets);

/* May both be of one request? */
bool ps_fingerprint_agrees(uint32_t one, uint32_t other);

#endif
