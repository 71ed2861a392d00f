// SPDX-License-Identifier: Apache-2.0
// Rows by key in ps-lite (github.com/dmlc/ps-lite): one worker pushes and pulls rows of one server.
//
// run.py builds this against a checkout of ps-lite and measures it beside `psbench table`. It is
// written to be as fast as ps-lite allows, since a rival that is slow by our doing says nothing:
// no copy is made that its interface does not make (ZPush, ZPull), keys come sorted as it demands
// and are sorted before the clock starts, the map has all its buckets from the beginning, a row
// lies in the map's own node, answers are not cleared before they are filled, and freed memory
// stays in the process.
//
// All three roles are this program; ps-lite's variables DMLC_... say which. The worker prints one
// line of JSON: pushes and pulls in turn, each for so many milliseconds, keys a second.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "ps/ps.h"

namespace {

using Clock = std::chrono::steady_clock;

// As psbench has them: batches take turns, so that none finds its rows in the caches for being
// alone.
constexpr int kBatches = 8;
constexpr unsigned kSeed = 13;
// The only customer, of the only application.
constexpr int kApplication = 0;
constexpr int kEverybodyButTheScheduler = ps::kWorkerGroup + ps::kServerGroup;

struct Settings {
    size_t width, rows, keys, flight, milliseconds, repeat;
};

// A product with an odd number is different for each row, and its order is no row's.
ps::Key key_of(uint64_t row)
{
    return row * 0x9e3779b97f4a7c15u + 12345;
}

[[noreturn]] void die(const char *reason)
{
    std::fprintf(stderr, "rows: %s\n", reason);
    std::_Exit(1);
}

// The server's rows, of a width that the compiler knows: ps-lite's users have it as a constant.
template <size_t Width> class Rows {
  public:
    explicit Rows(size_t rows) { rows_.reserve(rows); }

    void operator()(const ps::KVMeta &meta, const ps::KVPairs<float> &request,
                    ps::KVServer<float> *server)
    {
        ps::KVPairs<float> answer;
        if (meta.push)
            add(request);
        if (meta.pull)
            answer = get(request);
        server->Response(meta, answer);
    }

  private:
    void add(const ps::KVPairs<float> &request)
    {
        const float *gradient = request.vals.data();
        for (ps::Key key : request.keys) {
            float *row = rows_[key].data();
            for (size_t i = 0; i < Width; i++)
                row[i] += gradient[i];
            gradient += Width;
        }
    }

    ps::KVPairs<float> get(const ps::KVPairs<float> &request)
    {
        ps::KVPairs<float> answer;
        size_t floats = request.keys.size() * Width;
        answer.keys = request.keys;
        answer.vals.reset(new float[floats], floats, [](float *values) { delete[] values; });
        float *place = answer.vals.data();
        for (ps::Key key : request.keys) {
            const std::array<float, Width> &row = rows_[key];
            std::copy(row.begin(), row.end(), place);
            place += Width;
        }
        return answer;
    }

    std::unordered_map<ps::Key, std::array<float, Width>> rows_;
};

// ps-lite dies of a request that comes before its handler: so the worker waits for the server.
void serve(const Settings &settings)
{
    auto *server = new ps::KVServer<float>(kApplication);
    switch (settings.width) {
    case 1: server->set_request_handle(Rows<1>(settings.rows)); break;
    case 16: server->set_request_handle(Rows<16>(settings.rows)); break;
    case 64: server->set_request_handle(Rows<64>(settings.rows)); break;
    default: die("a width must be 1, 16 or 64");
    }
    ps::RegisterExitCallback([server] { delete server; });
    ps::Postoffice::Get()->Barrier(kApplication, kEverybodyButTheScheduler);
}

class Worker {
  public:
    explicit Worker(const Settings &settings)
        : settings_(settings), worker_(kApplication, kApplication),
          gradient_(settings.keys * settings.width)
    {
        for (size_t i = 0; i < settings.flight; i++)
            pulled_.emplace_back(settings.keys * settings.width);
    }

    void run()
    {
        ps::Postoffice::Get()->Barrier(kApplication, kEverybodyButTheScheduler);
        fill();
        draw();
        std::string pushed, pulled;
        for (size_t i = 0; i < settings_.repeat; i++) {
            pushed += (i == 0 ? "" : ", ") + std::to_string(measure(true));
            pulled += (i == 0 ? "" : ", ") + std::to_string(measure(false));
        }
        check();
        std::printf("{\"pushed\": [%s], \"pulled\": [%s]}\n", pushed.c_str(), pulled.c_str());
        std::fflush(stdout);
    }

