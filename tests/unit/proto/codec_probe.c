/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes messages and encodes them again, for the interoperability test: one message per line of
 * standard input, "kind hex", one line out, hex or "refused STATUS". The message is cut into
 * pieces of the size that the only argument says. */
#include "proto/applied_codec.h"
#include "proto/codec.h"
#include "proto/optimizer_config.h"

#include "base/bounds.h"
#include "pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES_MAX = 1 << 20 };

static void append_view(struct ps_buffer *buffer, struct ps_view view)
{
    for (size_t i = 0; i < view.piece_count; i++)
        ps_buffer_append(buffer, view.pieces[i]);
}

static enum ps_status echo_init(struct ps_view view, struct ps_buffer *out)
{
    struct ps_init_request message;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_init(view, ps_allocator_heap(), &message, &decoded, NULL));
    ps_encode_init(&message, out);
    append_view(out, message.content);
    ps_decoded_release(&decoded);
    return PS_OK;
}

static enum ps_status echo_push(struct ps_view view, struct ps_buffer *out)
{
    struct ps_push_request message;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_push(view, ps_allocator_heap(), &message, &decoded, NULL));
    ps_encode_push(&message, out);
    append_view(out, message.content);
    ps_decoded_release(&decoded);
    return PS_OK;
}

static enum ps_status echo_pull_reply(struct ps_view view, struct ps_buffer *out)
{
    struct ps_pull_reply message;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_pull_reply(view, ps_allocator_heap(), &message, &decoded, NULL));
    ps_encode_pull_reply(&message, out);
    append_view(out, message.content);
    ps_decoded_release(&decoded);
    return PS_OK;
}

static enum ps_status echo_pull(struct ps_view view, struct ps_buffer *out)
{
    struct ps_pull_request message;
    struct ps_decoded decoded;
    PS_TRY(ps_decode_pull(view, ps_allocator_heap(), &message, &decoded, NULL));
    ps_encode_pull(&message, out);
    append_view(out, message.keys);
    ps_decoded_release(&decoded);
    return PS_OK;
}

static enum ps_status echo_push_reply(struct ps_view view, struct ps_buffer *out)
{
    struct ps_push_reply message;
    PS_TRY(ps_decode_push_reply(view, ps_allocator_heap(), &message, NULL));
    ps_encode_push_reply(&message, out);
    return PS_OK;
}

static enum ps_status echo_init_reply(struct ps_view view, struct ps_buffer *out)
{
    struct ps_init_reply message;
    PS_TRY(ps_decode_init_reply(view, ps_allocator_heap(), &message, NULL));
    ps_encode_init_reply(&message, out);
    return PS_OK;
}

