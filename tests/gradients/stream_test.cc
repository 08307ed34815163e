// Which stream a call beside a GPU's main line works on, with a device of the test's own in the GPU's place. In a
// program of its own: with such a device autograd would start threads for it.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <vector>

#include "libdistill/comm/create.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/tensor/own_stream.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// A device without memory, whose streams are numbers.
class StreamsOnly final : public c10::impl::DeviceGuardImplInterface {
 public:
  static std::atomic<int> given;    // streams out of the pool
  static std::atomic<int64_t> now;  // the current one

  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override { return device; }
  c10::Device getDevice() const override { return {type(), 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::UNSAFE, device, now); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, ++given);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), now.exchange(stream.id()));
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  void synchronizeStream(const c10::Stream&) const override {}
};
std::atomic<int> StreamsOnly::given{0};
std::atomic<int64_t> StreamsOnly::now{0};
C10_REGISTER_GUARD_IMPL(PrivateUse1, StreamsOnly);

}  // namespace

TEST_CASE("calls behind a stream work on the one that they are given, and else on one of the pool's") {
  const c10::Device device(c10::DeviceType::PrivateUse1, 0);
  const auto alone = CreateAloneCommunicator();
  std::vector<int64_t> used;
  const auto note = [&](Communicator&) {
    used.push_back(StreamsOnly::now);
    return absl::OkStatus();
  };
  const c10::Stream stream = StreamOfPool(device, /*first=*/true);
  for (int i = 0; i < 3; ++i) REQUIRE(BehindStream(device, note, stream)(*alone).ok());
  CHECK(used == std::vector<int64_t>(3, stream.id()));
  CHECK(StreamsOnly::given == 1);
  REQUIRE(BehindStream(device, note)(*alone).ok());
  CHECK(used.back() != stream.id());
  CHECK(StreamsOnly::now == 0);  // the thread's own is the current one again
}

}  // namespace distill
