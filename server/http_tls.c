/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates are handed out at each handshake, by a function that GnuTLS calls with nothing but
 * its session. libmicrohttpd keeps its connection there, and our context in the connection: from
 * its beginning to its end a connection holds one set. All of that happens on the port's thread, so
 * that sets are counted without a lock.
 *
 * libmicrohttpd only asks for a visitor's certificate. Whether that certificate is one of ours is
 * judged here, against the authorities of the connection's set, when a page is asked for. */
#include "server/http_tls.h"

#include "base/assert.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>

#include <string.h>

#define PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* The certificate, and those between it and its authority. */
enum { CHAIN_MAX = 8 };

struct set {
    const struct ps_allocator *memory; /* borrowed */
    uint32_t references;
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned chain_length;
    gnutls_privkey_t key;
    gnutls_x509_trust_list_t authorities; /* NULL: none */
};

struct ps_http_tls {
    struct ps_http_tls_options options;
    struct set *set; /* a reference */
    uint64_t number; /* of the set, as ps_access_certificates counts */
    char *asked;     /* owned; the authorities by which visitors are asked; NULL: they are not */
};

static enum ps_status renew(struct ps_http_tls *tls, struct ps_error *error);
static bool fill_set(struct set *set, const struct ps_certificates *certificates);
static void release_set(struct set *set);
static void notice(void *context, struct MHD_Connection *connection, void **socket_context,
                   enum MHD_ConnectionNotificationCode code);
static int choose(gnutls_session_t session, const gnutls_datum_t *authorities, int authority_count,
                  const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                  gnutls_pcert_st **chain, unsigned *chain_length, gnutls_privkey_t *key);

/* The first set is made at the start, so that files which this library does not take end the start
 * and not the first visitor's connection. */
enum ps_status ps_http_tls_create(const struct ps_http_tls_options *options,
                                  struct ps_http_tls **out, struct ps_error *error)
{
    PS_ASSERT(options->access != NULL && ps_access_has_tls(options->access));
    struct ps_http_tls *tls = ps_zeroed(options->memory, sizeof *tls);
    if (tls == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for TLS");
    tls->options = *options;
    enum ps_status status = renew(tls, error);
    if (status != PS_OK) {
        ps_http_tls_destroy(tls);
        return status;
    }
    *out = tls;
    return PS_OK;
}

void ps_http_tls_destroy(struct ps_http_tls *tls)
{
    if (tls == NULL)
        return;
    release_set(tls->set);
    ps_release(tls->options.memory, tls->asked);
    ps_release(tls->options.memory, tls);
}

/* Takes the certificates that are current, if these are others than before. The authorities by
 * which visitors are asked stay those of the start: they are a hint for who has several
 * certificates, and decide nothing. */
static enum ps_status renew(struct ps_http_tls *tls, struct ps_error *error)
{
    struct ps_certificates *certificates =
        ps_access_certificates(tls->options.access, &tls->number);
    if (certificates == NULL)
        return PS_OK;
    const struct ps_allocator *memory = tls->options.memory;
    struct set *set = ps_zeroed(memory, sizeof *set);
    bool made = set != NULL;
    if (made) {
        set->memory = memory;
        set->references = 1;
        made = fill_set(set, certificates);
    }
    const char *authorities = certificates->authorities;
    if (made && tls->options.asks && tls->asked == NULL && authorities != NULL) {
        tls->asked = ps_copy_text(memory, authorities, strlen(authorities));
        made = tls->asked != NULL;
    }
    ps_certificates_release(certificates);
    if (!made) {
        release_set(set);
        return ps_fail(error, PS_ERR_BAD_INPUT, "the HTTP port cannot use the certificates");
    }
    release_set(tls->set);
    tls->set = set;
    return PS_OK;
}

/* GnuTLS takes bytes that may change and only reads them here, hence the cast. */
static gnutls_datum_t datum_of(const char *text)
{
    return (gnutls_datum_t){(unsigned char *)(uintptr_t)text, (unsigned)strlen(text)};
}

/* The files were read and found to fit (security/certificate_files.c); what is refused here is what
 * this library does not know. */
static bool fill_set(struct set *set, const struct ps_certificates *certificates)
{
    PS_ASSERT(certificates->chain != NULL && certificates->key != NULL);
    const gnutls_datum_t chain = datum_of(certificates->chain);
    const gnutls_datum_t key = datum_of(certificates->key);
    unsigned length = CHAIN_MAX;
    if (gnutls_pcert_list_import_x509_raw(set->chain, &length, &chain, GNUTLS_X509_FMT_PEM, 0) != 0)
        return false;
    set->chain_length = length;
    if (gnutls_privkey_init(&set->key) != 0 ||
        gnutls_privkey_import_x509_raw(set->key, &key, GNUTLS_X509_FMT_PEM, NULL, 0) != 0)
        return false;
    if (certificates->authorities == NULL)
        return true;
    const gnutls_datum_t authorities = datum_of(certificates->authorities);
    return gnutls_x509_trust_list_init(&set->authorities, 0) == 0 &&
           gnutls_x509_trust_list_add_trust_mem(set->authorities, &authorities, NULL,
                                                GNUTLS_X509_FMT_PEM, 0, 0) > 0;
}

/* Of a set that was only begun, too: what is zero was not made. The last reference may be that of
 * a connection which began before the certificates changed. */
static void release_set(struct set *set)
{
    PS_ASSERT(set == NULL || set->references > 0);
    if (set == NULL || --set->references > 0)
        return;
    for (unsigned i = 0; i < set->chain_length; i++)
        gnutls_pcert_deinit(&set->chain[i]);
    if (set->key != NULL)
        gnutls_privkey_deinit(set->key);
    if (set->authorities != NULL)
        gnutls_x509_trust_list_deinit(set->authorities, 1);
    ps_release(set->memory, set);
}

/* Priorities name what is left of TLS when the old versions are taken away; ciphers stay those of
 * the system's policy, which is kept by people who follow the attacks on them. */
void ps_http_tls_items(struct ps_http_tls *tls, struct MHD_OptionItem items[PS_HTTP_TLS_ITEMS])
{
    size_t count = 0;
    items[count++] =
        (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)PRIORITIES};
    items[count++] =
        (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)choose};
    items[count++] = (struct MHD_OptionItem){MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)notice, tls};
    if (tls->asked != NULL)
        items[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, tls->asked};
    items[count++] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    /* The daemon reads up to the end that it finds. */
    PS_ASSERT(count <= PS_HTTP_TLS_ITEMS);
    PS_ASSERT(items[count - 1].option == MHD_OPTION_END);
}

