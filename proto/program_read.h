/* SPDX-License-Identifier: Apache-2.0 */
/* The parts from which the codec of programs reads its messages. Private to proto/.
 *
 * Threads:  pure but for the arena.
 * Blocking: never.
 * Errors:   in the reader's status; PS_ERR_NO_MEMORY where it is said.
 * Memory:   lists live in the arena, bytes where they lie or in the arena.
 */
#ifndef PS_PROTO_PROGRAM_READ_H
#define PS_PROTO_PROGRAM_READ_H

#include "proto/arena.h"
#include "proto/program_codec.h"
#include "proto/wire.h"

/* Numbers of the fields that several messages share, as in programs.proto. */
enum ps_program_field {
    PS_PROGRAM_SHARED_SIZE = 3,
    PS_PROGRAM_TOKEN = 7,
    PS_PROGRAM_SHARD = 11,
    PS_PROGRAM_SHARED = 12,
    PS_PROGRAM_ROOM = 13,
    PS_PROGRAM_WAIT_MS = 14,
    PS_PROGRAM_TIMESTAMP = 15,
    PS_PROGRAM_HOST = 16,
    PS_PROGRAM_STAMPS = 17,
    PS_PROGRAM_TENSORS = 18,
    PS_PROGRAM_OUTPUTS = 19,
    PS_PROGRAM_BODY = 20,
    PS_PROGRAM_LENS = 21,
    PS_PROGRAM_KEYS = 22,
    PS_PROGRAM_CONTENT = 23,
    PS_PROGRAM_ANSWERS = 24,
    PS_PROGRAM_EPOCH = 25
};

/* The numbers of the others, message by message, in the order of the .proto. */
enum {
    PS_ASK_APP = 1,
    PS_ASK_WORKER,
    PS_ASK_CUSTOMER,
    PS_ASK_KIND,
    PS_ASK_COMMAND,
    PS_ASK_PRIORITY
};
enum { PS_ASK_SENDER = 8, PS_ASK_ORDER, PS_ASK_ORDER_FROM };
enum { PS_REPLY_HANDLE = 1, PS_REPLY_KEPT };
enum { PS_TAKE_TAKER = 2, PS_TAKE_TURN, PS_TAKE_WORKERS, PS_TAKE_MAX, PS_TAKE_PARTIAL };
enum { PS_TAKE_WAIT_MS = 7, PS_TAKE_AGAIN, PS_TAKE_LEASE_MS, PS_TAKE_TOUCH };
enum { PS_TAKE_LEAVE = 14, PS_TAKE_NAME };
enum { PS_TAKEN_HANDLE = 1, PS_TAKEN_AGAIN = 7, PS_TAKE_REPLY_TAKEN = 4 };
enum { PS_ANSWERED_HANDLE = 1, PS_ANSWERED_STATUS, PS_ANSWERED_TEXT, PS_ANSWERED_PARTS };
enum { PS_PART_TENSOR = 1, PS_PART_ROW_BEGIN, PS_PART_ROWS, PS_PART_KEY };
enum { PS_ANSWER_REPLY_STATUS = 1 };
enum { PS_APP_ID = 1, PS_APP_WAITING, PS_APP_TAKEN, PS_APP_BYTES, PS_APP_ANSWERED, PS_APP_FAILED };
enum { PS_APP_TAKERS = 7, PS_APPS_APP = 1, PS_APPS_EPOCH };
enum { PS_TAKER_ID = 1, PS_TAKER_NAME, PS_TAKER_HEARD_MS, PS_TAKER_TAKEN, PS_TAKER_AGAIN };
enum { PS_TENSOR_KEY = 1, PS_TENSOR_SIZE, PS_TENSOR_DTYPE = 5, PS_TENSOR_ELEMENT_SIZE };
enum { PS_TENSOR_SHAPE = 7 };

/* One number of a message, and where it goes: so that a message with many of them is a list, and
 * each has its bound and its name for people once. */
struct ps_program_number {
    uint32_t field;
    uint32_t size; /* bytes of the place: 8, 4, or 1 of a bool */
    size_t offset; /* in the struct */
    const char *name;
};
#define PS_PROGRAM_NUMBER(type, member, field)                                      \
    {                                                                               \
        field, (uint32_t)sizeof((type *)0)->member, offsetof(type, member), #member \
    }

/* False: the field is none of the list's. */
bool ps_program_read_number(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                            const struct ps_program_number *numbers, size_t count, void *object);

/* The arena and the reader of a message; finish gives the arena's blocks to what was decoded, or
 * back. */
void ps_program_open(struct ps_view bytes, const struct ps_allocator *memory,
                     struct ps_arena *arena, struct ps_wire_reader *reader, struct ps_error *error);
PS_MUST_USE enum ps_status ps_program_finish(enum ps_status status, struct ps_arena *arena,
                                             struct ps_decoded *decoded);

/* What a payload is found as: lists in the arena, bytes where they lie. */
struct ps_program_found {
    struct ps_program_tensor *tensors, *outputs;
    size_t tensor_count, output_count;
    uint64_t content_size; /* that the tensors add up to */
    struct ps_wire_range body, lens, keys, content;
};

/* How often a field is there, up to `count_max`: more are refused. */
size_t ps_program_count(struct ps_wire_reader reader, uint32_t number, size_t count_max,
                        const char *what, enum ps_status *status);

/* `count` elements of `size` bytes each, zeroed. NULL for none. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_program_list(struct ps_arena *arena, size_t count, size_t size,
                                           void *list, struct ps_error *error);

/* Makes the lists of a message that is about to be read, as long as its fields need. */
PS_MUST_USE enum ps_status ps_payload_begin(const struct ps_wire_reader *reader,
                                            struct ps_arena *arena, struct ps_program_found *found);

/* False: the field is none of a payload's. */
bool ps_program_read_payload(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                             struct ps_program_found *found);

/* False: the field is none of the facts of a request, which are the same in Ask and in Taken; the
 * app's is neither's. */
bool ps_program_read_asked(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                           struct ps_program_asked *asked);

void ps_program_read_stamps(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                            struct ps_program_stamps *stamps);

/* Bytes in one piece: where they lie, or copied. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_program_bytes(const struct ps_wire_range *range,
                                            struct ps_arena *arena, struct ps_bytes *bytes,
                                            struct ps_error *error);

/* A view of the content's slices. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_program_view(const struct ps_wire_range *range,
                                           struct ps_arena *arena, struct ps_view *view,
                                           struct ps_error *error);

/* Longest word of a status. */
#define PS_PROGRAM_WORD_BYTES_MAX 32

/* What a word says; at most PS_PROGRAM_WORD_BYTES_MAX bytes. One that this program does not know is
 * a newer one's: it failed, for whatever reason. */
enum ps_status ps_program_status_of(const struct ps_wire_range *word);

/* What was found, but for the content. Checks that keys and lengths are whole numbers. */
PS_MUST_USE enum ps_status ps_program_keep(const struct ps_wire_reader *reader,
                                           const struct ps_program_found *found,
                                           struct ps_arena *arena,
                                           struct ps_program_payload *payload);

#endif
