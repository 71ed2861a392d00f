// SPDX-License-Identifier: Apache-2.0
/* Threads of a block as fibers. A fiber takes one CUDA thread after the other and runs each to its
 * end; only when a thread has to wait is another fiber begun. So a kernel without barriers costs
 * no switch at all. */
#include "optimizer/emulator/kernel_emulator.hpp"

#include <cstdio>
#include <memory>
#include <mutex>
#include <ucontext.h>
#include <utility>
#include <vector>

/* What CUDA has as variables is variables here. All of this belongs to whoever holds `running`. */
struct ps_kernels_index threadIdx, blockIdx, blockDim, gridDim;

namespace
{

const size_t STACK_BYTES = 256 * 1024;
const unsigned WARP = 32;

enum class waits { no, for_block, for_warp };

struct fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    unsigned thread;
    waits waiting;
};

std::mutex running;
uint32_t shuffle_seed;
int mutation;

/* The block that runs. */
std::vector<std::unique_ptr<fiber>> fibers; /* those that wait, then those that are free */
std::vector<unsigned> order;                /* in which threads start */
std::vector<char> finished;                 /* by thread */
std::vector<char> votes;                    /* by thread */
size_t waiting;                             /* fibers that wait */
unsigned next_thread;
fiber *current;
ucontext_t scheduler;
const std::function<void()> *body;
uint32_t random_state;

uint32_t random_number()
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* Runs threads until one has to wait or none is left. */
void work()
{
    for (;;) {
        while (next_thread < order.size()) {
            current->thread = order[next_thread++];
            threadIdx.x = current->thread;
            (*body)();
            finished[current->thread] = 1;
        }
        current->waiting = waits::no;
        swapcontext(&current->context, &scheduler);
    }
}

void enter(fiber *it)
{
    current = it;
    threadIdx.x = it->thread;
    swapcontext(&scheduler, &it->context);
}

void wait(waits what)
{
    fiber *self = current;
    self->waiting = what;
    swapcontext(&self->context, &scheduler);
}

fiber *free_fiber()
{
    if (waiting < fibers.size())
        return fibers[waiting].get();
    fibers.emplace_back(new fiber());
    fiber *it = fibers.back().get();
    it->stack.reset(new char[STACK_BYTES]);
    getcontext(&it->context);
    it->context.uc_stack.ss_sp = it->stack.get();
    it->context.uc_stack.ss_size = STACK_BYTES;
    it->context.uc_link = nullptr;
    makecontext(&it->context, work, 0);
    return it;
}

/* How many threads are done or wait for each other: of each warp, and of the block. */
struct arrivals {
    std::vector<size_t> done, warp;
    size_t done_all, block_all;
};

arrivals count_arrivals()
{
    size_t warps = (order.size() + WARP - 1) / WARP;
    arrivals here{std::vector<size_t>(warps), std::vector<size_t>(warps), 0, 0};
    for (size_t i = 0; i < order.size(); i++) {
        here.done[i / WARP] += finished[i] != 0;
        here.done_all += finished[i] != 0;
    }
    for (size_t i = 0; i < waiting; i++) {
        if (fibers[i]->waiting == waits::for_block)
            here.block_all++;
        else
            here.warp[fibers[i]->thread / WARP]++;
    }
    return here;
}

/* Has everybody come to the barrier this fiber waits at? Threads that are done count as come. */
bool may_go_on(const fiber &it, const arrivals &here)
{
    if (it.waiting == waits::for_block)
        return here.done_all + here.block_all == order.size();
    size_t warp = it.thread / WARP;
    size_t threads = order.size() - warp * WARP;
    return here.done[warp] + here.warp[warp] == (threads < WARP ? threads : WARP);
}

/* Those that may go on now. Decided for all before the first moves. */
std::vector<fiber *> released()
{
    std::vector<fiber *> list;
    arrivals here = count_arrivals();
    for (size_t i = 0; i < waiting; i++)
        if (may_go_on(*fibers[i], here))
            list.push_back(fibers[i].get());
    for (size_t i = list.size(); shuffle_seed != 0 && i > 1; i--)
        std::swap(list[i - 1], list[random_number() % i]);
    return list;
}

/* Keeps the fibers that wait in front. */
void sort_fibers()
{
    waiting = 0;
    for (size_t i = 0; i < fibers.size(); i++)
        if (fibers[i]->waiting != waits::no)
            std::swap(fibers[waiting++], fibers[i]);
}

void run_block()
{
    next_thread = 0;
    finished.assign(order.size(), 0);
    while (next_thread < order.size() || waiting > 0) {
        while (next_thread < order.size()) {
            enter(free_fiber());
            sort_fibers();
        }
        std::vector<fiber *> list = released();
        if (list.empty() && waiting > 0) {
            fprintf(stderr, "emulator: %zu threads wait at a barrier that others never reach\n",
                    waiting);
            abort();
        }
        for (fiber *it : list)
            enter(it);
        sort_fibers();
    }
}

void order_threads(unsigned block)
{
    order.resize(block);
    for (unsigned i = 0; i < block; i++)
        order[i] = i;
    for (unsigned i = block; shuffle_seed != 0 && i > 1; i--)
        std::swap(order[i - 1], order[random_number() % i]);
}

} // namespace

void ps_kernels_barrier()
{
    wait(waits::for_block);
}

unsigned ps_kernels_ballot(bool bit)
{
    unsigned first = current->thread / WARP * WARP;
    votes[current->thread] = bit;
    wait(waits::for_warp);
    unsigned mask = 0;
    for (unsigned i = 0; i < WARP && first + i < votes.size(); i++)
        mask |= (unsigned)(votes[first + i] != 0) << i;
    wait(waits::for_warp); /* Nobody votes again before all have read. */
    return mask;
}

void ps_kernels_start(unsigned grid, unsigned block, const std::function<void()> &thread)
{
    std::lock_guard<std::mutex> hold(running);
    body = &thread;
    random_state = shuffle_seed;
    blockDim.x = block;
    gridDim.x = grid;
    votes.assign(block, 0);
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) {
        order_threads(block);
        run_block();
    }
}

void ps_kernels_shuffle(uint32_t seed)
{
    std::lock_guard<std::mutex> hold(running);
    shuffle_seed = seed;
}

void ps_kernels_mutate(int number)
{
    std::lock_guard<std::mutex> hold(running);
    mutation = number;
}

int ps_kernels_mutation(void)
{
    return mutation;
}
