/* SPDX-License-Identifier: Apache-2.0 */
/* A job: parameters that are spread over its shards as docs/placement.md says. What is left out:
 * parameters above 16 MiB on several servers, ranges and batches (../python/trainer.py has them).
 *
 * Threads:  a job belongs to one thread.
 * Blocking: a call returns within PATIENCE.
 * Errors:   a Failure, with the server's word for it.
 * Memory:   what is passed is borrowed for the call.
 */
#ifndef PSERVER_JOB_H
#define PSERVER_JOB_H

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "pserver/v1/optimizer_config.pb.h"
#include "pserver_client.h"

constexpr std::size_t SPLIT_BYTES = 16 << 20; // larger parameters are cut over all servers
constexpr std::uint64_t RIGHT_MS = 60000;     // longer than giving the values takes
constexpr std::uint64_t TURN_MS = 5000;       // that a server waits before it answers

struct Parameter {
    std::string name;
    std::vector<float> values;
};

/* A job: its shards in their order. */
class Job
{
  public:
    explicit Job(const Addresses &seeds)
    {
        Addresses addresses = discover(seeds);
        for (const auto give_up = Clock::now() + PATIENCE; addresses.empty();) {
            if (Clock::now() > give_up)
                throw Failure("", "no server answers, or nobody serves one of the shards");
            std::this_thread::sleep_for(wait_of(PAUSE_MAX, ""));
            addresses = discover(seeds);
        }
        for (std::size_t i = 0; i < addresses.size(); i++)
            shards.push_back(std::make_unique<Shard>(seeds, i, addresses));
    }

    /* Gives the job its first values, if this trainer is the one of all that has the right to
     * (docs/discovery.md); returns when the job has them, of whomever. */
    void initialise(const std::vector<Parameter> &parameters, const paddle::OptimizerConfig &config)
    {
        std::random_device chance;
        ps::BeginInitRequest ask;
        ask.set_client(std::uint64_t(chance()) << 32 | chance() | 1);
        ask.set_ttl_ms(RIGHT_MS);
        ask.set_wait_ms(TURN_MS);
        ask.set_placement(1); /* the classic rule, if nobody has decided on another */
        for (bool is_done = false; !is_done;) {
            try {
                is_done = take_turn(&ask, parameters, config);
            } catch (const Failure &failure) {
                if (failure.word == "unimplemented") /* older servers */
                    return give(parameters, config);
                if (failure.word == "stale_epoch") /* the right was lost */
                    ask.set_right(0);
                else if (failure.word != "conflict") /* that is a shard which has begun anew */
                    throw;
            }
        }
    }

    ps::SendGradResponse push(const std::string &name, const std::vector<float> &gradient)
    {
        ps::SendGradRequest request;
        request.set_name(name);
        request.set_element_type(ps::FLOAT32);
        request.set_content(gradient.data(), gradient.size() * sizeof(float));
        return shard_of(name).change<ps::SendGradResponse>(&ps::ParameterServer::Stub::SendGrad,
                                                           request);
    }

    std::vector<float> pull(const std::string &name)
    {
        ps::GetParamRequest request;
        request.set_name(name);
        auto reply = shard_of(name).read<ps::GetParamResponse>(&ps::ParameterServer::Stub::GetParam,
                                                               request);
        std::vector<float> values(reply.content().size() / sizeof(float));
        std::memcpy(values.data(), reply.content().data(), values.size() * sizeof(float));
        return values;
    }

    /* In their order, for what every shard has a part of. */
    std::vector<std::unique_ptr<Shard>> &all_shards()
    {
        return shards;
    }

  private:
    std::vector<std::unique_ptr<Shard>> shards;
    std::uint64_t placement = 0; /* by which parameters have their shards */

    /* Where a parameter lives; every client of the job must come to the same. */
    Shard &shard_of(const std::string &name)
    {
        std::uint32_t classic = 2166136261u;
        std::uint64_t z = 0xcbf29ce484222325u;
        for (unsigned char byte : name) {
            classic = (classic ^ byte) * 16777619u;
            z = (z ^ byte) * 0x100000001b3u;
        }
        if (placement <= 1)
            return *shards[classic % shards.size()];
        z += placement * 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return *shards[(z ^ z >> 31) % shards.size()];
    }

    /* False: others are before this trainer. */
    bool take_turn(ps::BeginInitRequest *ask, const std::vector<Parameter> &parameters,
                   const paddle::OptimizerConfig &config)
    {
        using Stub = ps::ParameterServer::Stub;
        auto begun = shards[0]->read<ps::BeginInitResponse>(&Stub::BeginInit, *ask);
        ask->set_right(begun.right());
        placement = begun.placement();
        if (begun.turn() != 1)
            return begun.turn() == 2;
        give(parameters, config);
        ps::EndInitRequest end;
        end.set_client(ask->client());
        end.set_right(begun.right());
        end.set_lost(begun.lost());
        shards[0]->read<ps::EndInitResponse>(&Stub::EndInit, end);
        return true;
    }

    /* Gives every shard its parameters, and ends the initialisation of those without any. A shard
     * that is initialised already stays as it is. */
    void give(const std::vector<Parameter> &parameters, const paddle::OptimizerConfig &config)
    {
        /* Servers without etcd take a job whose first shard is initialised for initialised: it is
         * the last. */
        for (auto shard = shards.rbegin(); shard != shards.rend(); ++shard) {
            try {
                while (!initialise_shard(**shard, parameters, config.SerializeAsString()))
                    ;
            } catch (const Failure &failure) {
                if (failure.word != "exists")
                    throw;
            }
        }
    }

    /* False: the server was lost with what it had been given. */
    bool initialise_shard(Shard &shard, const std::vector<Parameter> &parameters,
                          const std::string &config)
    {
        using Stub = ps::ParameterServer::Stub;
        ps::FinishInitParamsRequest finish;
        finish.set_placement(placement);
        for (const Parameter &parameter : parameters) {
            const std::size_t size = parameter.values.size() * sizeof(float);
            if (shards.size() > 1 && size > SPLIT_BYTES)
                throw Failure("", parameter.name + " is above 16 MiB: this client does not cut it");
            if (&shard_of(parameter.name) != &shard)
                continue;
            ps::InitParamRequest request;
            request.set_name(parameter.name);
            request.set_element_type(ps::FLOAT32);
            request.set_content(parameter.values.data(), size);
            request.set_config(config);
            auto given = shard.change<ps::InitParamResponse>(&Stub::InitParam, request);
            if (finish.epoch() == 0) /* of the first: a server that was lost since has another */
                finish.set_epoch(given.epoch());
        }
        try {
            shard.change<ps::FinishInitParamsResponse>(&Stub::FinishInitParams, finish);
        } catch (const Failure &failure) {
            if (failure.word != "stale_epoch")
                throw;
            return false;
        }
        return true;
    }
};

#endif
