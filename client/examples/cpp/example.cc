// SPDX-License-Identifier: Apache-2.0
// Initialises two parameters, pushes to them and pulls them, and counts in a table:
// ./run_cpp.sh HOST:PORT[,...]
#include <cstdio>
#include <sstream>

#include "pserver_table.h"

static void train(Job &job)
{
    // Plain gradient descent; Adam is OptimizerConfig::Adam and needs no more.
    paddle::OptimizerConfig config;
    config.set_optimizer(paddle::OptimizerConfig::SGD);
    config.mutable_const_lr()->set_learning_rate(0.5);
    job.initialise({{"w", {1, 2, 3}}, {"b", {4}}}, config);

    auto pushed = job.push("w", {1, 1, 1});
    job.push("b", {2});
    auto w = job.pull("w"), b = job.pull("b");
    std::printf("version %llu\nw = %g %g %g\nb = %g\n", (unsigned long long)pushed.version(),
                w.at(0), w.at(1), w.at(2), b.at(0));
}

static void count(Job &job)
{
    paddle::OptimizerConfig config;
    config.set_optimizer(paddle::OptimizerConfig::Add);
    Table counts(job, "counts", 1, config);
    counts.add({7, 1ull << 63, 7}, {{1}, {1}, {1}});
    const Rows rows = counts.get({7, 1ull << 63, 5});
    std::printf("counts = %g %g %g\n", rows[0][0], rows[1][0], rows[2][0]);
}

int main(int, char **arguments)
{
    std::vector<std::string> seeds;
    std::istringstream list(arguments[1]);
    for (std::string address; std::getline(list, address, ',');)
        seeds.push_back(address);
    try {
        Job job(seeds);
        train(job);
        count(job);
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}