  private:
    // Every row is there before anything is timed; the gradients of this are zero.
    void fill()
    {
        for (size_t first = 0; first < settings_.rows; first += settings_.keys) {
            std::vector<ps::Key> keys;
            for (size_t row = first; row < std::min(settings_.rows, first + settings_.keys); row++)
                keys.push_back(key_of(row));
            std::sort(keys.begin(), keys.end());
            std::vector<float> zeros(keys.size() * settings_.width);
            worker_.Wait(worker_.Push(keys, zeros));
        }
        std::fill(gradient_.begin(), gradient_.end(), 1.0f);
    }

    // Different keys of one batch, since ps-lite takes no key twice.
    void draw()
    {
        std::mt19937_64 random(kSeed);
        std::vector<uint64_t> numbers(settings_.rows);
        for (size_t row = 0; row < settings_.rows; row++)
            numbers[row] = row;
        for (auto &batch : batches_) {
            std::vector<ps::Key> keys;
            for (size_t i = 0; i < settings_.keys; i++) {
                std::swap(numbers[i], numbers[i + random() % (settings_.rows - i)]);
                keys.push_back(key_of(numbers[i]));
            }
            std::sort(keys.begin(), keys.end());
            batch.CopyFrom(keys.data(), keys.size());
        }
    }

    // Keys a second. As many requests as may be are under way, the oldest is waited for.
    double measure(bool pushes)
    {
        std::deque<int> under_way;
        size_t count = 0;
        auto begun = Clock::now();
        auto end = begun + std::chrono::milliseconds(settings_.milliseconds);
        while (count == 0 || Clock::now() < end) {
            if (under_way.size() == settings_.flight) {
                worker_.Wait(under_way.front());
                under_way.pop_front();
            }
            size_t batch = count % kBatches;
            if (pushes) {
                under_way.push_back(worker_.ZPush(batches_[batch], gradient_));
                pushes_[batch]++;
            } else {
                under_way.push_back(
                    worker_.ZPull(batches_[batch], &pulled_[count % settings_.flight]));
            }
            count++;
        }
        for (int request : under_way)
            worker_.Wait(request);
        std::chrono::duration<double> taken = Clock::now() - begun;
        return static_cast<double>(count * settings_.keys) / taken.count();
    }

    // What was measured has happened: a row is the number of the pushes that had its key.
    void check()
    {
        worker_.Wait(worker_.ZPull(batches_[0], &pulled_[0]));
        for (size_t i = 0; i < settings_.keys; i += settings_.keys / 100 + 1) {
            float expected = 0;
            for (int batch = 0; batch < kBatches; batch++) {
                if (std::binary_search(batches_[batch].begin(), batches_[batch].end(),
                                       batches_[0][static_cast<int>(i)]))
                    expected += static_cast<float>(pushes_[batch]);
            }
            for (size_t j = 0; j < settings_.width; j++) {
                if (pulled_[0][static_cast<int>(i * settings_.width + j)] != expected)
                    die("a row is not the sum of what was pushed");
            }
        }
    }

    const Settings settings_;
    ps::KVWorker<float> worker_;
    ps::SArray<float> gradient_;
    std::vector<ps::SArray<float>> pulled_;
    std::array<ps::SArray<ps::Key>, kBatches> batches_;
    std::array<uint64_t, kBatches> pushes_ = {};
};

size_t number_of(const char *text)
{
    size_t number = std::strtoull(text, nullptr, 10);
    if (number == 0)
        die("an argument is not a number above 0");
    return number;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 7)
        die("usage: rows WIDTH ROWS KEYS FLIGHT MILLISECONDS REPEAT, with DMLC_ROLE");
    const Settings settings = {number_of(argv[1]), number_of(argv[2]), number_of(argv[3]),
                               number_of(argv[4]), number_of(argv[5]), number_of(argv[6])};
    if (settings.keys > settings.rows)
        die("there are fewer rows than a request has keys");
    // What a request needs is kept for the next one instead of coming from the system each time.
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 64 << 20);
    ps::Start(kApplication);
    if (ps::IsServer())
        serve(settings);
    if (ps::IsWorker())
        Worker(settings).run();
    ps::Finalize(kApplication, true);
    return 0;
}
