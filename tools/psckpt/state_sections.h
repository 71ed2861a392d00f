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

/* Leaves those records of rounds and candidates out that do not fit the state's parameters: their
 * parameter is not there, or is at another version than they are of. `*contributions` and `*tables`
 * count the contributions and the records of candidates among them. For a state whose records were
 * read here. */
void state_sections_fit(struct shard_state *state, size_t *contributions, size_t *tables);

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
