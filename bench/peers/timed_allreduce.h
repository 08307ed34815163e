// How the peers' all-reduces are timed, which is as bench_allreduce times ours: the same data, in place, a barrier
// before each call, of each call the slowest rank's time, and the median of these.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace distill {

struct PeerRanks {
  int rank = 0, ranks = 1;
  std::function<void()> barrier;
  std::function<void(float* data, int64_t count)> sum;        // over all ranks, in place
  std::function<void(double* data, int64_t count)> greatest;  // the same
};

// Sizes in bytes from $SIZES (1024,16384 without it). Ends the process where a sum is wrong.
inline void TimeAllReduce(const PeerRanks& peer) {
  const char* asked = std::getenv("SIZES");
  std::istringstream sizes(asked != nullptr ? asked : "1024,16384");
  for (std::string size; std::getline(sizes, size, ',');) {
    const int64_t bytes = std::stoll(size), count = bytes / 4;
    std::vector<float> data(static_cast<size_t>(count));
    std::vector<double> times;
    const int64_t timed = std::clamp<int64_t>((int64_t{1} << 28) / bytes, 5, 1000);
    for (int64_t i = 0; i < timed + 3; ++i) {
      std::fill(data.begin(), data.end(), 1.0f);
      peer.barrier();
      const auto start = std::chrono::steady_clock::now();
      peer.sum(data.data(), count);
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
      if (i >= 3) times.push_back(took.count());
    }
    if (std::any_of(data.begin(), data.end(), [&](float sum) { return sum != static_cast<float>(peer.ranks); })) {
      std::fprintf(stderr, "error: a sum of %s bytes is wrong\n", size.c_str());
      std::exit(1);
    }
    peer.greatest(times.data(), timed);
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2], algbw = static_cast<double>(bytes) / median / 1e3;
    if (peer.rank != 0) continue;
    std::printf("%12lld %12.2f us algbw %8.2f busbw %8.2f GB/s\n", static_cast<long long>(bytes), median, algbw,
                algbw * 2 * (peer.ranks - 1) / peer.ranks);
    std::fflush(stdout);
  }
}

}  // namespace distill
