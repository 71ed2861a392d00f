/* SPDX-License-Identifier: Apache-2.0 */
/* The .proto files as serialized FileDescriptorProtos, built into the program: what the reflection
 * service hands out.
 *
 * Threads:  constant data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   static.
 */
#ifndef PS_PROTO_DESCRIPTORS_H
#define PS_PROTO_DESCRIPTORS_H

#include "base/bytes.h"

#include <stdbool.h>

/* A FileDescriptorSet of all files. None of them imports another. */
struct ps_bytes ps_descriptor_set(void);

/* Finds a file by its name: "pserver/v1/pserver.proto". */
bool ps_descriptor_of_file(struct ps_bytes name, struct ps_bytes *file);

/* Finds the file that defines a service, method, message or enum, by its full name:
 * "pserver.v1.ParameterServer.SendGrad". */
bool ps_descriptor_of_symbol(struct ps_bytes symbol, struct ps_bytes *file);

#endif
