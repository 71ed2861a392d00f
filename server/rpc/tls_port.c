/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC asks for a configuration at each handshake and keeps the former one when there is none. The
 * question holds up a lane, so it is answered from memory. gRPC does not tell when it refuses what
 * it was given, and would go on with the former one for ever: hence everything is checked before
 * (security/certificate_files.c). */
#include "server/rpc/tls_port.h"

#include "base/assert.h"
#include "base/thread.h"

struct ps_tls_port {
    struct ps_access *access;          /* borrowed */
    const struct ps_allocator *memory; /* borrowed */
    struct ps_mutex lock;              /* PS_RANK_QUEUE: handshakes run on any lane */
    uint64_t number;                   /* of the set that gRPC has; guarded by the lock */
};

static grpc_ssl_certificate_config_reload_status fetch(void *self,
                                                       grpc_ssl_server_certificate_config **config);

/* Nothing is asked of the access yet: gRPC does that when the address is bound. */
enum ps_status ps_tls_port_create(struct ps_access *access, const struct ps_allocator *memory,
                                  struct ps_tls_port **port, struct ps_error *error)
{
    PS_ASSERT(ps_access_has_tls(access));
    struct ps_tls_port *made = ps_zeroed(memory, sizeof *made);
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no memory for TLS");
    made->access = access;
    made->memory = memory;
    ps_mutex_init(&made->lock, PS_RANK_QUEUE);
    *port = made;
    return PS_OK;
}

/* Of gRPC's five ways the three that check what they are shown. */
static grpc_ssl_client_certificate_request_type request_of(enum ps_client_auth client_auth)
{
    switch (client_auth) {
    case PS_CLIENT_AUTH_NONE:
        return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    case PS_CLIENT_AUTH_REQUEST:
        return GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
    case PS_CLIENT_AUTH_REQUIRE:
        break;
    }
    return GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
}

grpc_server_credentials *ps_tls_port_credentials(struct ps_tls_port *port,
                                                 enum ps_client_auth client_auth)
{
    /* gRPC takes the options with the credentials that it makes of them. */
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(request_of(client_auth),
                                                                        fetch, port));
}

/* First when the port is bound, then at each handshake. The lock is held until the configuration is
 * made, so that of two handshakes the later one never hands out the older set. */
static grpc_ssl_certificate_config_reload_status fetch(void *self,
                                                       grpc_ssl_server_certificate_config **config)
{
    struct ps_tls_port *port = self;
    /* Lanes hold no other lock when they shake hands. */
    ps_mutex_lock(&port->lock);
    /* NULL where gRPC has the present set already, which is the case for nearly all handshakes. */
    struct ps_certificates *set = ps_access_certificates(port->access, &port->number);
    if (set != NULL) {
        /* One pair: a server has one name, or all of its names in one certificate. */
        const grpc_ssl_pem_key_cert_pair pair = {set->key, set->chain};
        /* gRPC 1.51 ends the process when there are no authorities, also where clients are not
         * asked for a certificate: then these are never looked at. */
        *config = grpc_ssl_server_certificate_config_create(
            set->authorities != NULL ? set->authorities : set->chain, &pair, 1);
        ps_certificates_release(set); /* gRPC has copied the texts */
    }
    ps_mutex_unlock(&port->lock);
    return set != NULL ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW
                       : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
}

/* After gRPC's server, whose handshakes ask. */
void ps_tls_port_destroy(struct ps_tls_port *port)
{
    if (port == NULL)
        return;
    ps_mutex_fini(&port->lock);
    ps_release(port->memory, port);
}
