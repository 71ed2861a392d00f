/* A client that is safe to copy: every change is applied once, however often it is sent. The rules
 * are in docs/wire.md ("Retrying safely") and docs/placement.md. What it leaves out: parameters
 * above 16 MiB on several servers, ranges and batches (../python/trainer.py has them).
 *
 * Threads:  a job belongs to one thread.
 * Blocking: a call returns within PATIENCE.
 * Errors:   a Failure, with the server's word for it.
 * Memory:   what is passed is borrowed for the call.
 */
#ifndef PSERVER_CLIENT_H
#define PSERVER_CLIENT_H

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <grpcpp/grpcpp.h>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pserver/v1/optimizer_config.pb.h"
#include "pserver/v1/pserver.grpc.pb.h"

namespace ps = pserver::v1;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t SPLIT_BYTES = 16 << 20; // larger parameters are cut over all servers
constexpr int MESSAGE_BYTES = 64 << 20;       // of a reply; gRPC's own limit is 4 MiB
constexpr milliseconds ATTEMPT(10000);        // then the same is sent again: the server may hang
constexpr milliseconds PATIENCE(60000);       // of all attempts: longer than a server may be away
constexpr milliseconds PAUSE_MIN(20), PAUSE_MAX(2000);

struct Failure : std::runtime_error {
    std::string word;
    Failure(std::string its_word, const std::string &text)
        : std::runtime_error(text), word(std::move(its_word))
    {
    }
};

/* Whether a failed request is sent again, and whether it may have been applied. */
struct Verdict {
    bool is_again, leaves_open;
};

/* A server says a word (`ps-status`); failures without one are gRPC's own, made on the way. */
inline Verdict verdict_of(const std::string &word, grpc::StatusCode code)
{
    static const std::map<std::string, Verdict> words = {
        {"busy", {true, false}},       {"not_owner", {true, false}}, {"no_memory", {true, true}},
        {"unavailable", {true, true}}, {"timeout", {true, true}},    {"cancelled", {true, true}}};
    if (word.empty())
        return {code == grpc::UNAVAILABLE || code == grpc::DEADLINE_EXCEEDED ||
                    code == grpc::CANCELLED || code == grpc::INTERNAL || code == grpc::UNKNOWN,
                true};
    auto found = words.find(word);
    return found != words.end() ? found->second : Verdict{false, false};
}

inline std::string trailing(const grpc::ClientContext &context, const char *key)
{
    const auto &metadata = context.GetServerTrailingMetadata();
    auto found = metadata.find(key);
    return found != metadata.end() ? std::string(found->second.data(), found->second.size()) : "";
}

/* Half of a pause is by chance, so that not all clients of a server come back at once. The pause
 * that a server asks for is kept whole. */
inline milliseconds wait_of(milliseconds pause, const std::string &asked)
{
    static std::mt19937 chance{std::random_device{}()};
    std::uniform_int_distribution<long> half(pause.count() / 2, pause.count());
    milliseconds least(std::strtol(asked.c_str(), nullptr, 10));
    return std::max(milliseconds(half(chance)), least);
}

/* The file that a variable names; empty: there is none. The names are those of libpsclient. */
inline std::string read_file_of(const char *variable)
{
    const char *path = std::getenv(variable);
    std::ifstream file(path != nullptr ? path : "");
    return {std::istreambuf_iterator<char>(file), {}};
}

/* TLS where PSCLIENT_TLS_CA says whom to believe; a token goes with each call, over TLS only. */
inline std::shared_ptr<grpc::ChannelCredentials> credentials()
{
    std::string ca = read_file_of("PSCLIENT_TLS_CA"), token = read_file_of("PSCLIENT_TOKEN_FILE");
    if (ca.empty())
        return grpc::InsecureChannelCredentials();
    auto tls = grpc::SslCredentials(
        {ca, read_file_of("PSCLIENT_TLS_KEY"), read_file_of("PSCLIENT_TLS_CERT")});
    if (token.empty())
        return tls;
    token.erase(token.find_last_not_of(" \r\n") + 1);
    return grpc::CompositeChannelCredentials(tls, grpc::AccessTokenCredentials(token));
}

/* A shard of the job, and the three fields by which its server knows a repeat. */
class Shard
{
  public:
    std::unique_ptr<ps::ParameterServer::Stub> stub;

    explicit Shard(const std::string &address)
    {
        grpc::ChannelArguments arguments;
        arguments.SetMaxReceiveMessageSize(MESSAGE_BYTES);
        stub = ps::ParameterServer::NewStub(
            grpc::CreateCustomChannel(address, credentials(), arguments));
        std::random_device chance;
        std::generate_n(std::back_inserter(client_id), 16, [&] { return char(chance()); });
    }

    /* Sends a request that changes something, under a new id, until it is answered: every repeat
     * has the id and the bytes of the first attempt. `call` is a method of the stub. */
    template <typename Reply, typename Request, typename Method>
    Reply change(Method call, Request request)
    {
        number(&request);
        return send<Reply>(call, request, [&] { number(&request); });
    }

    template <typename Reply, typename Request, typename Method>
    Reply read(Method call, const Request &request)
    {
        return send<Reply>(call, request, [] {});
    }

  private:
    std::string client_id; /* random, of this process for this shard */
    /* Begins with a time in microseconds: a later one is newer. */
    std::uint64_t session = std::chrono::duration_cast<std::chrono::microseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count();
    std::uint64_t sequence = 0; /* of the latest request */

    template <typename Request> void number(Request *request)
    {
        request->mutable_request()->set_client_id(client_id);
        request->mutable_request()->set_session(session);
        request->mutable_request()->set_sequence(++sequence);
    }

    template <typename Reply, typename Method, typename Request, typename Renumber>
    Reply send(Method call, const Request &request, Renumber renumber)
    {
        bool is_open = false; /* an earlier attempt may have been applied */
        const auto give_up = Clock::now() + PATIENCE;
        for (milliseconds pause = PAUSE_MIN;; pause = std::min(2 * pause, PAUSE_MAX)) {
            grpc::ClientContext context;
            context.set_deadline(std::chrono::system_clock::now() + ATTEMPT);
            Reply reply;
            grpc::Status status = ((*stub).*call)(&context, request, &reply);
            if (status.ok())
                return reply;
            std::string word = trailing(context, "ps-status");
            Verdict verdict = verdict_of(word, status.error_code());
            /* Forgotten by the server: a new number is right if the old one was not applied. */
            std::string named = trailing(context, "ps-session");
            if (word == "stale_session" && !named.empty() && !is_open) {
                session = std::strtoull(named.c_str(), nullptr, 10);
                sequence = 0;
                renumber();
                verdict.is_again = true;
            }
            is_open = is_open || verdict.leaves_open;
            auto wait = wait_of(pause, trailing(context, "grpc-retry-pushback-ms"));
            if (!verdict.is_again || Clock::now() + wait > give_up)
                throw Failure(word, status.error_message());
            std::this_thread::sleep_for(wait);
        }
    }
};

struct Parameter {
    std::string name;
    std::vector<float> values;
};

/* A job: its shards in their order. */
class Job
{
  public:
    explicit Job(const std::vector<std::string> &seeds)
    {
        for (const std::string &address : discover(seeds))
            shards.push_back(std::make_unique<Shard>(address));
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

    /* The address of each shard's server. Here the list says it; the one place to ask anything
     * else. */
    static std::vector<std::string> discover(const std::vector<std::string> &seeds)
    {
        return seeds;
    }

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
