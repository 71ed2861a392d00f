/* SPDX-License-Identifier: Apache-2.0 */
/* Under which client id and session the requests to a shard go: a random id, or one that the caller
 * has chosen so that a later process finds what this one has done.
 *
 * Threads:  one at a time, with the engine.
 * Blocking: never.
 * Errors:   each function lists its own.
 * Memory:   in place.
 */
#ifndef PS_CLIENT_ENGINE_SESSION_H
#define PS_CLIENT_ENGINE_SESSION_H

#include "base/bounds.h"
#include "base/bytes.h"
#include "base/status.h"
#include "client/engine/engine.h"

struct ps_engine_call;

/* With the mark before it and the shard's number behind it the name is a client id. */
#define PS_CLIENT_NAME_BYTES_MAX 56

/* The client id for one shard. */
struct ps_shard_client {
    uint8_t id[PS_CLIENT_ID_BYTES_MAX];
    size_t size;
};

/* Is this a name that a caller may choose? PS_ERR_BAD_INPUT. */
PS_MUST_USE enum ps_status ps_client_name_check(const char *name, struct ps_error *error);

/* "@name#shard". */
void ps_client_name_id(const char *name, uint32_t shard, struct ps_shard_client *client);

/* Borrowed until the engine is destroyed. */
struct ps_bytes ps_engine_client_of(const struct ps_engine *engine, uint32_t shard);

/* The server has begun this session: requests go under it from now on. False: requests of another
 * session are under way, and nothing changed. */
bool ps_engine_adopt_session(struct ps_engine *engine, uint32_t shard, uint64_t session);

/* ---- For the engine's own files ---- */

void ps_engine_init_session(struct ps_engine *engine, uint32_t shard);

/* Says the status that another process has begun a later session of this client? The session was
 * one that the server had accepted. */
bool ps_engine_is_taken_over(const struct ps_engine *engine, struct ps_engine_call *call,
                             enum ps_status status);

/* A request of the session was applied. */
void ps_engine_confirm_session(struct ps_engine *engine, struct ps_engine_call *call);

void ps_engine_give_number_back(struct ps_engine *engine, struct ps_engine_call *call);
void ps_engine_renumber(struct ps_engine *engine, struct ps_engine_call *call);
void ps_engine_end_session(struct ps_engine *engine, struct ps_engine_call *call, uint64_t later);

#endif
