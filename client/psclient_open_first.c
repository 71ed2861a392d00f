/* SPDX-License-Identifier: Apache-2.0 */
/* The symbol psclient_open for programs that were compiled when psclient_open was a function of the
 * library, or that look it up by name. In the header it is an inline function by now, which tells
 * the library how long the program's structs are: so this file does without the header, whose
 * function has the same name. */
#include "base/attributes.h"

struct psclient;
struct psclient_options;
struct psclient_error;

int ps_client_open_first(const struct psclient_options *options, struct psclient **client,
                         struct psclient_error *error);
int psclient_open(const struct psclient_options *options, struct psclient **client,
                  struct psclient_error *error);

/* A program that says nothing of its structs has those of the first header. */
PS_EXPORT int psclient_open(const struct psclient_options *options, struct psclient **client,
                            struct psclient_error *error)
{
    return ps_client_open_first(options, client, error);
}
