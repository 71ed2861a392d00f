/* SPDX-License-Identifier: Apache-2.0 */
/* A client that is safe to copy: every change is applied once, however often it is sent. The rules
 * are in docs/wire.md, "Retrying safely".
 *
 * Threads:  a shard belongs to one thread.
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
#include <grpcpp/grpcpp.h>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pserver_discovery.h"

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds PATIENCE(60000); // of all attempts: longer than a server may be away
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

/* A shard of the job, and the three fields by which its server knows a repeat. */
class Shard
{
  public:
    Shard(Addresses all_seeds, std::size_t its_index, const Addresses &addresses)
        : seeds(std::move(all_seeds)), index(its_index), address(addresses[its_index])
    {
        stub = connect_to(address);
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
    std::unique_ptr<ps::ParameterServer::Stub> stub;
    Addresses seeds;
    std::size_t index;
    std::string address;
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
        request->mutable_request()->set_sequence(sequence + 1);
        sequence += numbers_of(*request, 0);
    }

    /* In a batch each gradient has a number of its own, counted from the batch's. */
    template <typename Request>
    static auto numbers_of(const Request &request, int) -> decltype(request.grads_size())
    {
        return request.grads_size();
    }

    template <typename Request> static int numbers_of(const Request &, long)
    {
        return 1;
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
            if (word.empty() && status.error_code() == grpc::UNIMPLEMENTED)
                word = "unimplemented"; /* by a server that is older than the method */
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
            if (word != "busy")
                follow();
        }
    }

    /* To the shard's present server, if it has moved. The numbers stay: they are the shard's. */
    void follow()
    {
        Addresses addresses = discover(seeds);
        if (index >= addresses.size() || addresses[index] == address)
            return;
        address = addresses[index];
        stub = connect_to(address);
    }
};

#endif
