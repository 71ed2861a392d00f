/* SPDX-License-Identifier: Apache-2.0 */
/* Over libcrypto, whose only home this is. A failure inside libcrypto (it allocates) is remembered
 * by a missing context and comes out at the end, so that the many calls in between need no check. A
 * digest that was computed over half of the bytes is thus never shown. */
#include "tools/psckpt/sha256.h"

#include <openssl/evp.h>

#include <stdio.h>

/* EVP is the interface that stays when libcrypto drops the old one; it chooses the processor's
 * instructions by itself. */
void sha256_init(struct sha256 *hash)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(context);
        context = NULL;
    }
    hash->context = context;
}

/* After a failure the hash stays failed: a later success must not hide it. */
void sha256_add(struct sha256 *hash, struct ps_bytes bytes)
{
    if (hash->context == NULL || EVP_DigestUpdate(hash->context, bytes.data, bytes.size) == 1)
        return;
    EVP_MD_CTX_free(hash->context);
    hash->context = NULL;
}

/* Pieces in order: the digest does not depend on where a view is cut. */
void sha256_add_view(struct sha256 *hash, struct ps_view view)
{
    for (size_t i = 0; i < view.piece_count; i++)
        sha256_add(hash, view.pieces[i]);
}

/* Little-endian and of a fixed width, whatever the machine: digests are compared across
 * machines. */
void sha256_add_number(struct sha256 *hash, uint64_t number, size_t bytes)
{
    uint8_t text[8];
    for (size_t i = 0; i < bytes; i++)
        text[i] = (uint8_t)(number >> 8 * i);
    sha256_add(hash, (struct ps_bytes){text, bytes});
}

/* The context is freed in every case, so that callers need no second call. */
enum ps_status sha256_end(struct sha256 *hash, uint8_t result[SHA256_BYTES], struct ps_error *error)
{
    bool is_made = hash->context != NULL && EVP_DigestFinal_ex(hash->context, result, NULL) == 1;
    EVP_MD_CTX_free(hash->context);
    hash->context = NULL;
    return is_made ? PS_OK : ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a SHA-256");
}

/* Two digits a byte; snprintf puts the NUL behind the last pair. */
void sha256_text(const uint8_t result[SHA256_BYTES], char text[SHA256_TEXT_BYTES])
{
    for (size_t i = 0; i < SHA256_BYTES; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", result[i]);
}
