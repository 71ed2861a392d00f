/* SPDX-License-Identifier: Apache-2.0 */
/* Every metric of the server's core, in one table.
 *
 * Threads:  init at start-up; updates from any thread.
 * Blocking: never.
 * Errors:   a metric that cannot be registered is NULL, and updating it does nothing.
 * Memory:   the metrics belong to their registry.
 */
#ifndef PS_SERVER_CORE_CORE_METRICS_H
#define PS_SERVER_CORE_CORE_METRICS_H

#include "base/metrics.h"

/* X(kind, field, name, help) */
#define PS_CORE_METRICS_TABLE(X)                                                                  \
    X(counter, pushes, "ps_pushes_total", "Gradients applied or skipped.")                        \
    X(counter, pushes_refused, "ps_pushes_refused_total", "Gradients refused for any reason.")    \
    X(counter, pushes_duplicate, "ps_pushes_duplicate_total",                                     \
      "Repeats that were answered and not applied again.")                                        \
    X(counter, pushes_without_id, "ps_pushes_without_id_total",                                   \
      "Gradients applied without a request id: a repeat of one is applied again.")                \
    X(counter, lost_pushes, "ps_lost_pushes_total",                                               \
      "Gradients that were acknowledged once and are not in what was recovered.")                 \
    X(counter, push_bytes, "ps_push_bytes_total", "Content of gradients that were applied.")      \
    X(counter, push_copied_bytes, "ps_push_copied_bytes_total",                                   \
      "Of that, what was copied on the way (for the journal, when it is short).")                 \
    X(counter, pulls, "ps_pulls_total", "Parameters read.")                                       \
    X(counter, pull_bytes, "ps_pull_bytes_total", "Content of replies to pulls.")                 \
    X(counter, pull_encoded_bytes, "ps_pull_encoded_bytes_total",                                 \
      "Bytes of replies that were copied, because they were asked for in another encoding.")      \
    X(counter, deltas, "ps_delta_pulls_total", "Parameters that delta pulls brought up to date.") \
    X(counter, deltas_whole, "ps_delta_pulls_whole_total",                                        \
      "Of these, with every block, or every row of a table.")                                     \
    X(counter, delta_saved_bytes, "ps_delta_saved_bytes_total",                                   \
      "Bytes that delta pulls left out, since the caller had them.")                              \
    X(gauge, staged_bytes, "ps_staged_bytes", "Bytes of requests that wait for ranges.")          \
    X(gauge, staged, "ps_staged_requests", "Requests that wait for ranges.")                      \
    X(counter, staged_expired, "ps_staged_expired_requests_total",                                \
      "Requests in ranges that were dropped: the rest did not come.")                             \
    X(counter, pushes_early, "ps_pushes_ahead_total",                                             \
      "Gradients in ranges that were applied as they came, before all was there.")                \
    X(counter, tensors_sent, "ps_tensors_sent_total", "Values that were sent under a key.")       \
    X(counter, tensors_received, "ps_tensors_received_total",                                     \
      "Receives that were answered, with a value or without.")                                    \
    X(counter, tensor_bytes, "ps_tensor_bytes_total", "Content of values that were sent.")        \
    X(counter, program_asks, "ps_program_asks_total", "Requests of workers to programs.")         \
    X(counter, program_ask_bytes, "ps_program_ask_bytes_total", "Content of such requests.")      \
    X(counter, program_answers, "ps_program_answers_total", "Requests that a program answered.")  \
    X(gauge, program_apps, "ps_program_apps", "Apps that somebody asks or serves.")               \
    X(gauge, program_bytes, "ps_program_bytes", "Bytes of requests and of kept answers.")         \
    X(gauge, rendezvous_steps, "ps_rendezvous_steps", "Steps in which values wait, or receives.") \
    X(gauge, rendezvous_bytes, "ps_rendezvous_bytes", "Bytes of values that wait for receivers.") \
    X(gauge, pinned_bytes, "ps_pinned_bytes", "Bytes of versions that are read in ranges.")       \
    X(counter, rounds_complete, "ps_rounds_complete_total",                                       \
      "Rounds that ended with all contributions that they needed.")                               \
    X(counter, rounds_by_grace, "ps_rounds_by_grace_total",                                       \
      "Rounds that ended without some: their grace time was over.")                               \
    X(counter, round_contributions, "ps_round_contributions_total",                               \
      "Gradients that count in a round.")                                                         \
    X(counter, round_late, "ps_round_late_total", "Of these, in a later round than their own.")   \
    X(counter, round_dropped, "ps_round_dropped_total",                                           \
      "Gradients that came too late for their round, and count nowhere.")                         \
    X(gauge, round_held_bytes, "ps_round_held_bytes",                                             \
      "Bytes of gradients that wait for the others of their rounds.")                             \
    X(histogram, round_seconds, "ps_round_seconds",                                               \
      "Time from the first contribution to the end of a round.")                                  \
    X(histogram, push_seconds, "ps_push_seconds", "Time to apply one gradient.")                  \
    X(gauge, parameters, "ps_parameters", "Parameters of this shard.")                            \
    X(gauge, parameter_bytes, "ps_parameter_bytes", "Bytes of all values.")                       \
    X(gauge, state_bytes, "ps_state_bytes", "Bytes of all optimizer states.")                     \
    X(gauge, table_rows, "ps_table_rows", "Rows of all tables.")                                  \
    X(gauge, table_device_rows, "ps_table_device_rows",                                           \
      "Rows whose values and states are on a device.")                                            \
    X(gauge, table_candidates, "ps_table_candidates",                                             \
      "Keys of tables that are counted until they get a row (admission).")                        \
    X(gauge, table_bytes, "ps_table_bytes", "Bytes of rows, their states and their index.")       \
    X(counter, table_evicted, "ps_table_evicted_total",                                           \
      "Rows that went to make room for others (rows_max).")                                       \
    X(counter, table_expired, "ps_table_expired_total",                                           \
      "Rows that went since nobody pushed to them (expire_ms, expire_clocks).")                   \
    X(gauge, counted_bytes, "ps_counted_bytes", "Bytes that count for --memory-bytes.")           \
    X(gauge, device_parameters, "ps_device_parameters",                                           \
      "Parameters of this shard that live on a device.")                                          \
    X(gauge, device_used, "ps_device_used_bytes", "Bytes of the device that are taken.")          \
    X(gauge, device_budget, "ps_device_budget_bytes", "Bytes of the device that may be taken.")   \
    X(gauge, device_pinned, "ps_device_pinned_bytes",                                             \
      "Bytes of the host's memory that the device copies from and to by itself.")                 \
    X(gauge, device_pinned_max, "ps_device_pinned_limit_bytes",                                   \
      "Most of them for values that readers get, the ring aside.")                                \
    X(counter, device_launches, "ps_device_launches_total", "Update kernels launched.")           \
    X(counter, device_copies, "ps_device_copies_total",                                           \
      "Copies that the device was asked for, over the bus and on it.")                            \
    X(counter, device_direct, "ps_device_direct_bytes_total",                                     \
      "Bytes of gradients that the device copied from where a client had them.")                  \
    X(counter, device_in_place, "ps_device_in_place_bytes_total",                                 \
      "Bytes of gradients that kernels read from a client's own memory of the device.")           \
    X(counter, device_waits, "ps_device_waits_total",                                             \
      "Times that a thread waited for the device.")                                               \
    X(gauge, position, "ps_position", "Pushes applied in the life of the shard.")                 \
    X(gauge, durable_position, "ps_durable_position", "Pushes that would survive a crash.")       \
    X(gauge, journal_queued, "ps_journal_queue_bytes",                                            \
      "Bytes of gradients that wait for the disk, as --journal-queue-bytes counts them.")         \
    X(gauge, journal_behind, "ps_journal_behind_bytes",                                           \
      "Bytes of the journal behind the newest checkpoint, in whole blocks of the disk.")          \
    X(gauge, clocks, "ps_clocks", "Clocks by which reads of workers are timed.")                  \
    X(gauge, clock_minimum, "ps_clock_minimum",                                                   \
      "Iterations that all workers have ended who are waited for, of the slowest clocks.")        \
    X(histogram, clock_wait_seconds, "ps_clock_wait_seconds",                                     \
      "Time that a worker's read waited for slower workers, of those that waited.")               \
    X(counter, clock_evictions, "ps_clock_evictions_total",                                       \
      "Workers that were not waited for any more, after ttl_ms of silence.")                      \
    X(gauge, clients, "ps_clients", "Clients whose requests are remembered.")                     \
    X(counter, clients_forgotten, "ps_clients_forgotten_total",                                   \
      "Clients forgotten since others came (--clients-max).")                                     \
    X(counter, clients_forgotten_early, "ps_clients_forgotten_early_total",                       \
      "Of these, clients that were silent for less than --client-idle.")                          \
    X(counter, checkpoints, "ps_checkpoints_total", "Checkpoints saved and published.")           \
    X(counter, checkpoint_failures, "ps_checkpoint_failures_total", "Checkpoints that failed.")   \
    X(counter, checkpoint_increments, "ps_checkpoint_increments_total",                           \
      "Of the checkpoints, those that add to a whole one.")                                       \
    X(counter, checkpoint_increment_bytes, "ps_checkpoint_increment_bytes_total",                 \
      "Bytes of these.")                                                                          \
    X(histogram, checkpoint_seconds, "ps_checkpoint_seconds", "Time to save one checkpoint.")     \
    X(gauge, checkpoint_bytes, "ps_checkpoint_bytes", "Size of the newest checkpoint.")           \
    X(gauge, checkpoint_position, "ps_checkpoint_position", "Position of the newest checkpoint.") \
    X(gauge, checkpoint_timestamp, "ps_checkpoint_timestamp_seconds",                             \
      "When the newest checkpoint was taken, in seconds since 1970.")

