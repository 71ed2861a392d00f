/* SPDX-License-Identifier: Apache-2.0 */
/* Why a file of hashes and not of tokens: it is backed up, mounted into containers and read over
 * people's shoulders, and nothing of that may let anybody in.
 *
 * Tokens are random and long, so that one round of SHA-256 is enough: what makes passwords
 * guessable is that people choose them. A token is hashed once for each call, and its digest is
 * compared with every one of the file, whether or not the right one was found before. */
#include "security/token_file.h"

#include "base/assert.h"
#include "security/identity.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <stdatomic.h>
#include <string.h>

enum { DIGEST_BYTES = 32, DIGEST_DIGITS = 2 * DIGEST_BYTES };

/* 1 MiB of lines is some thousands of tokens, each of which costs every call a comparison. */
#define FILE_BYTES_MAX ((size_t)1024 * 1024)
#define TOKENS_MAX 4096

/* Fixed sizes, so that the list is compared and walked without following pointers. */
struct token {
    char name[PS_IDENTITY_BYTES_MAX + 1];
    uint8_t digest[DIGEST_BYTES]; /* of the token, without the end of its line */
};

struct ps_tokens {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    atomic_uint references;
    size_t count;
    struct token tokens[];
};

static enum ps_status parse(struct ps_bytes text, const char *path,
                            const struct ps_allocator *memory, struct ps_tokens **out,
                            struct ps_error *error);
static enum ps_status parse_line(struct ps_bytes line, struct token *token, struct ps_error *error);
static bool read_digest(struct ps_bytes digits, uint8_t digest[DIGEST_BYTES]);

/* The content goes at once: it is of no use once the digests are read. */
enum ps_status ps_tokens_read(const char *path, const struct ps_files *files,
                              const struct ps_allocator *memory, struct ps_tokens **tokens,
                              struct ps_error *error)
{
    uint8_t *content = NULL;
    size_t size = 0;
    PS_TRY(ps_file_read_all(files, path, FILE_BYTES_MAX, memory, &content, &size, error));
    enum ps_status status = parse((struct ps_bytes){content, size}, path, memory, tokens, error);
    ps_release(memory, content);
    return status;
}

/* The next line without its end; the text is what is left behind it. */
static struct ps_bytes take_line(struct ps_bytes *text)
{
    const uint8_t *end = memchr(text->data, '\n', text->size);
    size_t size = end != NULL ? (size_t)(end - text->data) : text->size;
    struct ps_bytes line = {text->data, size};
    size_t taken = end != NULL ? size + 1 : size;
    *text = (struct ps_bytes){text->data + taken, text->size - taken};
    /* Files that were written on other systems have lines that end with both. */
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    return line;
}

/* The next word of a line; empty at the end. */
static struct ps_bytes take_word(struct ps_bytes *line)
{
    size_t begin = 0;
    while (begin < line->size && (line->data[begin] == ' ' || line->data[begin] == '\t'))
        begin++;
    size_t end = begin;
    while (end < line->size && line->data[end] != ' ' && line->data[end] != '\t')
        end++;
    struct ps_bytes word = {line->data + begin, end - begin};
    *line = (struct ps_bytes){line->data + end, line->size - end};
    return word;
}

/* Lines with nothing, or with a comment, have no token. */
static bool is_token_line(struct ps_bytes line)
{
    struct ps_bytes word = take_word(&line);
    return word.size > 0 && word.data[0] != '#';
}

/* So that the list is one piece of memory. A line too many or too few between the two walks
 * would be a bug of ours, which parse asserts. */
static size_t count_tokens(struct ps_bytes text)
{
    size_t count = 0;
    while (text.size > 0)
        count += is_token_line(take_line(&text));
    return count;
}

/* The whole file or nothing: a line that cannot be read might have been the one that takes somebody
 * out. */