/* A set that cannot be made is complained of, and the connection gets the one before. */
static void notice(void *context, struct MHD_Connection *connection, void **socket_context,
                   enum MHD_ConnectionNotificationCode code)
{
    (void)connection;
    struct ps_http_tls *tls = context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        release_set(*socket_context);
        *socket_context = NULL;
        return;
    }
    struct ps_error error = {.status = PS_OK};
    if (renew(tls, &error) != PS_OK)
        PS_LOG(tls->options.log, PS_LOG_WARN, "http", "certificates not taken",
               PS_FIELD_TEXT("reason", error.text));
    PS_ASSERT(tls->set != NULL);
    tls->set->references++;
    *socket_context = tls->set;
}

/* The way from a session to its set, which stands on what libmicrohttpd keeps in a session: the
 * tests of the port show whether it still does. NULL for a library that keeps something else. */
static struct set *set_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        connection != NULL ? MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
                           : NULL;
    return info != NULL ? info->socket_context : NULL;
}

/* What the visitor can do is not asked: there is one pair. */
static int choose(gnutls_session_t session, const gnutls_datum_t *authorities, int authority_count,
                  const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                  gnutls_pcert_st **chain, unsigned *chain_length, gnutls_privkey_t *key)
{
    (void)authorities, (void)authority_count, (void)algorithms, (void)algorithm_count;
    struct set *set = set_of(gnutls_session_get_ptr(session));
    if (set == NULL)
        return -1;
    *chain = set->chain;
    *chain_length = set->chain_length;
    *key = set->key;
    return 0;
}

/* Signed by one of the authorities, valid now, and not made for servers alone. */
static bool is_vouched_for(const struct set *set, const gnutls_datum_t *shown, unsigned count)
{
    gnutls_x509_crt_t list[CHAIN_MAX];
    unsigned made = 0, status = GNUTLS_CERT_INVALID;
    while (made < count && made < CHAIN_MAX && gnutls_x509_crt_init(&list[made]) == 0) {
        made++;
        if (gnutls_x509_crt_import(list[made - 1], &shown[made - 1], GNUTLS_X509_FMT_DER) != 0)
            break;
    }
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    bool good = made == count && set->authorities != NULL &&
                gnutls_x509_trust_list_verify_crt2(set->authorities, list, made, &purpose, 1, 0,
                                                   &status, NULL) == 0 &&
                status == 0;
    for (unsigned i = 0; i < made; i++)
        gnutls_x509_crt_deinit(list[i]);
    return good;
}

/* Who shows a certificate wants to be known by it, so a wrong one is refused everywhere. */
bool ps_http_tls_admits(const struct ps_http_tls *tls, struct MHD_Connection *connection, bool open)
{
    if (!tls->options.asks)
        return true;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    const struct set *set = set_of(connection);
    if (info == NULL || info->tls_session == NULL || set == NULL)
        return false;
    unsigned count = 0;
    const gnutls_datum_t *shown = gnutls_certificate_get_peers(info->tls_session, &count);
    if (shown == NULL || count == 0)
    return open || !tls->options.requires;
    return is_vouched_for(set, shown, count);
}
