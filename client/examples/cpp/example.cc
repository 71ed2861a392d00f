// Initialises, pushes and pulls one parameter with plain gRPC C++: ./run_cpp.sh HOST:PORT
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <grpcpp/grpcpp.h>

#include "pserver/v1/pserver.grpc.pb.h"

namespace ps = pserver::v1;

template <typename Call, typename Request, typename Reply>
void run(Call call, const Request &request, Reply *reply)
{
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    grpc::Status status = call(&context, request, reply);
    if (status.ok() || status.error_code() == grpc::ALREADY_EXISTS) // another worker was first
        return;
    std::fprintf(stderr, "%s\n", status.error_message().c_str());
    std::exit(1);
}

int main(int, char **arguments)
{
    auto channel = grpc::CreateChannel(arguments[1], grpc::InsecureChannelCredentials());
    auto server = ps::ParameterServer::NewStub(channel);
    const float weights[] = {1, 2, 3}, gradient[] = {0.5, 0.5, 0.5};

    ps::InitParamRequest init; // an empty configuration is SGD with learning rate 1
    init.set_name("w");
    init.set_element_type(ps::FLOAT32);
    init.set_content(weights, sizeof weights);
    ps::InitParamResponse inited;
    run([&](auto... a) { return server->InitParam(a...); }, init, &inited);
    ps::FinishInitParamsResponse finished;
    run([&](auto... a) { return server->FinishInitParams(a...); }, ps::FinishInitParamsRequest(),
        &finished);

    ps::SendGradRequest push;
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
