/* SPDX-License-Identifier: Apache-2.0 */
/* Which device a server keeps its parameters on: the words of --device, the plugin that knows such
 * devices, and the device opened.
 *
 * Plugins are libpserver_cuda.so and libpserver_emu.so (the emulator, in test builds) in the folder
 * of the program, or in ../lib/pserver beside it. One is loaded when it is needed, and never
 * unloaded: CUDA's libraries cannot be.
 *
 * Threads:  one, at start; a uuid changes the environment (CUDA_VISIBLE_DEVICES).
 * Blocking: choosing loads a library and tries the device; seconds with CUDA.
 * Errors:   PS_ERR_UNAVAILABLE and what the plugin gave: the device cannot be had.
 * Memory:   in place; what was opened ends with ps_device_choice_close.
 */
#ifndef PS_SERVER_DEVICE_CHOICE_H
#define PS_SERVER_DEVICE_CHOICE_H

#include "server/core/update/device_store.h"

enum ps_device_kind { PS_DEVICE_AUTO, PS_DEVICE_CPU, PS_DEVICE_CUDA, PS_DEVICE_EMU };

/* "auto", "cpu", "emu", "cuda:0", "cuda:GPU-..." or "cuda:MIG-...". */
struct ps_device_name {
    enum ps_device_kind kind;
    uint32_t ordinal;
    const char *uuid; /* points into the text; NULL: by ordinal */
};

/* PS_ERR_BAD_INPUT: none of these. */
PS_MUST_USE enum ps_status ps_device_name_parse(const char *text, struct ps_device_name *name,
                                                struct ps_error *error);

struct ps_device_choice_options {
    const char *device;       /* the text of --device; borrowed for the call */
    const char *data_dir;     /* where failures are noted; borrowed for the call; may be NULL */
    uint64_t memory_bytes;    /* the budget; 0: the device's default */
    uint64_t min_bytes;       /* as in struct ps_device_store */
    uint64_t readers_bytes;   /* as in struct ps_device_store */
    uint64_t wait_ms;         /* as in struct ps_device_options */
    const struct ps_log *log; /* borrowed; outlives the choice */
    void (*died)(void *self, const char *text); /* as in struct ps_device_options */
    void *self;
};

struct ps_device_choice {
    struct ps_device_store store; /* its device is NULL on the CPU */
    char text[192];               /* "cpu", or the device with name and uuid: for status */
};

/* Chooses, and logs what was chosen and why. With "auto" a device that cannot be had is a reason
 * for the CPU; with the name of a device it is an error. */
PS_MUST_USE enum ps_status ps_device_choose(const struct ps_device_choice_options *options,
                                            struct ps_device_choice *choice,
                                            struct ps_error *error);

/* Everything that lived on the device has ended. Accepts a zeroed one. */
void ps_device_choice_close(struct ps_device_choice *choice);

#endif
