// Which stream calls beside a GPU's main line work on, with a device of the test's own in the GPU's place. In a program
// of its own: with such a device autograd would start threads for it.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "libdistill/comm/create.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/own_stream.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr int kPool = 32;

// Torch's device for tensors without values, with streams, which are numbers: torch's own pool gives them in rotation,
// as this one.
class StreamsOnly final : public c10::impl::DeviceGuardImplInterface {
 public:
  static std::atomic<int> given;          // streams out of the pool
  static thread_local int64_t now;        // this thread's current one
  static std::mutex mutex;                // of what follows
  static std::vector<int64_t> worked_on;  // streams that were put behind something

  c10::DeviceType type() const override { return c10::DeviceType::Meta; }
  c10::Device exchangeDevice(c10::Device device) const override { return device; }
  c10::Device getDevice() const override { return {type(), 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::UNSAFE, device, now); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, 1 + given++ % kPool);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), std::exchange(now, stream.id()));
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream& stream) const override {
    const std::lock_guard<std::mutex> lock(mutex);
    worked_on.push_back(stream.id());
  }
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  void synchronizeStream(const c10::Stream&) const override {}
};
std::atomic<int> StreamsOnly::given{0};
thread_local int64_t StreamsOnly::now = 0;
std::mutex StreamsOnly::mutex;
std::vector<int64_t> StreamsOnly::worked_on;
C10_REGISTER_GUARD_IMPL(Meta, StreamsOnly);  // in the place of torch's

const c10::Device kDevice(c10::DeviceType::Meta, 0);

}  // namespace

TEST_CASE("calls behind a stream work on the one that they are given") {
  const auto alone = CreateAloneCommunicator();
  std::vector<int64_t> used;
  const auto note = [&](Communicator&) {
    used.push_back(StreamsOnly::now);
    return absl::OkStatus();
  };
  const auto stream = std::make_shared<const HeldStream>(kDevice);
  const int given = StreamsOnly::given;
  for (int i = 0; i < 3; ++i) REQUIRE(BehindStream(stream, note)(*alone).ok());
  CHECK(used == std::vector<int64_t>(3, stream->stream()->id()));
  CHECK(StreamsOnly::given == given);
  CHECK(StreamsOnly::now == 0);  // the thread's own is the current one again
}

TEST_CASE("a stream that is held is nobody else's, however often the pool begins anew") {
  const HeldStream first(kDevice), second(kDevice);
  CHECK(*first.stream() != *second.stream());
  for (int i = 0; i < 3 * kPool; ++i) {
    const HeldStream other(kDevice);
    REQUIRE(*other.stream() != *first.stream());
    REQUIRE(*other.stream() != *second.stream());
  }
  CHECK(!HeldStream(c10::kCPU).stream().has_value());
}

TEST_CASE("streams can be held as long as the pool has one, and again when one is given back") {
  std::vector<std::unique_ptr<HeldStream>> held;
  for (int i = 0; i < kPool; ++i) held.push_back(std::make_unique<HeldStream>(kDevice));
  const absl::Status none = CatchTorch([] { const HeldStream more(kDevice); });
  CHECK(absl::IsResourceExhausted(none));
  CHECK_THAT(std::string(none.message()), Catch::Contains("32 in this process"));
  const c10::Stream third = *held[3]->stream();
  held[3].reset();
  CHECK(*HeldStream(kDevice).stream() == third);
}

// Tensors of this device have no values, so that the sums fail; what counts is where they are tried.
TEST_CASE("a reducer sums all buckets of all steps on one stream, which it holds") {
  const auto alone = CreateAloneCommunicator();
  std::vector<TrainedParameter> parameters;
  for (const char* name : {"first", "second", "third"}) {
    parameters.push_back({.name = name, .tensor = torch::empty({1000}, kDevice).requires_grad_()});
  }
  auto reducer = GradientReducer::Create(*alone, parameters, {.bucket_bytes = 4000});
  REQUIRE(reducer.ok());
  REQUIRE((*reducer)->buckets().num_buckets() == 3);
  StreamsOnly::worked_on.clear();
  for (int step = 0; step < 2; ++step) {
    const HeldStream others(kDevice);  // what another thread draws between the steps
    absl::Status mine;
    (*reducer)->StartStep();
    (*reducer)->Finish(mine).IgnoreError();
    CHECK(std::count(StreamsOnly::worked_on.begin(), StreamsOnly::worked_on.end(), others.stream()->id()) == 0);
  }
  REQUIRE(StreamsOnly::worked_on.size() == 6);
  CHECK(StreamsOnly::worked_on == std::vector<int64_t>(6, StreamsOnly::worked_on[0]));
  CHECK(StreamsOnly::worked_on[0] != 0);
}

}  // namespace distill
