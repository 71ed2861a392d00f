/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSL's functions through which the plain bytes of connections under TLS pass, replaced as
 * those of the C library are (front_hooks.c). libgrpc calls both for every record.
 *
 * gRPC keeps the cipher apart from the socket, so a session does not tell whose descriptor its
 * bytes came through. A connection that is condemned from outside, for standing still say, ends
 * with its next record: a keepalive brings that within a minute. */
#include "base/attributes.h"
#include "server/front/connections.h"
#include "server/front/front_hooks.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

static int session_index = -1;
static pthread_once_t session_once = PTHREAD_ONCE_INIT;

/* C has no cast from an object's pointer to a function's, so each is read through a union. */
union read_function {
    void *symbol;
    int (*call)(SSL *session, void *buffer, int size);
};
union write_function {
    void *symbol;
    int (*call)(SSL *session, const void *buffer, int size);
};

static union read_function real_read;
static union write_function real_write;

PS_EXPORT int SSL_read(SSL *session, void *buffer, int size);
PS_EXPORT int SSL_write(SSL *session, const void *buffer, int size);

/* OpenSSL calls this when the session is freed, which gRPC does with its connection. */
static void forget(void *session, void *connection, CRYPTO_EX_DATA *data, int index, long argument,
                   void *pointer)
{
    (void)session, (void)data, (void)index, (void)argument, (void)pointer;
    if (connection != NULL)
        ps_connection_forget(connection);
}

static void find_functions(void)
{
    /* The next in the order of libraries is OpenSSL itself, or a sanitizer in front of it. */
    session_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, forget);
    real_read.symbol = dlsym(RTLD_NEXT, "SSL_read");
    real_write.symbol = dlsym(RTLD_NEXT, "SSL_write");
}

/* Once, and before any session is made: an index is not known in sessions that are older. */
void ps_front_tls_prepare(void)
{
    (void)pthread_once(&session_once, find_functions);
}

/* NULL for a session in which this process is the client: curl's to etcd, for one. */
static struct ps_connection *connection_of(SSL *session)
{
    if (session_index < 0 || !SSL_is_server(session))
        return NULL;
    struct ps_connection *connection = SSL_get_ex_data(session, session_index);
    if (connection != NULL)
        return connection;
    /* NULL as well without memory: such a connection is not looked at, rather than refused, since
     * its peer has proved who it is. */
    connection = ps_connection_of_tls();
    if (connection != NULL && SSL_set_ex_data(session, session_index, connection) != 1) {
        ps_connection_forget(connection);
        return NULL;
    }
    return connection;
}

/* gRPC looks for the reason of a failure in OpenSSL's queue, and ends the connection for any. */
static int fail(void)
{
    ERR_raise(ERR_LIB_SSL, SSL_R_BAD_LENGTH);
    return -1;
}

/* A session may be read before the door was opened: by curl, say. */
PS_EXPORT int SSL_read(SSL *session, void *buffer, int size)
{
    ps_front_tls_prepare();
    int got = real_read.call(session, buffer, size);
    struct ps_connection *connection = got > 0 ? connection_of(session) : NULL;
    if (connection == NULL)
        return got;
    const struct iovec piece = {buffer, (size_t)got};
    return ps_connection_received(connection, &piece, 1, (size_t)got) ? got : fail();
}

/* The place where a connection ends that was condemned while nothing came on it. */
PS_EXPORT int SSL_write(SSL *session, const void *buffer, int size)
{
    ps_front_tls_prepare();
    int put = real_write.call(session, buffer, size);
    struct ps_connection *connection = put > 0 ? connection_of(session) : NULL;
    if (connection == NULL)
        return put;
    const struct iovec piece = {(void *)(uintptr_t)buffer, (size_t)put};
    ps_connection_sent(connection, &piece, 1, (size_t)put);
    return ps_connection_has_ended(connection) ? fail() : put;
}
