// Initialises, pushes and pulls one parameter with plain gRPC C++: ./run_cpp.sh HOST:PORT
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <grpcpp/grpcpp.h>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "pserver/v1/pserver.grpc.pb.h"

namespace ps = pserver::v1;

using namespace std::chrono;

// With these three fields the server knows a repeat: it is applied once, however often it is sent.
struct Numbers {
    std::string client_id; // 16 random bytes: one per process and server
    // Begins with a time: a later one is newer.
    std::uint64_t session =
        duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
    std::uint64_t sequence = 0; // one counter per server, 1 for the first request

    Numbers()
    {
        std::random_device random;
        std::generate_n(std::back_inserter(client_id), 16, [&] { return char(random()); });
    }

    void give(ps::RequestId *request)
    {
        request->set_client_id(client_id);
        request->set_session(session);
        request->set_sequence(++sequence);
    }
};

// Sends it until it is answered, always under the same id: docs/wire.md, "Retrying safely".
template <typename Call, typename Request, typename Reply>
void run(Call call, const Request &request, Reply *reply)
{
    const auto give_up = steady_clock::now() + seconds(30);
    for (milliseconds pause(20);; pause = std::min(2 * pause, milliseconds(2000))) {
        grpc::ClientContext context;
        context.set_deadline(system_clock::now() + seconds(10));
        grpc::Status status = call(&context, request, reply);
        switch (status.error_code()) {
        case grpc::OK:
        case grpc::ALREADY_EXISTS: // another worker was first
            return;
        case grpc::UNAVAILABLE:
        case grpc::DEADLINE_EXCEEDED:
        case grpc::RESOURCE_EXHAUSTED:
        case grpc::CANCELLED:
            if (steady_clock::now() + pause < give_up)
                break;
            [[fallthrough]];
        default:
            std::fprintf(stderr, "%s\n", status.error_message().c_str());
            std::exit(1);
        }
        std::this_thread::sleep_for(pause);
    }
}

// The file that a variable names; empty: there is none. The names are those of libpsclient.
static std::string read(const char *variable)
{
    const char *path = std::getenv(variable);
    std::ifstream file(path != nullptr ? path : "");
    return {std::istreambuf_iterator<char>(file), {}};
}

// TLS where PSCLIENT_TLS_CA says whom to believe; a token goes with each call, and over TLS only.
static std::shared_ptr<grpc::ChannelCredentials> credentials()
{
    std::string ca = read("PSCLIENT_TLS_CA"), token = read("PSCLIENT_TOKEN_FILE");
    if (ca.empty())
        return grpc::InsecureChannelCredentials();
    auto tls = grpc::SslCredentials({ca, read("PSCLIENT_TLS_KEY"), read("PSCLIENT_TLS_CERT")});
    if (token.empty())
        return tls;
    token.erase(token.find_last_not_of(" \r\n") + 1);
    return grpc::CompositeChannelCredentials(tls, grpc::AccessTokenCredentials(token));
}

int main(int, char **arguments)
{
    auto channel = grpc::CreateChannel(arguments[1], credentials());
    auto server = ps::ParameterServer::NewStub(channel);
    Numbers numbers;
    const float weights[] = {1, 2, 3}, gradient[] = {0.5, 0.5, 0.5};

    ps::InitParamRequest init; // an empty configuration is SGD with learning rate 1
    numbers.give(init.mutable_request());
    init.set_name("w");
    init.set_element_type(ps::FLOAT32);
    init.set_content(weights, sizeof weights);
    ps::InitParamResponse inited;
    run([&](auto... a) { return server->InitParam(a...); }, init, &inited);
    ps::FinishInitParamsRequest finish;
    numbers.give(finish.mutable_request());
    ps::FinishInitParamsResponse finished;
    run([&](auto... a) { return server->FinishInitParams(a...); }, finish, &finished);

    ps::SendGradRequest push;
    numbers.give(push.mutable_request());
    push.set_name("w");
    push.set_element_type(ps::FLOAT32);
    push.set_content(gradient, sizeof gradient);
    ps::SendGradResponse pushed;
    run([&](auto... a) { return server->SendGrad(a...); }, push, &pushed);
    ps::GetParamRequest pull;
    pull.set_name("w");
    ps::GetParamResponse pulled;
    run([&](auto... a) { return server->GetParam(a...); }, pull, &pulled);
    float values[3] = {};
    std::memcpy(values, pulled.content().data(), std::min(sizeof values, pulled.content().size()));
    std::printf("version %llu\nw = %g %g %g\n", (unsigned long long)pushed.version(), values[0],
                values[1], values[2]);
}
