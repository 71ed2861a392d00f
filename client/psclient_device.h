/* SPDX-License-Identifier: Apache-2.0 */
/* Beside psclient.h: gradients and parameters that are in a GPU's memory, and stay there.
 *
 *     struct psclient_device *device;
 *     psclient_device_load(NULL, &device, &error);
 *     gradient.content = gradient_on_the_gpu;               cudaStreamSynchronize(stream);
 *     psclient_push_device(client, device, &gradient, 1, 30000, results, &error);
 *     psclient_pull_device(client, device, &parameter, 1, 30000, results, &error);
 *
 * Where a server on this host keeps the parameter on the same GPU, it reads the gradient where it
 * is, and copies values to where they are wanted: nothing crosses the bus. Everywhere else the same
 * calls do the same by way of the host. docs/gpu.md says which is when, and what a journal costs.
 *
 * The order of the GPU's work is the caller's to see to. Before the call everything that writes the
 * gradient, or uses the parameter's memory, must be done (the stream was synchronised: an event
 * that was only recorded is not enough, since the server is another process). When the call has
 * returned PSCLIENT_OK, servers have read the gradient and written the parameter, and any stream
 * may use both.
 *
 * A call that fails may leave a server that still reads or writes. These functions wait for that,
 * for as long as their timeout lets them and 2 s more; where a server has not let go by then, the
 * text ends with "the server may still use the memory": then it is to be left as it is until
 * psclient_device_forget says so.
 *
 * Threads:  as psclient.h says; a device may be used by any number of clients and threads.
 * Blocking: at most `timeout_ms`, and what was said above.
 * Errors:   as in psclient.h.
 * Memory:   the caller's, borrowed for the call; but a server keeps a piece of GPU memory open that
 *           it was told of (as cudaMalloc gave it out, 64 at a time): before it is given back with
 *           cudaFree, and torch's before torch.cuda.empty_cache(), call psclient_device_forget or
 *           psclient_close.
 */
#ifndef PSCLIENT_DEVICE_H
#define PSCLIENT_DEVICE_H

#include "psclient.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A loaded plugin, which knows the memory of one kind of device. */
struct psclient_device;

/* Loads the plugin: a path (with a slash), or the name of one beside libpsclient.so, or in the
 * folder pserver beside that; NULL: "cuda". It needs a driver only when it is used.
 *
 * PSCLIENT_INVALID  there is none, or it is of another version than this library
 */
int psclient_device_load(const char *plugin, struct psclient_device **device,
                         struct psclient_error *error);

/* No call may use it any more. What was loaded stays loaded. NULL is allowed. */
void psclient_device_unload(struct psclient_device *device);

/* As psclient_push, with contents at addresses of the GPU. They go as they are, in the parameter's
 * own type: the encodings of the client's options, and those of halves, are the host's work. All
 * that psclient_push promises holds: a push that was sent one way and then the other counts once.
 * */
int psclient_push_device(struct psclient *client, struct psclient_device *device,
                         const struct psclient_gradient *gradients, size_t count,
                         uint64_t timeout_ms, struct psclient_result *results,
                         struct psclient_error *error);

/* As psclient_pull, into memory of the GPU, values of one version each. After a failure the
 * content is undefined. */
int psclient_pull_device(struct psclient *client, struct psclient_device *device,
                         struct psclient_parameter *parameters, size_t count, uint64_t timeout_ms,
                         struct psclient_result *results, struct psclient_error *error);

/* Has servers let go of the piece that `memory` lies in, and of all that they were to let go of
 * before. PSCLIENT_UNAVAILABLE: one has not within that time. */
int psclient_device_forget(struct psclient *client, struct psclient_device *device,
                           const void *memory, uint64_t timeout_ms, struct psclient_error *error);

/* Bytes of content that servers have read and written in a GPU's memory so far. */
uint64_t psclient_device_bytes(const struct psclient *client);

/* ---- For programs that have no other use for a GPU: a piece of its memory, and copies ---- */

int psclient_device_acquire(struct psclient_device *device, size_t size, void **memory,
                            struct psclient_error *error);
void psclient_device_release(struct psclient_device *device, void *memory);
int psclient_device_copy_in(struct psclient_device *device, void *memory, const void *from,
                            size_t size, struct psclient_error *error);
int psclient_device_copy_out(struct psclient_device *device, void *to, const void *memory,
                             size_t size, struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
