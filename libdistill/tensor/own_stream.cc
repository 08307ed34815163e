#include "libdistill/tensor/own_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

// Of the process, as torch's pool is.
struct Held {
  std::mutex mutex;
  std::vector<c10::Stream> streams;
};
Held& AllHeld() {
  static Held held;
  return held;
}

}  // namespace

c10::Stream CurrentStream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

c10::Event RecordEvent(c10::Device device) {
  c10::Event event(device.type());
  event.record(CurrentStream(device));
  return event;
}

c10::Stream StreamOfPool(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/false);
}

HeldStream::HeldStream(c10::Device device) : device_(device) {
  if (device.is_cpu()) return;
  // The pool's streams many times over: others may draw in between.
  constexpr int kDraws = 1024;
  const c10::impl::VirtualGuardImpl pool(device.type());
  Held& held = AllHeld();
  const std::lock_guard<std::mutex> lock(held.mutex);
  for (int draw = 0; draw < kDraws; ++draw) {
    const c10::Stream stream = pool.getStreamFromGlobalPool(device, /*isHighPriority=*/true);
    if (std::find(held.streams.begin(), held.streams.end(), stream) != held.streams.end()) continue;
    held.streams.push_back(stream);
    stream_ = stream;
    return;
  }
  throw StatusError(absl::ResourceExhaustedError(absl::StrCat("all streams of torch's pool for ", device.str(),
                                                              " are in use, ", held.streams.size(),
                                                              " in this process: train fewer models in it at a time")));
}

HeldStream::~HeldStream() {
  if (!stream_.has_value()) return;
  Held& held = AllHeld();
  const std::lock_guard<std::mutex> lock(held.mutex);
  held.streams.erase(std::find(held.streams.begin(), held.streams.end(), *stream_));
}

OwnStream::OwnStream(const c10::Stream& stream, const c10::Event& ready) : guard_(stream) {
  ready.block(guard_.current_stream());
}

}  // namespace distill
