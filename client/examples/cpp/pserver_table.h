/* SPDX-License-Identifier: Apache-2.0 */
/* A table of float: rows found by a key, as docs/wire.md, "Tables", says. What is left out: ranges
 * of keys, and batches that are larger than a message.
 *
 * Threads:  a table belongs to the thread of its job, which outlives it.
 * Blocking: a call returns within PATIENCE for each shard.
 * Errors:   a Failure; some shards may have had their part of an add.
 * Memory:   what is passed is borrowed for the call.
 */
#ifndef PSERVER_TABLE_H
#define PSERVER_TABLE_H

#include "pserver_job.h"

using Keys = std::vector<std::uint64_t>;
using Rows = std::vector<std::vector<float>>;

class Table
{
  public:
    /* Defines the table at every shard; where it is already, nothing changes. */
    Table(Job &its_job, std::string its_name, std::uint32_t its_width,
          paddle::OptimizerConfig config)
        : job(its_job), name(std::move(its_name)), width(its_width)
    {
        config.mutable_table()->set_width(width);
        ps::InitParamRequest request;
        request.set_name(name);
        request.set_element_type(ps::FLOAT32);
        request.set_config(config.SerializeAsString());
        for (auto &shard : job.all_shards())
            shard->change<ps::InitParamResponse>(&ps::ParameterServer::Stub::DefineParam, request);
    }

    /* Adds a gradient to each key's row. Each shard gets a push of its own. */
    void add(const Keys &keys, const Rows &gradients)
    {
        const auto places = split(keys);
        for (std::size_t i = 0; i < places.size(); i++) {
            std::string content = bytes_of(keys, places[i]);
            for (std::size_t place : places[i])
                content.append(reinterpret_cast<const char *>(gradients.at(place).data()),
                               width * sizeof(float));
            ps::SendGradRequest request;
            request.set_name(name);
            request.set_element_type(ps::FLOAT32);
            request.set_encoding(ps::ENCODING_ROWS);
            request.set_row_width(width); /* a table of another width refuses them */
            request.set_content(content);
            job.all_shards()[i]->change<ps::SendGradResponse>(&ps::ParameterServer::Stub::SendGrad,
                                                              request);
        }
    }

    /* The rows of the keys, in their order. */
    Rows get(const Keys &keys)
    {
        Rows rows(keys.size(), std::vector<float>(width));
        const auto places = split(keys);
        for (std::size_t i = 0; i < places.size(); i++) {
            ps::GetParamRequest request;
            request.set_name(name);
            request.set_keys(bytes_of(keys, places[i]));
            auto reply = job.all_shards()[i]->read<ps::GetParamResponse>(
                &ps::ParameterServer::Stub::GetParam, request);
            if (reply.content().size() != places[i].size() * width * sizeof(float))
                throw std::runtime_error(name + " has rows of another width");
            const char *from = reply.content().data();
            for (std::size_t place : places[i]) {
                std::memcpy(rows[place].data(), from, width * sizeof(float));
                from += width * sizeof(float);
            }
        }
        return rows;
    }

  private:
    Job &job;
    std::string name;
    std::uint32_t width;

    /* Which shard has a key; every client of the job must come to the same. */
    std::size_t shard_of(std::uint64_t key) const
    {
        std::uint64_t x = (key ^ key >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        return std::size_t((unsigned __int128)(x ^ x >> 31) * job.all_shards().size() >> 64);
    }

    /* For each shard the places of its keys. */
    std::vector<std::vector<std::size_t>> split(const Keys &keys) const
    {
        std::vector<std::vector<std::size_t>> places(job.all_shards().size());
        for (std::size_t place = 0; place < keys.size(); place++)
            places[shard_of(keys[place])].push_back(place);
        return places;
    }

    static std::string bytes_of(const Keys &keys, const std::vector<std::size_t> &places)
    {
        std::string bytes;
        for (std::size_t place : places)
            bytes.append(reinterpret_cast<const char *>(&keys[place]), sizeof keys[place]);
        return bytes;
    }
};

#endif
