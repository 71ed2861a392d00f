/* SPDX-License-Identifier: Apache-2.0 */
/* Open rounds, clocks and candidates of a shard's state: the records of a checkpoint's sections, in
 * the rooms of the state.
 *
 * Threads:  one.
 * Blocking: reading waits for the disk.
 * Errors:   PS_ERR_NO_MEMORY, and what is said at the functions.
 * Memory:   everything lives as long as the state.
 */
#ifndef PS_TOOLS_STATE_SECTIONS_H
#define PS_TOOLS_STATE_SECTIONS_H

#include "checkpoint/journal.h"
#include "tools/psckpt/sha256.h"
#include "tools/psckpt/shard_state.h"

/* Reads all sections of a file into the facts of `state`, which had none.
 * PS_ERR_CORRUPT, PS_ERR_UNSUPPORTED, PS_ERR_IO   as ps_checkpoint_next_record says */
PS_MUST_USE enum ps_status state_sections_read(struct shard_state *state,
                                               struct ps_checkpoint_reader *reader,
                                               struct ps_error *error);

/* For a state whose parameters come of several files: which records of one of them it takes. Files
 * have numbers, the newest 0. */
struct section_choice {
    const size_t *files;  /* of each parameter of the state: the file that it was taken from */
    size_t file;          /* the one that is read */
    bool clocks;          /* its clocks as well, which belong to no parameter */
    size_t contributions; /* counted up: left out, and the parameter is older than this file, or */
    size_t tables;        /* not there; and records of candidates likewise */
};

/* Reads one section of a file behind what the state has of it: the records of those parameters that
 * are of that file and of the version that the records are of; without `choice` all of them, and
 * nothing was there. A state of several files asks for each of them, in any order: the records of
 * one parameter stay together, since they are of one file, and in their order, which is what
 * whoever loads a section relies on (evictions stand in front of contributions). After a failure
 * the section is as it was. Errors as above. */
PS_MUST_USE enum ps_status state_sections_read_chosen(struct shard_state *state,
                                                      struct ps_checkpoint_reader *reader,
                                                      enum ps_checkpoint_section section,
                                                      struct section_choice *choice,
                                                      struct ps_error *error);

/* Empties a section of the state, which then has room for so many records; and puts copies of them
 * there, one by one. */
PS_MUST_USE enum ps_status state_sections_begin(struct shard_state *state,
                                                enum ps_checkpoint_section section, size_t count,
                                                struct ps_error *error);
PS_MUST_USE enum ps_status state_sections_put(struct shard_state *state,
                                              enum ps_checkpoint_section section,
                                              const struct ps_record *record,
                                              struct ps_error *error);

/* Puts what resharding keeps into each of `shards`: all clocks of `states`, each worker at the
 * highest that any shard has heard, since a worker counts up at all of them once its pushes are
 * done; and the candidates of its tables, each at the shard that has the key. Evictions are not
 * kept; `*evicted` counts them.
 *
 * PS_ERR_UNSUPPORTED  a round is open: its contributions are to ranges as they were cut
 * PS_ERR_CORRUPT      a record that no server writes */
PS_MUST_USE enum ps_status state_sections_merge(const struct shard_state *states,
                                                size_t state_count, struct shard_state *shards,
                                                size_t shard_count, size_t *evicted,
                                                struct ps_error *error);

/* The contributions that are held. */
size_t state_sections_held(const struct ps_checkpoint_facts *facts);

/* Adds all records to a digest; nothing when there are none. */
void state_sections_add(const struct ps_checkpoint_facts *facts, struct sha256 *hash);

#endif
