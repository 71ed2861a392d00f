/* SPDX-License-Identifier: Apache-2.0 */
/* Held and Delta: what a client says that it has, and what the server sends instead of everything.
 *
 * A chain (the shard's epoch and a random number) is 16 bytes on the wire, which nobody but the
 * server looks into: clients hand back what they were given. The server may therefore change its
 * meaning without a new version of the protocol. */
#include "proto/delta_codec.h"

/* A life of 0 is no chain, and an absent field says the same. */
static void put_chain(struct ps_buffer *to, uint32_t number, const struct ps_chain *chain)
{
    _Static_assert(sizeof *chain == 16, "no gaps");
    if (chain->life != 0)
        ps_wire_put_bytes(to, number, (struct ps_bytes){(const uint8_t *)chain, sizeof *chain});
}

/* Bytes of another length are from a server of another version. They are read as no chain, so the
 * client gets the whole parameter: the safe answer, where refusing would stop it. */
static void read_chain(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                       struct ps_chain *chain)
{
    /* Of any length: what is not a chain is read as none. */
    struct ps_wire_range range = ps_wire_bytes(reader, field, SIZE_MAX, "chain");
    *chain = (struct ps_chain){0};
    if (range.size == sizeof *chain)
        ps_wire_range_copy(&range, chain);
}

/* A nested message's length goes before it, so it is written into a buffer of its own first. */
static void put_nested(struct ps_buffer *head, uint32_t number, const struct ps_buffer *nested)
{
    ps_wire_put_head(head, number, nested->size);
    ps_buffer_append(head, (struct ps_bytes){(const uint8_t *)nested->text, nested->size});
    head->failed = head->failed || nested->failed;
}

/* An absent Held makes the request an ordinary pull; an empty one is a delta pull of a client that
 * has nothing yet. Presence is therefore a bool here and not "any field set". */
void ps_held_put(struct ps_buffer *head, uint32_t number, const struct ps_held *held)
{
    char text[PS_DELTA_HEAD_BYTES_MAX];
    struct ps_buffer nested;
    /* An ordinary pull does not mention it. */
    if (!held->present)
        return;
    ps_buffer_init_fixed(&nested, text, sizeof text);
    ps_wire_put_uint(&nested, 1, held->version);
    put_chain(&nested, 2, &held->chain);
    ps_wire_put_uint(&nested, 3, held->target);
    ps_wire_put_uint(&nested, 4, held->block);
    /* An older server passes over it, and has no deltas of tables. */
    ps_wire_put_uint(&nested, 5, held->mark);
    put_nested(head, number, &nested);
}

/* A whole delta (every block) says why in `whole`, so that a client can tell a first pull from a
 * lost chain; the runs are then one. */
void ps_delta_put(struct ps_buffer *head, uint32_t number, const struct ps_delta *delta)
{
    char text[PS_DELTA_HEAD_BYTES_MAX];
    struct ps_buffer nested;
    if (!delta->present)
        return;
    ps_buffer_init_fixed(&nested, text, sizeof text);
    put_chain(&nested, 1, &delta->chain);
    ps_wire_put_uint(&nested, 2, delta->block_bytes);
    ps_wire_put_bytes(&nested, 3, delta->runs);
    ps_wire_put_uint(&nested, 4, delta->whole);
    ps_wire_put_uint(&nested, 5, delta->next);
    ps_wire_put_uint(&nested, 6, delta->digest);
    /* Of tables alone; zeros take no bytes, so that a delta of blocks is as short as before there
     * were tables. */
    ps_wire_put_uint(&nested, 7, delta->rows);
    ps_wire_put_uint(&nested, 8, delta->gone);
    ps_wire_put_uint(&nested, 9, delta->mark);
    put_nested(head, number, &nested);
}

/* A failure inside becomes the outer reader's failure, unless that has one already: the first thing
 * that is wrong is the one that is reported. */
void ps_held_read(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                  struct ps_held *held)
{
    struct ps_wire_range range = ps_wire_bytes(reader, field, SIZE_MAX, "held");
    struct ps_wire_reader nested;
    struct ps_wire_field part;
    ps_wire_reader_nested(&nested, &range, reader->error);
    while (ps_wire_next(&nested, &part)) {
        if (part.number == 1)
            held->version = ps_wire_uint(&nested, &part, UINT64_MAX, "version");
        else if (part.number == 2)
            read_chain(&nested, &part, &held->chain);
        else if (part.number == 3)
            held->target = ps_wire_uint(&nested, &part, UINT64_MAX, "target");
        else if (part.number == 4)
            held->block = ps_wire_uint(&nested, &part, UINT64_MAX, "block");
        else if (part.number == 5)
            held->mark = ps_wire_uint(&nested, &part, UINT64_MAX, "mark");
    }
    held->present = true;
    if (reader->status == PS_OK)
        reader->status = nested.status;
}

/* `runs` is only found here and kept by the decoder with the other small fields, because it may be
 * cut in two by the border of two slices. Its bound is what a server may send at most. */
void ps_delta_read(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                   struct ps_delta *delta, struct ps_wire_range *runs)
{
    struct ps_wire_range range = ps_wire_bytes(reader, field, SIZE_MAX, "delta");
    struct ps_wire_reader nested;
    struct ps_wire_field part;
    ps_wire_reader_nested(&nested, &range, reader->error);
    while (ps_wire_next(&nested, &part)) {
        if (part.number == 1)
            read_chain(&nested, &part, &delta->chain);
        else if (part.number == 2)
            delta->block_bytes = ps_wire_uint(&nested, &part, UINT64_MAX, "block bytes");
        else if (part.number == 3)
            *runs = ps_wire_bytes(&nested, &part, PS_DELTA_RUNS_BYTES_MAX, "runs");
        else if (part.number == 4)
            delta->whole = (enum ps_whole)ps_wire_uint(&nested, &part, PS_WHOLE_COUNT - 1, "whole");
        else if (part.number == 5)
            delta->next = ps_wire_uint(&nested, &part, UINT64_MAX, "next");
        else if (part.number == 6)
            delta->digest = ps_wire_uint(&nested, &part, UINT64_MAX, "digest");
        else if (part.number == 7)
            delta->rows = ps_wire_uint(&nested, &part, UINT64_MAX, "rows");
        else if (part.number == 8)
            delta->gone = ps_wire_uint(&nested, &part, UINT64_MAX, "gone");
        else if (part.number == 9)
            delta->mark = ps_wire_uint(&nested, &part, UINT64_MAX, "mark");
    }
    /* Also for an empty message: its presence is what makes the reply a delta. */
    delta->present = true;
    if (reader->status == PS_OK)
        reader->status = nested.status;
}
