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
#include <string>
#include <thread>
#include <vector>

#include "pserver/v1/optimizer_config.pb.h"
#include "pserver_client.h"

constexpr std::size_t SPLIT_BYTES = 16 << 20; // larger parameters are cut over all servers

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

    /* Gives every shard its parameters, and ends the initialisation of those without any. A shard
     * that another trainer has initialised stays as it is. */
    void initialise(const std::vector<Parameter> &parameters, const paddle::OptimizerConfig &config)
    {
        for (auto &shard : shards) {
            try {
                while (!initialise_shard(*shard, parameters, config.SerializeAsString()))
                    ;
            } catch (const Failure &failure) {
                if (failure.word != "exists")
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

  private:
    std::vector<std::unique_ptr<Shard>> shards;

    /* Where a parameter lives; every client of the job must come to the same. */
    Shard &shard_of(const std::string &name)
    {
        std::uint32_t hash = 2166136261u;
        for (unsigned char byte : name)
            hash = (hash ^ byte) * 16777619u;
        return *shards[hash % shards.size()];
    }

    /* False: the server was lost with what it had been given. */
    bool initialise_shard(Shard &shard, const std::vector<Parameter> &parameters,
                          const std::string &config)
    {
        using Stub = ps::ParameterServer::Stub;
        ps::FinishInitParamsRequest finish;
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