/* Messages that are decoded into a struct of their own and have no content. */
#define ECHO(name, type)                                                               \
    static enum ps_status echo_##name(struct ps_view view, struct ps_buffer *out)      \
    {                                                                                  \
        struct type message;                                                           \
        struct ps_decoded decoded;                                                     \
        PS_TRY(ps_decode_##name(view, ps_allocator_heap(), &message, &decoded, NULL)); \
        ps_encode_##name(&message, out);                                               \
        ps_decoded_release(&decoded);                                                  \
        return PS_OK;                                                                  \
    }
ECHO(finish, ps_finish_request)
ECHO(list, ps_list_request)
ECHO(list_reply, ps_list_reply)
ECHO(status_reply, ps_status_reply)
ECHO(save_reply, ps_save_reply)
#undef ECHO

static enum ps_status echo_drain(struct ps_view view, struct ps_buffer *out)
{
    struct ps_drain_request message;
    PS_TRY(ps_decode_drain(view, &message, NULL));
    ps_encode_drain(&message, out);
    return PS_OK;
}

static enum ps_status echo_applied(struct ps_view view, struct ps_buffer *out)
{
    struct ps_applied_texts texts;
    struct ps_applied_request message;
    PS_TRY(ps_decode_applied(view, &texts, &message, NULL));
    ps_encode_applied(&message, out);
    return PS_OK;
}

/* Each row goes on at once, since its name does not stay. */
static enum ps_status echo_row(void *self, const struct ps_applied_row *row, struct ps_error *error)
{
    const struct ps_applied_reply reply = {.rows = row, .row_count = 1};
    (void)error;
    ps_encode_applied_reply(&reply, self);
    return PS_OK;
}

static enum ps_status echo_applied_reply(struct ps_view view, struct ps_buffer *out)
{
    struct ps_applied_reply reply;
    PS_TRY(ps_decode_applied_reply(view, echo_row, out, &reply, NULL));
    reply.row_count = 0;
    ps_encode_applied_reply(&reply, out);
    return PS_OK;
}

static enum ps_status echo_save(struct ps_view view, struct ps_buffer *out)
{
    struct ps_save_request message;
    PS_TRY(ps_decode_save(view, &message, NULL));
    ps_encode_save(&message, out);
    return PS_OK;
}

static enum ps_status echo_config(struct ps_view view, struct ps_buffer *out)
{
    struct ps_optimizer_config config;
    uint8_t *bytes = malloc(view.size + 1);
    if (bytes == NULL)
        return PS_ERR_NO_MEMORY;
    ps_view_copy(view, 0, bytes, view.size);
    enum ps_status status = ps_optimizer_config_decode((struct ps_bytes){bytes, view.size},
                                                       ps_allocator_heap(), &config, NULL);
    free(bytes);
    if (status == PS_OK)
        ps_optimizer_config_encode(&config, out);
    return status;
}

static const struct {
    const char *kind;
    enum ps_status (*echo)(struct ps_view view, struct ps_buffer *out);
} kinds[] = {
    {"InitParamRequest", echo_init},
    {"FinishInitParamsRequest", echo_finish},
    {"SendGradRequest", echo_push},
    {"SendGradResponse", echo_push_reply},
    {"GetParamRequest", echo_pull},
    {"GetParamResponse", echo_pull_reply},
    {"ListParamsRequest", echo_list},
    {"ListParamsResponse", echo_list_reply},
    {"GetStatusResponse", echo_status_reply},
    {"SaveCheckpointResponse", echo_save_reply},
    {"OptimizerConfig", echo_config},
    {"InitParamResponse", echo_init_reply},
    {"DrainRequest", echo_drain},
    {"SaveCheckpointRequest", echo_save},
    {"LastAppliedRequest", echo_applied},
    {"LastAppliedResponse", echo_applied_reply},
};

static size_t from_hex(const char *hex, uint8_t *bytes)
{
    size_t size = 0;
    for (; hex[0] != '\0' && hex[1] != '\0'; hex += 2) {
        const char digits[] = {hex[0], hex[1], '\0'};
        bytes[size++] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return size;
}

static void print_hex(const struct ps_buffer *out)
{
    for (size_t i = 0; i < out->size; i++)
        printf("%02x", (unsigned)(uint8_t)out->text[i]);
    printf("\n");
}

static bool echo_line(char *line, size_t piece_bytes, struct ps_random *random, uint8_t *bytes)
{
    line[strcspn(line, "\n")] = '\0';
    char *hex = strchr(line, ' ');
    if (hex == NULL)
        return false;
    *hex++ = '\0';
    struct pieces pieces;
    pieces_cut(&pieces, (struct ps_bytes){bytes, from_hex(hex, bytes)}, piece_bytes, random);
    struct ps_buffer out;
    ps_buffer_init(&out, ps_allocator_heap(), LINE_BYTES_MAX);
    enum ps_status status = PS_ERR_NOT_FOUND;
    for (size_t i = 0; i < PS_ARRAY_COUNT(kinds); i++) {
        if (strcmp(kinds[i].kind, line) == 0)
            status = kinds[i].echo(pieces.view, &out);
    }
    if (status == PS_OK && !out.failed)
        print_hex(&out);
    else
        printf("refused %s\n", ps_status_word(status));
    ps_buffer_fini(&out);
    pieces_release(&pieces);
    return true;
}

int main(int argc, char **argv)
{
    size_t piece_bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    char *line = malloc(LINE_BYTES_MAX);
    uint8_t *bytes = malloc(LINE_BYTES_MAX);
    struct ps_random random;
    ps_random_init(&random, piece_bytes);
    bool going = line != NULL && bytes != NULL;
    while (going && fgets(line, LINE_BYTES_MAX, stdin) != NULL)
        going = echo_line(line, piece_bytes, &random, bytes);
    free(line);
    free(bytes);
    return going ? EXIT_SUCCESS : EXIT_FAILURE;
}
