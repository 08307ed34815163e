// Work beside a GPU's main line: on a stream of its own.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

namespace distill {

// What is enqueued on the device's current stream now. Not for the CPU.
c10::Event RecordEvent(c10::Device device);

// A stream out of torch's pool; one of those that go first where others wait, if `first`. Not for the CPU.
c10::Stream StreamOfPool(c10::Device device, bool first);

// While it lives, what this thread enqueues on the stream's device goes to `stream`, and there behind `ready`.
class OwnStream {
 public:
  // With the same `stream` from call to call, memory that the allocator has got for one serves the next, too.
  OwnStream(const c10::Stream& stream, const c10::Event& ready);
  // Blocks until the stream is done.
  void Synchronize() const { guard_.current_stream().synchronize(); }

 private:
  c10::StreamGuard guard_;
};

}  // namespace distill