static enum ps_status parse(struct ps_bytes text, const char *path,
                            const struct ps_allocator *memory, struct ps_tokens **out,
                            struct ps_error *error)
{
    size_t count = count_tokens(text);
    /* Before memory is asked for: a log that is given as a file of tokens is refused by its
     * size. */
    if (count > TOKENS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: %zu tokens; at most %d are allowed", path,
                       count, TOKENS_MAX);
    struct ps_tokens *tokens = ps_zeroed(memory, sizeof *tokens + count * sizeof(struct token));
    if (tokens == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "%s: no memory to read it", path);
    tokens->memory = memory;
    atomic_init(&tokens->references, 1);
    struct ps_error why;
    for (size_t number = 1; text.size > 0; number++) {
        struct ps_bytes line = take_line(&text);
        if (!is_token_line(line))
            continue;
        PS_ASSERT(tokens->count < count);
        if (parse_line(line, &tokens->tokens[tokens->count++], &why) != PS_OK) {
            ps_tokens_release(tokens);
            return ps_fail(error, PS_ERR_BAD_INPUT, "%s:%zu: %s", path, number, why.text);
        }
    }
    *out = tokens;
    return PS_OK;
}

/* No word of the line is repeated in the reason: somebody may have put a token there instead of its
 * digest. */
static enum ps_status parse_line(struct ps_bytes line, struct token *token, struct ps_error *error)
{
    static const char scheme[] = "sha256:";
    struct ps_identity identity;
    struct ps_bytes name = take_word(&line);
    struct ps_bytes hash = take_word(&line);
    /* By the rules for every name: it will stand in the log. */
    PS_TRY(ps_identity_set(&identity, PS_IDENTITY_TOKEN, name, error));
    /* No more than the name: behind it the token stays zeroed, as ps_tokens_equal expects. */
    memcpy(token->name, name.data, name.size);
    /* The scheme is part of the line, so that another may be added beside it one day. */
    size_t skip = sizeof scheme - 1;
    if (hash.size != skip + DIGEST_DIGITS || memcmp(hash.data, scheme, skip) != 0 ||
        !read_digest((struct ps_bytes){hash.data + skip, DIGEST_DIGITS}, token->digest))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "expected NAME sha256:DIGITS, with 64 hexadecimal digits");
    return PS_OK;
}

/* -1 for what is not a digit. */
static int digit_of(uint8_t letter)
{
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    if (letter >= 'a' && letter <= 'f')
        return letter - 'a' + 10;
    return letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
}

/* Small and capital digits, as the tools that make digests write either. */
static bool read_digest(struct ps_bytes digits, uint8_t digest[DIGEST_BYTES])
{
    PS_ASSERT(digits.size == DIGEST_DIGITS);
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        int high = digit_of(digits.data[2 * i]);
        int low = digit_of(digits.data[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        digest[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

/* All are compared, and each comparison takes as long wherever the difference is. */
const char *ps_tokens_name_of(const struct ps_tokens *tokens, struct ps_bytes token)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    /* No early way out of the walk below: the last of two equal lines wins, which have the same
     * token anyway. */
    const char *name = NULL;
    if (token.size == 0 || token.size > PS_TOKEN_BYTES_MAX ||
        EVP_Digest(token.data, token.size, digest, NULL, EVP_sha256(), NULL) != 1)
        return NULL;
    for (size_t i = 0; i < tokens->count; i++)
        if (CRYPTO_memcmp(digest, tokens->tokens[i].digest, DIGEST_BYTES) == 0)
            name = tokens->tokens[i].name;
    return name;
}

/* For the log at the start. */
size_t ps_tokens_count(const struct ps_tokens *tokens)
{
    return tokens->count;
}

/* Comments may change as they like. */
bool ps_tokens_equal(const struct ps_tokens *a, const struct ps_tokens *b)
{
    /* Tokens are zeroed before they are filled, also behind the ends of names. */
    return a->count == b->count &&
           memcmp(a->tokens, b->tokens, a->count * sizeof(struct token)) == 0;
}

/* Whoever acquires holds the lock under which a reference is kept, or has one. */
struct ps_tokens *ps_tokens_acquire(struct ps_tokens *tokens)
{
    if (tokens != NULL)
        PS_ASSERT(atomic_fetch_add(&tokens->references, 1) > 0);
    return tokens;
}

/* Digests of random tokens are no secret, so that nothing is wiped. */
void ps_tokens_release(struct ps_tokens *tokens)
{
    if (tokens == NULL)
        return;
    unsigned before = atomic_fetch_sub(&tokens->references, 1);
    PS_ASSERT(before > 0);
    if (before == 1)
        ps_release(tokens->memory, tokens);
}
