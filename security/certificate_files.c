/* SPDX-License-Identifier: Apache-2.0 */
/* The check that a TLS library would make with a certificate, made with a throw-away context of
 * OpenSSL. What passes here is taken by gRPC, whose TLS is OpenSSL too, and by GnuTLS.
 *
 * Nothing here looks at the purpose of a certificate or at the strength of its key: libraries
 * differ in what they accept there, and a refusal of ours would only add one more opinion. */
#include "security/certificate_files.h"

#include "base/assert.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* A bundle of every public authority has a quarter of that. */
#define FILE_BYTES_MAX ((size_t)1024 * 1024)

static enum ps_status read_texts(const struct ps_certificate_paths *paths,
                                 const struct ps_files *files, struct ps_certificates *set,
                                 struct ps_error *error);
static enum ps_status check_pair(const struct ps_certificate_paths *paths,
                                 struct ps_certificates *set, struct ps_error *error);
static enum ps_status check_chain(const struct ps_certificate_paths *paths, SSL_CTX *context,
                                  struct ps_certificates *set, struct ps_error *error);
static enum ps_status check_key(const struct ps_certificate_paths *paths, SSL_CTX *context,
                                const struct ps_certificates *set, struct ps_error *error);
static enum ps_status check_authorities(const char *path, const char *text, struct ps_error *error);
static enum ps_status check_time(const char *path, const struct ps_certificates *set, int64_t now_s,
                                 struct ps_error *error);

/* The reason is OpenSSL's own word for what it met last. Its queue is left empty: whoever uses the
 * library next in this thread would find our failure there. */
static enum ps_status refuse(const char *path, const char *what, struct ps_error *error)
{
    PS_ASSERT(path != NULL && what != NULL);
    /* Last is nearest: what came before are the library's own attempts at other formats. */
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    enum ps_status status =
        reason != NULL ? ps_fail(error, PS_ERR_BAD_INPUT, "%s: %s (%s)", path, what, reason)
                       : ps_fail(error, PS_ERR_BAD_INPUT, "%s: %s", path, what);
    ERR_clear_error();
    return status;
}