/* X(field, labels): why such an attempt came to nothing. */
#define PS_EARLY_FAILED_TABLE(X)                    \
    X(early_overtaken, "reason=\"overtaken\"")      \
    X(early_without_memory, "reason=\"no_memory\"") \
    X(early_not_finite, "reason=\"not_finite\"")

/* X(field, labels): reads of workers, by how many iterations the slowest was behind. */
#define PS_CLOCK_READS_TABLE(X)           \
    X(clock_reads_0, "staleness=\"0\"")   \
    X(clock_reads_1, "staleness=\"1\"")   \
    X(clock_reads_2, "staleness=\"2\"")   \
    X(clock_reads_3, "staleness=\"3\"")   \
    X(clock_reads_4, "staleness=\"4-7\"") \
    X(clock_reads_8, "staleness=\"8-\"")

struct ps_core_metrics {
#define PS_CORE_METRICS_FIELD(kind, field, name, help) struct ps_##kind *field;
    PS_CORE_METRICS_TABLE(PS_CORE_METRICS_FIELD)
#undef PS_CORE_METRICS_FIELD
#define PS_EARLY_FAILED_FIELD(field, labels) struct ps_counter *field;
    PS_EARLY_FAILED_TABLE(PS_EARLY_FAILED_FIELD)
#undef PS_EARLY_FAILED_FIELD
#define PS_CLOCK_READS_FIELD(field, labels) struct ps_counter *field;
    PS_CLOCK_READS_TABLE(PS_CLOCK_READS_FIELD)
#undef PS_CLOCK_READS_FIELD
};

/* Registers all of them; `registry` may be NULL: then every field is. */
void ps_core_metrics_init(struct ps_core_metrics *metrics, struct ps_metrics *registry);

#endif
