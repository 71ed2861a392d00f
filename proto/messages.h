/* The messages of pserver.proto and admin.proto as plain structs of borrowed views. Everything
 * above floor 2 speaks in these; nobody outside proto/ sees protobuf-c.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   every pointer is borrowed from the bytes that were decoded (or that will be encoded).
 */
#ifndef PS_PROTO_MESSAGES_H
#define PS_PROTO_MESSAGES_H

#include "base/bytes.h"
#include "base/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One line per call: X(TAG, service, method). Paths are "/service/method". */
#define PS_METHOD_TABLE(X)                                                \
    X(PS_METHOD_INIT, "pserver.v1.ParameterServer", "InitParam")          \
    X(PS_METHOD_FINISH, "pserver.v1.ParameterServer", "FinishInitParams") \
    X(PS_METHOD_PUSH, "pserver.v1.ParameterServer", "SendGrad")           \
    X(PS_METHOD_PULL, "pserver.v1.ParameterServer", "GetParam")           \
    X(PS_METHOD_STATUS, "pserver.v1.Admin", "GetStatus")                  \
    X(PS_METHOD_LIST, "pserver.v1.Admin", "ListParams")                   \
    X(PS_METHOD_SAVE, "pserver.v1.Admin", "SaveCheckpoint")

#define PS_METHOD_ENUM(TAG, service, method) TAG,
enum ps_method { PS_METHOD_TABLE(PS_METHOD_ENUM) PS_METHOD_COUNT };
#undef PS_METHOD_ENUM

/* "/pserver.v1.ParameterServer/SendGrad" ... Static. */
const char *ps_method_path(enum ps_method method);

enum ps_ack { PS_ACK_DEFAULT, PS_ACK_MEMORY, PS_ACK_LOGGED, PS_ACK_REPLICATED };

struct ps_request_id {
    bool present;
    struct ps_bytes client_id;
    uint64_t session;
    uint64_t sequence;
};

struct ps_init_request {
    struct ps_bytes name;
    enum ps_dtype dtype;
    struct ps_view content;
    struct ps_bytes config;
    uint32_t shard; /* 1 + index of the server it is meant for; 0: not said */
    struct ps_request_id request;
};

struct ps_init_reply {
    uint64_t epoch; /* 0: of a server that does not say */
};

struct ps_finish_request {
    uint64_t epoch; /* under which the parameters were taken; 0: not checked */
    uint32_t shard; /* as of an init */
    struct ps_request_id request;
};

struct ps_push_request {
    struct ps_bytes name;
    enum ps_dtype dtype;
    struct ps_view content;
    enum ps_ack ack;
    uint32_t shard; /* as of an init */
    struct ps_request_id request;
    struct ps_hold hold; /* of the content; not on the wire */
};

struct ps_push_reply {
    uint64_t version;
    bool duplicate;
    uint64_t position;         /* of this push in the life of the shard */
    uint64_t durable_position; /* pushes up to here survive a crash */
};

struct ps_pull_request {
    struct ps_bytes name;
    uint32_t shard; /* as of an init */
};

struct ps_pull_reply {
    struct ps_bytes name;
    enum ps_dtype dtype;
    struct ps_view content;
    uint64_t version;
};

struct ps_status_reply {
    const char *program_version;
    uint32_t index;
    uint32_t shard_count;
    uint64_t epoch;
    const char *state;
    uint64_t parameter_count;
    uint64_t parameter_bytes;
    uint64_t state_bytes;
    uint64_t push_count;
    uint64_t pull_count;
    uint64_t position;
    const char *checkpoint_uuid;
    uint64_t checkpoint_position;
    uint64_t checkpoint_unix_ns;
    uint64_t uptime_ms;
    const char *device;
    const char *job;
    const char *address;
};

struct ps_list_request {
    struct ps_bytes after;
    uint32_t limit;
};

struct ps_param_info {
    struct ps_bytes name;
    enum ps_dtype dtype;
    uint64_t element_count;
    uint64_t version;
    const char *rule;
    double learning_rate;
    uint64_t state_bytes;
};

struct ps_list_reply {
    const struct ps_param_info *params;
    size_t param_count;
    bool more;
};

struct ps_save_reply {
    const char *uuid;
    const char *path;
    uint64_t position;
    uint64_t bytes;
};

#endif
