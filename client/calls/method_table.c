/* SPDX-License-Identifier: Apache-2.0 */
/* The table of methods. A method that is added gets its row here and a member in call.h; a method
 * of PS_ASKED_TABLE needs neither.
 *
 * The rows stand in the place of a switch in each file that treats methods differently: the engine
 * asks what a method may do (is it repeated at will, does it carry an id), the channel how its
 * bytes are made. Neither can forget a method, because a row without a mark has the careful answer:
 * it changes something, and is not numbered. */
#include "client/calls/method_table.h"

#include "base/assert.h"
#include "proto/bundle_codec.h"
#include "proto/change_codec.h"
#include "proto/clock_codec.h"
#include "proto/program_codec.h"
#include "proto/rendezvous_codec.h"

/* A row's functions know which member of request and reply is theirs. */
#define ENCODER(member)                                                                        \
    static void encode_##member(const struct ps_call_request *request, struct ps_buffer *head) \
    {                                                                                          \
        ps_encode_##member(&request->member, head);                                            \
    }
ENCODER(init)
ENCODER(finish)
ENCODER(change)
ENCODER(set_clocks)
ENCODER(clock)
ENCODER(push)
ENCODER(pull)
ENCODER(since)
ENCODER(list)
ENCODER(save)
#undef ENCODER

/* Replies without lists need no memory that outlives the decoding. */
#define DECODER(member)                                                                            \
    static enum ps_status decode_##member(struct ps_view bytes, const struct ps_allocator *memory, \
                                          struct ps_call_reply *reply, struct ps_decoded *decoded, \
                                          struct ps_error *error)                                  \
    {                                                                                              \
        (void)decoded;                                                                             \
        return ps_decode_##member##_reply(bytes, memory, &reply->member, error);                   \
    }
DECODER(init)
DECODER(push)
#undef DECODER

/* The others borrow from `decoded`. */
#define DECODER(member, codec)                                                                     \
    static enum ps_status decode_##member(struct ps_view bytes, const struct ps_allocator *memory, \
                                          struct ps_call_reply *reply, struct ps_decoded *decoded, \
                                          struct ps_error *error)                                  \
    {                                                                                              \
        return ps_decode_##codec##_reply(bytes, memory, &reply->member, decoded, error);           \
    }
DECODER(pull, pull)
DECODER(since, bundle)
DECODER(status, status)
DECODER(list, list)
DECODER(change, change)
DECODER(save, save)
#undef DECODER

/* Numbers alone, which need no memory at all: what both calls are answered with is one message,
 * of which the caller reads what it has asked for. */
static enum ps_status decode_clocks(struct ps_view bytes, const struct ps_allocator *memory,
                                    struct ps_call_reply *reply, struct ps_decoded *decoded,
                                    struct ps_error *error)
{
    (void)memory;
    (void)decoded;
    return ps_decode_clocks_reply(bytes, &reply->clocks, error);
}

/* Asked calls: nobody but who asked looks inside. */
static void encode_ask(const struct ps_call_request *request, struct ps_buffer *head)
{
    ps_buffer_append(head, request->ask);
}

/* How the content goes, in the message or in shared memory, is known only when the message leaves:
 * the asker has written all but that. */
static void encode_send_tensor(const struct ps_call_request *request, struct ps_buffer *head)
{
    PS_ASSERT(request->ask_room == 0);
    ps_buffer_append(head, request->ask);
    ps_encode_sent_content(request->ask_content.size, &request->ask_shared, head);
}

/* Room for what comes is told like the place of what goes. */
static void encode_recv_tensors(const struct ps_call_request *request, struct ps_buffer *head)
{
    PS_ASSERT(request->ask_content.size == 0);
    ps_buffer_append(head, request->ask);
    ps_encode_receive_room(&request->ask_room_shared, head);
}

/* Requests to programs and their answers have content, and a request has room for that of its
 * answer besides. */
static void encode_program(const struct ps_call_request *request, struct ps_buffer *head)
{
    ps_buffer_append(head, request->ask);
    ps_encode_program_epoch(request->ask_epoch, head);
    ps_encode_program_places(request->ask_content.size, &request->ask_shared,
                             &request->ask_room_shared, head);
}