/* The set is made first and filled while it is checked: release ends it wherever that stops. */
enum ps_status ps_certificates_read(const struct ps_certificate_paths *paths,
                                    const struct ps_files *files, const struct ps_allocator *memory,
                                    int64_t now_s, struct ps_certificates **certificates,
                                    struct ps_error *error)
{
    /* The options go together: a certificate without its key never comes here. */
    PS_ASSERT(paths->chain != NULL && paths->key != NULL);
    struct ps_certificates *set = ps_zeroed(memory, sizeof *set);
    if (set == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a certificate");
    set->memory = memory;
    atomic_init(&set->references, 1); /* the caller's, or ours until a check fails */
    enum ps_status status = read_texts(paths, files, set, error);
    if (status == PS_OK)
        status = check_pair(paths, set, error);
    if (status == PS_OK)
        status = check_time(paths->chain, set, now_s, error);
    if (status != PS_OK) {
        ps_certificates_release(set);
        return status;
    }
    *certificates = set;
    return PS_OK;
}

/* A NUL follows the content, so that it is a text. */
static enum ps_status read_text(const char *path, const struct ps_files *files,
                                const struct ps_allocator *memory, char **text, size_t *size,
                                struct ps_error *error)
{
    uint8_t *content;
    PS_TRY(ps_file_read_all(files, path, FILE_BYTES_MAX, memory, &content, size, error));
    *text = (char *)content;
    return PS_OK;
}

/* What was read stays with the set also after a failure, and goes with it. */
static enum ps_status read_texts(const struct ps_certificate_paths *paths,
                                 const struct ps_files *files, struct ps_certificates *set,
                                 struct ps_error *error)
{
    /* One file after the other, so that a set may hold the new certificate and the old key while
     * somebody replaces both: the check of the pair finds that out. */
    size_t size;
    PS_TRY(read_text(paths->chain, files, set->memory, &set->chain, &size, error));
    PS_TRY(read_text(paths->key, files, set->memory, &set->key, &set->key_size, error));
    /* Without authorities nobody is asked for a certificate. */
    if (paths->authorities == NULL)
        return PS_OK;
    return read_text(paths->authorities, files, set->memory, &set->authorities, &size, error);
}

/* The context is made for this question alone: a certificate that a context has once taken stays in
 * use there when the next one is refused, which would make a wrong pair look right. */
static enum ps_status check_pair(const struct ps_certificate_paths *paths,
                                 struct ps_certificates *set, struct ps_error *error)
{
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (context == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to check a certificate");
    enum ps_status status = check_chain(paths, context, set, error);
    if (status == PS_OK)
        status = check_key(paths, context, set, error);
    if (status == PS_OK && set->authorities != NULL)
        status = check_authorities(paths->authorities, set->authorities, error);
    SSL_CTX_free(context);
    /* gRPC runs handshakes in other threads, but this one may be used for them some day. */
    ERR_clear_error();
    return status;
}

/* The size is that of the text up to a NUL: bytes behind one are nothing that a TLS library would
 * read. */
static BIO *open_text(const char *text)
{
    size_t size = strlen(text);
    /* FILE_BYTES_MAX is far below. */
    PS_ASSERT(size <= INT_MAX);
    return BIO_new_mem_buf(text, (int)size);
}

/* Reads certificates one after the other; returns how many there are, or -1 for one that cannot be
 * read. The first is handed to `first`, which may be NULL. */
static int count_certificates(const char *text, X509 **first)
{
    BIO *source = open_text(text);
    int count = 0;
    for (X509 *one; source != NULL && (one = PEM_read_bio_X509(source, NULL, NULL, NULL)) != NULL;
         count++) {
        if (count == 0 && first != NULL)
            *first = one;
        else
            X509_free(one);
    }
    BIO_free(source);
    /* Looked at even when nothing was read: an empty file has no start line either.
     *
     * The end of a file is said in the same way as a mistake in it. */
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        return -1;
    ERR_clear_error();
    return count;
}

/* Seconds since 1970 of a time in a certificate. False for one that cannot be read. */
static bool seconds_of(const ASN1_TIME *time, int64_t *seconds)
{
    /* The library counts days and seconds between two times, and gives no number for one. */
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0;
    int rest = 0;
    bool is_read = epoch != NULL && ASN1_TIME_diff(&days, &rest, epoch, time) == 1;
    ASN1_TIME_free(epoch);
    *seconds = (int64_t)days * 86400 + rest;
    return is_read;
}

/* Of the certificates between this one and its authority it is only asked whether they can be read:
 * clients know their authorities, and not we. */
static enum ps_status check_chain(const struct ps_certificate_paths *paths, SSL_CTX *context,
                                  struct ps_certificates *set, struct ps_error *error)
{
    /* The first certificate of the file is the one that the key belongs to, by the custom of all
     * who write such files. */
    X509 *leaf = NULL;
    int count = count_certificates(set->chain, &leaf);
    enum ps_status status = PS_OK;
    if (count < 0)
        status = refuse(paths->chain, "a certificate that cannot be read", error);
    else if (leaf == NULL)
        status = refuse(paths->chain, "no certificate in PEM is in it", error);
    else if (SSL_CTX_use_certificate(context, leaf) != 1)
        status = refuse(paths->chain, "the certificate cannot be used", error);
    else if (!seconds_of(X509_get0_notBefore(leaf), &set->not_before_s) ||
             !seconds_of(X509_get0_notAfter(leaf), &set->not_after_s))
        status = refuse(paths->chain, "the certificate's times cannot be read", error);
    X509_free(leaf);
    return status;
}

/* Without this OpenSSL would ask for the password at the terminal, and wait. */
static int no_password(char *buffer, int size, int is_writing, void *context)
{
    (void)buffer, (void)size, (void)is_writing, (void)context;
    return -1;
}

/* OpenSSL compares the public halves: a key that fits can sign what the certificate promises. */
static enum ps_status check_key(const struct ps_certificate_paths *paths, SSL_CTX *context,
                                const struct ps_certificates *set, struct ps_error *error)
{
    BIO *source = open_text(set->key);
    /* Any kind of key: RSA, elliptic curves, Ed25519. */
    EVP_PKEY *key =
        source != NULL ? PEM_read_bio_PrivateKey(source, NULL, no_password, NULL) : NULL;
    enum ps_status status = PS_OK;
    if (key == NULL)
        status = refuse(paths->key, "no private key in PEM without a password is in it", error);
    else if (SSL_CTX_use_PrivateKey(context, key) != 1 || SSL_CTX_check_private_key(context) != 1)
        status = refuse(paths->key, "the key is not that of the certificate", error);
    EVP_PKEY_free(key);
    BIO_free(source);
    return status;
}

/* An empty file would refuse every client, and the reason would be seen at the clients only. */
static enum ps_status check_authorities(const char *path, const char *text, struct ps_error *error)
{
    int count = count_certificates(text, NULL);
    if (count < 0)
        return refuse(path, "a certificate that cannot be read", error);
    if (count == 0)
        return refuse(path, "no certificate in PEM is in it", error);
    return PS_OK;
}

/* Clients would refuse such a certificate one by one, each in words of its own. */
static enum ps_status check_time(const char *path, const struct ps_certificates *set, int64_t now_s,
                                 struct ps_error *error)
{
    /* The last second counts, as in the standard. */
    if (now_s > set->not_after_s)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "%s: the certificate has expired, %" PRId64 " s ago", path,
                       now_s - set->not_after_s);
    if (now_s < set->not_before_s)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "%s: the certificate is not valid yet, for another %" PRId64 " s", path,
                       set->not_before_s - now_s);
    return PS_OK;
}

/* Bytes and not what they mean: a file that was only written in another way is taken again, which
 * does no harm. */
static bool texts_equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool ps_certificates_equal(const struct ps_certificates *a, const struct ps_certificates *b)
{
    return texts_equal(a->chain, b->chain) && texts_equal(a->key, b->key) &&
           texts_equal(a->authorities, b->authorities);
}

/* Whoever acquires has a reference already, or holds the lock under which one is kept. */
struct ps_certificates *ps_certificates_acquire(struct ps_certificates *certificates)
{
    if (certificates != NULL)
        PS_ASSERT(atomic_fetch_add(&certificates->references, 1) > 0);
    return certificates;
}

/* The key is wiped before its memory goes back: freed memory may be shown to others by a mistake of
 * somebody else. */
void ps_certificates_release(struct ps_certificates *certificates)
{
    if (certificates == NULL)
        return;
    unsigned before = atomic_fetch_sub(&certificates->references, 1);
    PS_ASSERT(before > 0);
    if (before > 1)
        return;
    const struct ps_allocator *memory = certificates->memory;
    if (certificates->key != NULL)
        OPENSSL_cleanse(certificates->key, certificates->key_size);
    ps_release(memory, certificates->chain);
    ps_release(memory, certificates->key);
    ps_release(memory, certificates->authorities);
    ps_release(memory, certificates);
}
