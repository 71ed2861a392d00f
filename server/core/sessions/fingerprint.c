/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of few bytes: a push of 64 MiB is looked at in 256 of them, spread over all of it, since
 * gradients of embeddings are mostly zeros and equal in any one place. The numbers are in journals
 * and checkpoints: what goes into a fingerprint never changes. */
#include "server/core/sessions/fingerprint.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "proto/digest.h"

#include <string.h>

#define PLACES 16
#define PLACE_BYTES ((size_t)16)
#define SAMPLE_BYTES (PLACES * PLACE_BYTES)

/* What a request is, apart from its subject. Methods that came first have the number that they had
 * in their table; it has grown since, so that later ones have numbers of their own. */
enum { KIND_DEFINE = 0x100, KIND_DROP, KIND_CONFIGURE, KIND_SET_CLOCKS, KIND_CLOCK };

static uint32_t subject_bits(uint64_t kind, struct ps_bytes name, uint64_t dtype,
                             uint64_t encoding);
static uint32_t content_bits(struct ps_view content);
static void take_places(struct ps_view content, uint8_t *to);
static uint16_t fold(struct ps_bytes bytes);

/* The request says what is pushed, `content` what of it is known: nothing while it comes in
 * ranges. */
uint32_t ps_fingerprint_of_push(const struct ps_push_request *request, struct ps_view content)
{
    /* The element type's own encoding has two numbers. */
    bool is_native = ps_encoding_is_native(request->encoding, request->dtype);
    enum ps_encoding encoding = is_native ? PS_ENCODING_NATIVE : request->encoding;
    return subject_bits(PS_METHOD_PUSH, request->name, (uint64_t)request->dtype,
                        (uint64_t)encoding) |
           content_bits(content);
}

/* A parameter is initialised in its own type: in the place of an encoding stands its shape, 0 where
 * it is not given. */
static uint32_t of_parameter(uint64_t kind, const struct ps_init_request *request,
                             struct ps_view content)
{
    const struct ps_shape *shape = &request->shape;
    struct ps_bytes lengths = {(const uint8_t *)shape->lengths, sizeof shape->lengths};
    return subject_bits(kind, request->name, (uint64_t)request->dtype,
                        shape->is_given ? ps_digest_xxh64(lengths) : 0) |
           content_bits(content);
}

uint32_t ps_fingerprint_of_init(const struct ps_init_request *request, struct ps_view content)
{
    return of_parameter(PS_METHOD_INIT, request, content);
}

/* Another kind than an initialisation: an id that was used for one is not free for the other. */
uint32_t ps_fingerprint_of_define(const struct ps_init_request *request, struct ps_view content)
{
    return of_parameter(KIND_DEFINE, request, content);
}

/* A drop says no more than the name. */
uint32_t ps_fingerprint_of_change(const struct ps_change_request *request, bool drops)
{
    struct ps_view change = drops ? (struct ps_view){0} : ps_view_of(&request->change);
    return subject_bits(drops ? KIND_DROP : KIND_CONFIGURE, request->name, 0, 0) |
           content_bits(change);
}

/* What is said is short, and all of it goes in. */
uint32_t ps_fingerprint_of_clocks(struct ps_bytes name, struct ps_bytes said, bool sets)
{
    return subject_bits(sets ? KIND_SET_CLOCKS : KIND_CLOCK, name, 0, 0) |
           content_bits(ps_view_of(&said));
}

/* All of them are the same request: it has neither a name nor a content. */
uint32_t ps_fingerprint_of_finish(void)
{
    return subject_bits(PS_METHOD_FINISH, (struct ps_bytes){0}, 0, 0);
}

/* Half by half: what one of the two does not know (0) agrees with anything, so that a range is told
 * from another method or name, and a whole push from another content as well. */
bool ps_fingerprint_agrees(uint32_t one, uint32_t other)
{
    /* The subject above, the content below. */
    static const uint32_t parts[] = {0xffff0000, 0x0000ffff};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        uint32_t left = one & parts[i];
        uint32_t right = other & parts[i];
        if (left != 0 && right != 0 && left != right)
            return false;
    }
    return true;
}

/* Hashed in one go, the name by its own hash, so that no boundary between fields can shift. */
static uint32_t subject_bits(uint64_t kind, struct ps_bytes name, uint64_t dtype, uint64_t encoding)
{
    const uint64_t words[] = {ps_digest_xxh64(name), kind, dtype, encoding};
    return (uint32_t)fold((struct ps_bytes){(const uint8_t *)words, sizeof words}) << 16;
}

/* The length, which tells most changed requests apart by itself, then either all of a short
 * content, or 16 bytes at each of 16 places: the first place is the beginning and the last one the
 * end. */
static uint32_t content_bits(struct ps_view content)
{
    uint8_t sample[sizeof(uint64_t) + SAMPLE_BYTES];
    uint64_t size = content.size;
    size_t taken = sizeof size;
    if (content.piece_count == 0 || size == 0)
        return 0;
    memcpy(sample, &size, sizeof size);
    if (size <= SAMPLE_BYTES) {
        ps_view_copy(content, 0, sample + taken, content.size);
        return fold((struct ps_bytes){sample, taken + content.size});
    }
    PS_ASSERT(size > SAMPLE_BYTES);
    take_places(content, sample + taken);
    return fold((struct ps_bytes){sample, sizeof sample});
}

/* A place lies in one piece nearly always, since pieces are of kilobytes, and then taking 16 bytes
 * is two instructions. The pieces are walked once for all places: this is done for every push, and
 * small ones come by the thousand. */
static void take_places(struct ps_view content, uint8_t *to)
{
    size_t at = 0, begin = 0; /* the piece, and where in the content it begins */
    PS_ASSERT(content.piece_count > 0);
    for (size_t i = 0; i < PLACES; i++, to += PLACE_BYTES) {
        size_t place = (content.size - PLACE_BYTES) * i / (PLACES - 1);
        while (place - begin >= content.pieces[at].size) {
            begin += content.pieces[at++].size;
            PS_ASSERT(at < content.piece_count);
        }
        struct ps_bytes piece = content.pieces[at];
        if (piece.size - (place - begin) >= PLACE_BYTES)
            memcpy(to, piece.data + (place - begin), PLACE_BYTES);
        else
            ps_view_copy(content, place, to, PLACE_BYTES);
    }
    PS_ASSERT(begin <= content.size - PLACE_BYTES);
}

/* Never 0, which stands for "not known". */
static uint16_t fold(struct ps_bytes bytes)
{
    uint64_t digest = ps_digest_xxh64(bytes);
    uint16_t folded = (uint16_t)(digest ^ digest >> 16 ^ digest >> 32 ^ digest >> 48);
    PS_ASSERT(bytes.size > 0);
    return folded == 0 ? 1 : folded;
}