static enum ps_status decode_ask(struct ps_view bytes, const struct ps_allocator *memory,
                                 struct ps_call_reply *reply, struct ps_decoded *decoded,
                                 struct ps_error *error)
{
    (void)memory;
    (void)decoded;
    (void)error;
    reply->ask = bytes;
    reply->ask_room = (struct ps_bytes){NULL, 0};
    return PS_OK;
}

/* A method whose calls always go alone. */
#define NO_BUNDLE PS_METHOD_COUNT

/* Offsets and not functions: id and shard are written into a request just before it is sent, in one
 * loop for all methods. */
#define AT(member) offsetof(struct ps_call_request, member)

static const struct ps_method_row rows[PS_METHOD_COUNT] = {
    [PS_METHOD_INIT] = {.numbered = true,
                        .names_parameter = true,
                        .id_at = AT(init.request),
                        .shard_at = {AT(init.shard)},
                        .bundle = NO_BUNDLE,
                        .encode = encode_init,
                        .decode = decode_init},
    /* Numbered: a repeat of a finish whose answer was lost gets that answer once more. */
    [PS_METHOD_FINISH] = {.numbered = true,
                          .id_at = AT(finish.request),
                          .shard_at = {AT(finish.shard)},
                          .bundle = NO_BUNDLE,
                          .encode = encode_finish},
    /* The row that exactly once rests on: numbered, and so never repeated but under its id. */
    [PS_METHOD_PUSH] = {.numbered = true,
                        .once = true,
                        .pushes = true,
                        .names_parameter = true,
                        .id_at = AT(push.request),
                        .shard_at = {AT(push.shard)},
                        .bundle = PS_METHOD_PUSHES,
                        .encode = encode_push,
                        .decode = decode_push},
    /* Changes of the table of parameters: durable before they are answered, as pushes are. The last
     * two go to the servers that have listed the parameter: where a parameter is whose size nobody
     * says, its name does not tell. */
    [PS_METHOD_DEFINE] = {.numbered = true,
                          .once = true,
                          .names_parameter = true,
                          .id_at = AT(init.request),
                          .shard_at = {AT(init.shard)},
                          .bundle = NO_BUNDLE,
                          .encode = encode_init,
                          .decode = decode_init},
    [PS_METHOD_DROP] = {.numbered = true,
                        .once = true,
                        .id_at = AT(change.request),
                        .shard_at = {AT(change.shard)},
                        .bundle = NO_BUNDLE,
                        .encode = encode_change,
                        .decode = decode_change},
    [PS_METHOD_CONFIGURE] = {.numbered = true,
                             .once = true,
                             .id_at = AT(change.request),
                             .shard_at = {AT(change.shard)},
                             .bundle = NO_BUNDLE,
                             .encode = encode_change,
                             .decode = decode_change},
    /* To every server: each has clocks of its own. Numbered, so that a repeat after a lost answer
     * is told from a later word of the same worker, and one of a process that another has taken the
     * place of is refused. */
    [PS_METHOD_SET_CLOCKS] = {.numbered = true,
                              .once = true,
                              .id_at = AT(set_clocks.request),
                              .shard_at = {AT(set_clocks.shard)},
                              .bundle = NO_BUNDLE,
                              .encode = encode_set_clocks,
                              .decode = decode_clocks},
    [PS_METHOD_CLOCK] = {.numbered = true,
                         .once = true,
                         .id_at = AT(clock.request),
                         .shard_at = {AT(clock.shard)},
                         .bundle = NO_BUNDLE,
                         .encode = encode_clock,
                         .decode = decode_clocks},
    [PS_METHOD_PULL] = {.reads = true,
                        .pulls = true,
                        .names_parameter = true,
                        .shard_at = {AT(pull.shard)},
                        .bundle = PS_METHOD_PULLS,
                        .encode = encode_pull,
                        .decode = decode_pull},
    /* Never requests of their own: they carry those above, each with an id of its own. */
    [PS_METHOD_PUSHES] = {.numbered = true, .once = true, .pushes = true, .bundle = NO_BUNDLE},
    [PS_METHOD_PULLS] = {.reads = true, .pulls = true, .bundle = NO_BUNDLE},
    /* Both halves say for which shard they are meant. There is no plain message: even a single one
     * travels as a bundle of one. */
    [PS_METHOD_PUSH_PULL] = {.numbered = true,
                             .once = true,
                             .pushes = true,
                             .pulls = true,
                             .names_parameter = true,
                             .id_at = AT(push_pull.push.request),
                             .shard_at = {AT(push_pull.push.shard), AT(push_pull.pull.shard)},
                             .bundle = PS_METHOD_PUSH_PULL},
    [PS_METHOD_SINCE] = {.reads = true,
                         .shard_at = {AT(since.shard)},
                         .bundle = NO_BUNDLE,
                         .encode = encode_since,
                         .decode = decode_since},
    [PS_METHOD_STATUS] = {.reads = true, .bundle = NO_BUNDLE, .decode = decode_status},
    [PS_METHOD_LIST] = {.reads = true,
                        .bundle = NO_BUNDLE,
                        .encode = encode_list,
                        .decode = decode_list},
    /* Neither reading nor numbered: a repeat asks for another checkpoint, which does no harm. */
    [PS_METHOD_SAVE] = {.bundle = NO_BUNDLE, .encode = encode_save, .decode = decode_save},
#define ASKED_ROW(TAG, service, name) \
    [TAG] = {.is_asked = true, .bundle = NO_BUNDLE, .encode = encode_ask, .decode = decode_ask},
    PS_ASKED_TABLE(ASKED_ROW)
#undef ASKED_ROW
/* Calls of the public service whose messages travel as bytes, too. All may be repeated at will: a
 * barrier's repeats have one token, as those of a value that is sent, those of a receive one id,
 * those of an initialisation the number of their client, and one of LastApplied begins another
 * session, which ends one that nothing was sent under. */
#define OWN_ROW_BY(TAG, encoder)              \
    [TAG] = {.is_asked = true,                \
             .shares = encoder != encode_ask, \
             .reads = true,                   \
             .bundle = NO_BUNDLE,             \
             .encode = encoder,               \
             .decode = decode_ask},
#define OWN_ROW(TAG) OWN_ROW_BY(TAG, encode_ask)
        OWN_ROW(PS_METHOD_BARRIER) OWN_ROW(PS_METHOD_APPLIED) OWN_ROW(PS_METHOD_CLUSTER)
            OWN_ROW(PS_METHOD_BEGIN_INIT) OWN_ROW(PS_METHOD_END_INIT) OWN_ROW(PS_METHOD_JOIN)
                OWN_ROW(PS_METHOD_LEAVE) OWN_ROW(PS_METHOD_WORKERS) OWN_ROW(PS_METHOD_PROGRESS)
                    OWN_ROW_BY(PS_METHOD_SEND_TENSOR, encode_send_tensor)
                        OWN_ROW_BY(PS_METHOD_RECV_TENSORS, encode_recv_tensors)
                            OWN_ROW(PS_METHOD_STEP) OWN_ROW_BY(PS_METHOD_ASK, encode_program)
                                OWN_ROW_BY(PS_METHOD_TAKE, encode_program)
                                    OWN_ROW_BY(PS_METHOD_ANSWER, encode_program)
                                        OWN_ROW(PS_METHOD_APPS)
#undef OWN_ROW
#undef OWN_ROW_BY
};

#undef AT

/* The method comes from our own structs, never from the network. */
const struct ps_method_row *ps_method_row(enum ps_method method)
{
    PS_ASSERT(method < PS_METHOD_COUNT);
    return &rows[method];
}

/* The method is the first member of every request, so no field of a call lies at 0. */
static void *field_at(struct ps_call_request *request, size_t at)
{
    PS_ASSERT(at < sizeof *request);
    return at == 0 ? NULL : (uint8_t *)request + at;
}

/* For the engine, which gives a call its number when it is sent for the first time. */
struct ps_request_id *ps_call_request_id(struct ps_call_request *request)
{
    return field_at(request, ps_method_row(request->method)->id_at);
}

/* On the network shards are counted from 1: 0 is a request that does not say which. */
void ps_call_name_shard(struct ps_call_request *request, uint32_t shard)
{
    const struct ps_method_row *row = ps_method_row(request->method);
    for (size_t i = 0; i < PS_ARRAY_COUNT(row->shard_at); i++) {
        uint32_t *field = field_at(request, row->shard_at[i]);
        if (field != NULL)
            *field = shard + 1;
    }
}
