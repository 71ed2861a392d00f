/* SPDX-License-Identifier: Apache-2.0 */
/* By libcrypto: a P-256 key costs a few tenths of a millisecond. */
#include "made_certificate.h"

#include <check.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>

static void take_text(BIO *from, char *text, size_t size_max)
{
    char *bytes;
    long size = BIO_get_mem_data(from, &bytes);
    ck_assert(size > 0 && (size_t)size < size_max);
    memcpy(text, bytes, (size_t)size);
    text[size] = '\0';
    BIO_free(from);
}

void made_certificate_init(struct made_certificate *made, int64_t from_s, int64_t until_s)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    ck_assert_ptr_nonnull(key);
    ck_assert_ptr_nonnull(certificate);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    ASN1_TIME_set(X509_getm_notBefore(certificate), from_s);
    ASN1_TIME_set(X509_getm_notAfter(certificate), until_s);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    ck_assert(X509_set_pubkey(certificate, key) == 1);
    ck_assert(X509_sign(certificate, key, EVP_sha256()) > 0);
    BIO *chain = BIO_new(BIO_s_mem());
    BIO *pem = BIO_new(BIO_s_mem());
    ck_assert(PEM_write_bio_X509(chain, certificate) == 1);
    ck_assert(PEM_write_bio_PrivateKey(pem, key, NULL, NULL, 0, NULL, NULL) == 1);
    take_text(chain, made->chain, sizeof made->chain);
    take_text(pem, made->key, sizeof made->key);
    X509_free(certificate);
    EVP_PKEY_free(key);
}
