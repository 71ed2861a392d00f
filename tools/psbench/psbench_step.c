/* SPDX-License-Identifier: Apache-2.0 */
/* The lists name the load's parameters, one run of memory has their contents. A batch or a delta is
 * over many parameters at once; their contents stand in one run of memory, which makes comparing
 * two sets of them one memcmp. Server, load and lists are opened together and closed together, also
 * when opening failed half-way. */
#include "tools/psbench/psbench_step.h"

#include "base/alloc.h"
#include "tools/psbench/psbench_load_state.h"

/* One operation in flight: a step is one call. The lists are built once and used in every step, as
 * a trainer with a fixed model would do. */
enum ps_status ps_bench_step_open(struct ps_bench_step *step, struct ps_bench *bench,
                                  enum ps_bench_promise promise, size_t parameter_count,
                                  struct ps_error *error)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    size_t size = bench->options->size;
    char name[PS_BENCH_ROW_NAME_BYTES];
    ps_bench_promised_name("server", promise, name);
    const struct ps_bench_server_wish server =
        ps_bench_server_wish_of(bench, name, ps_bench_promise_ack(promise));
    PS_TRY(ps_bench_server_start(&step->server, &server, error));
    struct ps_bench_load_wish wish = ps_bench_load_wish_of(bench, step->server.address);
    wish.parameter_count = parameter_count;
    wish.outstanding = 1;
    PS_TRY(ps_bench_load_open(&wish, &step->load, error));
    step->gradients = ps_zeroed_array(memory, parameter_count, sizeof *step->gradients);
    step->parameters = ps_zeroed_array(memory, parameter_count, sizeof *step->parameters);
    step->content = ps_zeroed_array(memory, parameter_count, size);
    if (step->gradients == NULL || step->parameters == NULL || step->content == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu parameters", parameter_count);
    for (size_t i = 0; i < parameter_count; i++) {
        const struct ps_bench_parameter *parameter = &step->load->parameters[i];
        step->gradients[i] = ps_bench_load_gradient(step->load, parameter);
        step->parameters[i] = ps_bench_load_pulled(step->load, parameter, step->content + i * size);
    }
    return PS_OK;
}

/* Accepts a step whose opening failed anywhere. */
void ps_bench_step_close(struct ps_bench_step *step)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    ps_bench_load_close(step->load);
    ps_bench_server_kill(&step->server);
    ps_release(memory, step->gradients);
    ps_release(memory, step->parameters);
    ps_release(memory, step->content);
}
