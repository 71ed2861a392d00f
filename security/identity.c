/* SPDX-License-Identifier: Apache-2.0 */
/* Names go into the log as they are, and are compared with rules that people write: hence only what
 * prints is a name.
 *
 * Kinds share one space of names for rules: who writes the file of tokens and who signs
 * certificates must agree on names, as both decide who may come in. What belongs to one identity
 * and not to another is told apart by kind and name. */
#include "security/identity.h"

#include "base/assert.h"

#include <openssl/evp.h>

#include <string.h>

static void set_owner(struct ps_identity *identity);

/* The bytes come from a certificate that was checked, from our own file, or from the kernel; a
 * certificate's authority may still have signed anything. */
enum ps_status ps_identity_set(struct ps_identity *identity, enum ps_identity_kind kind,
                               struct ps_bytes name, struct ps_error *error)
{
    if (name.size == 0 || name.size > PS_IDENTITY_BYTES_MAX)
        return ps_fail(error, PS_ERR_UNAUTHENTICATED,
                       "the name that was shown has %zu bytes; 1 to %d are allowed", name.size,
                       PS_IDENTITY_BYTES_MAX);
    for (size_t i = 0; i < name.size; i++)
        if (name.data[i] <= ' ' || name.data[i] > '~')
            return ps_fail(error, PS_ERR_UNAUTHENTICATED,
                           "the name that was shown has bytes that do not print");
    /* The struct is written only when nothing can fail any more. */
    identity->kind = kind;
    memcpy(identity->name, name.data, name.size);
    identity->name[name.size] = '\0';
    set_owner(identity);
    return PS_OK;
}

/* The name is one that rules may speak of, too. */
void ps_identity_set_anybody(struct ps_identity *identity)
{
    struct ps_error unused;
    enum ps_status status =
        ps_identity_set(identity, PS_IDENTITY_ANYBODY, ps_bytes_of_text("anybody"), &unused);
    PS_ASSERT(status == PS_OK);
}

/* The beginning of a SHA-256, so that nobody who may choose a part of his name finds one with the
 * digest of another. The kind goes in first: a token may be called like a host. */
static void set_owner(struct ps_identity *identity)
{
    /* One digest for each call of somebody known: less than a microsecond, beside the tens that the
     * call's encryption takes. */
    uint8_t digest[EVP_MAX_MD_SIZE];
    uint8_t text[sizeof identity->name + 1];
    size_t size = strlen(identity->name);
    /* Without its end: one name is never the beginning of another with a byte more. */
    text[0] = (uint8_t)identity->kind;
    memcpy(text + 1, identity->name, size);
    int is_made = EVP_Digest(text, size + 1, digest, NULL, EVP_sha256(), NULL);
    /* Without memory for a digest: an owner of whom nothing belongs to anybody else. */
    identity->owner = 1;
    if (is_made == 1)
        memcpy(&identity->owner, digest, sizeof identity->owner);
    if (identity->owner == 0)
        identity->owner = 1;
}
