/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of programs.proto as plain structs.
 *
 * A message has small fields first and its bulk last: keys, then the content of all tensors, one
 * behind another. Keys and lengths are packed little-endian numbers and are passed on as bytes.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   every pointer is borrowed from the bytes that were decoded, or will be encoded.
 */
#ifndef PS_PROTO_PROGRAM_MESSAGES_H
#define PS_PROTO_PROGRAM_MESSAGES_H

#include "base/bytes.h"
#include "base/status.h"
#include "proto/messages.h"
#include "proto/rendezvous_messages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most tensors of one message, and most that it wants; most parts of an answer. */
#define PS_PROGRAM_TENSORS_MAX 4096

/* Most requests of one Take, and most answers of one Answer. */
#define PS_PROGRAM_TAKEN_MAX 1024

/* Most workers that a gang has. */
#define PS_PROGRAM_WORKERS_MAX 1024

#define PS_PROGRAM_BODY_BYTES_MAX (1024 * 1024)
#define PS_PROGRAM_NAME_BYTES_MAX 64
#define PS_PROGRAM_TEXT_BYTES_MAX 199

/* An epoch that no life has: a request that names it is for the one that knows it by its token. */
#define PS_EPOCH_BY_TOKEN UINT64_MAX

/* Of a request: begun and sent by the worker, arrived, given to the program. Of an answer: arrived,
 * given to the program, answered, written. */
#define PS_PROGRAM_STAMPS_MAX 4

enum ps_ask_kind {
    PS_ASK_PUSH,
    PS_ASK_PULL,
    PS_ASK_PUSH_PULL,
    PS_ASK_SIMPLE,
    PS_ASK_BATCH,
    PS_ASK_KIND_COUNT
};

struct ps_program_tensor {
    uint64_t key;
    uint64_t size; /* bytes of its content; of one that is wanted: room, 0: any */
    struct ps_value_facts facts;
};

struct ps_program_stamps {
    uint64_t host;                      /* whose clock; 0: nobody said */
    uint64_t ns[PS_PROGRAM_STAMPS_MAX]; /* since 1970; what was not said is 0 */
};

/* What worker and program say to each other: in a request, in what is taken, in an answer. */
struct ps_program_payload {
    const struct ps_program_tensor *tensors; /* their sizes add up to the content */
    size_t tensor_count;
    const struct ps_program_tensor *outputs; /* that are wanted; of a request only */
    size_t output_count;
    struct ps_bytes body;
    struct ps_bytes lens; /* 4 bytes each */
    struct ps_bytes keys; /* 8 bytes each; of a request only */
    struct ps_view content;
};

/* Who asks what. */
struct ps_program_asked {
    uint32_t app, worker, customer;
    enum ps_ask_kind kind;
    int32_t command, priority;
    uint64_t timestamp;
    struct ps_program_stamps stamps;
};

struct ps_ask_request {
    struct ps_program_asked asked;
    struct ps_program_payload payload;
    uint64_t token;
    uint64_t sender, order, order_from;
    uint64_t epoch; /* that the client was told; 0: none */
    uint64_t wait_ms;
    uint32_t shard;
    struct ps_shared_range shared, room;
};

struct ps_ask_reply {
    uint64_t handle, epoch;
    bool kept;
    uint64_t shared_size;
    struct ps_program_stamps stamps;
    struct ps_program_payload payload;
};

struct ps_take_request {
    uint32_t app;
    uint64_t taker, turn;
    const uint32_t *workers;
    size_t worker_count;
    uint32_t max;
    bool partial, again, touch, leave;
    uint64_t wait_ms, lease_ms;
    uint32_t shard;
    struct ps_shared_range room;
    struct ps_bytes name;
};

/* One request of a Take's reply. */
struct ps_program_taken {
    uint64_t handle;
    bool again;
    struct ps_program_asked asked; /* without the app, which the Take has named */
    struct ps_program_payload payload;
};

/* Rows of one of the message's tensors. */
struct ps_answer_part {
    uint32_t tensor;
    uint64_t row_begin, rows; /* rows 0: all of the tensor */
    uint64_t key;
};

/* The answer to one request. */
struct ps_program_answered {
    uint64_t handle;
    enum ps_status status;
    struct ps_bytes text; /* of a failure */
    const struct ps_answer_part *parts;
    size_t part_count;
    struct ps_bytes body, lens;
};

struct ps_answer_request {
    uint32_t app;
    uint64_t taker, token;
    uint32_t shard;
    struct ps_shared_range shared;
    const struct ps_program_tensor *tensors; /* their sizes add up to the content */
    size_t tensor_count;
    const struct ps_program_answered *answers;
    size_t answer_count;
    struct ps_view content;
};

struct ps_app_taker {
    uint64_t taker; /* 0: a handler in the server's process */
    struct ps_bytes name;
    uint64_t heard_ms; /* ago */
    uint32_t taken;
    bool again;
};

struct ps_app_state {
    uint32_t app, waiting, taken;
    uint64_t bytes, answered, failed;
    const struct ps_app_taker *takers;
    size_t taker_count;
};

#endif
