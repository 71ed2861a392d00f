/* SPDX-License-Identifier: Apache-2.0 */
/* Where the servers of a job are, docs/discovery.md, and how to reach them.
 *
 * Threads:  any.
 * Blocking: a question ends within ATTEMPT.
 * Errors:   an empty list.
 * Memory:   what is passed is borrowed for the call.
 */
#ifndef PSERVER_DISCOVERY_H
#define PSERVER_DISCOVERY_H

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <grpcpp/grpcpp.h>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "pserver/v1/pserver.grpc.pb.h"

namespace ps = pserver::v1;

constexpr int MESSAGE_BYTES = 64 << 20; // of a reply; gRPC's own limit is 4 MiB
constexpr std::chrono::milliseconds
    ATTEMPT(10000); // then the same is sent again: the server may hang

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

using Addresses = std::vector<std::string>;

inline std::unique_ptr<ps::ParameterServer::Stub> connect_to(const std::string &address)
{
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(MESSAGE_BYTES);
    return ps::ParameterServer::NewStub(
        grpc::CreateCustomChannel(address, credentials(), arguments));
}

/* The address of each shard's server, as the first seed that answers knows. Several servers with no
 * etcd do not know each other, and older ones nobody: then the seeds are the shards, in order.
 * Empty: no seed answers, or nobody serves one of the shards. */
inline Addresses discover(const Addresses &seeds)
{
    for (const std::string &seed : seeds) {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + ATTEMPT);
        ps::GetClusterResponse cluster;
        grpc::Status status =
            connect_to(seed)->GetCluster(&context, ps::GetClusterRequest(), &cluster);
        if (status.error_code() == grpc::UNIMPLEMENTED ||
            (status.ok() && cluster.alone() && seeds.size() > 1))
            return seeds;
        Addresses addresses;
        for (const ps::ClusterMember &member : cluster.members())
            addresses.push_back(member.address());
        if (status.ok() && std::count(addresses.begin(), addresses.end(), "") == 0)
            return addresses;
    }
    return {};
}

#endif
