// What a call over the fabric does with its bytes on a device, which adds so many sources at a time and no more.
#include "libdistill/comm/buffer_work.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "libdistill/comm/device_reduce.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// Host memory in a GPU's place. A kernel's arguments hold no more sources than kMostDeviceSources.
class FewSources : public DeviceMemory {
 public:
  int device_index() const override { return -1; }
  std::string pci_address() const override { return ""; }
  absl::Status CheckNetworkAccess() const override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<CommMemory>> Allocate(int64_t bytes) override { return PlainMemory::Create(bytes); }
  absl::StatusOr<std::unique_ptr<CommMemory>> AllocatePinned(int64_t bytes) override { return Allocate(bytes); }
  absl::Status BeginCopy(int64_t, void*, const void*, int64_t) override { return absl::OkStatus(); }
  absl::Status AwaitCopy(int64_t) override { return absl::OkStatus(); }
  absl::Status Copy(void*, const void*, int64_t, void*) override { return absl::OkStatus(); }
  absl::Status CopyRows(absl::Span<const Rows>, void*) override { return absl::OkStatus(); }
  absl::Status AwaitNetwork() override { return absl::OkStatus(); }
  absl::Status Reduce(void* out, const void* const* sources, int source_count, int64_t count, DType dtype, ReduceOp op,
                      int divisor) override {
    if (source_count > kMostDeviceSources) return absl::InternalError("more sources than a kernel takes");
    distill::Reduce(out, sources, source_count, count, dtype, op, divisor);
    return absl::OkStatus();
  }
};

TEST_CASE("a device adds any number of sources, also where the result is one of them, wherever it is in their order") {
  constexpr int64_t kCount = 5;
  for (const int sources : {1, 2, kMostDeviceSources, kMostDeviceSources + 1, 512, 2 * kMostDeviceSources + 3}) {
    for (const int in_place : {-1, 0, sources / 2, sources - 1}) {
      CAPTURE(sources, in_place);
      std::vector<std::vector<int64_t>> data(static_cast<size_t>(sources), std::vector<int64_t>(kCount));
      std::vector<const void*> pointers;
      std::vector<int64_t> wanted(kCount), out(kCount, -1);
      for (int s = 0; s < sources; ++s) {
        std::iota(data[static_cast<size_t>(s)].begin(), data[static_cast<size_t>(s)].end(), s);
        for (size_t i = 0; i < kCount; ++i) wanted[i] += data[static_cast<size_t>(s)][i];
        pointers.push_back(data[static_cast<size_t>(s)].data());
      }
      for (int64_t& x : wanted) x /= sources;
      BufferWork work(std::make_shared<FewSources>());
      std::vector<int64_t>& result = in_place < 0 ? out : data[static_cast<size_t>(in_place)];
      work.Reduce(result.data(), pointers.data(), sources, kCount, DType::kInt64, ReduceOp::kAverage, sources);
      CHECK(work.Finish().ok());
      CHECK(result == wanted);
    }
  }
}

}  // namespace
}  // namespace distill
