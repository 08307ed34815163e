// Work beside a GPU's main line: on a stream of its own.
#pragma once

#include <optional>

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

namespace distill {

// Where this thread enqueues the device's work now. Not for the CPU.
c10::Stream CurrentStream(c10::Device device);

// What is enqueued on the device's current stream now. Not for the CPU.
c10::Event RecordEvent(c10::Device device);

// A stream out of torch's pool, which others may be given, too: for copies, which wait for nobody. Not for the CPU.
c10::Stream StreamOfPool(c10::Device device);

// A stream that goes first where others wait, and that no other HeldStream of the process has while this one lives: for
// collectives. Two threads whose communicators shared a stream could enqueue there in one order on one rank and in the
// other order on another, and each would wait for what stands behind the other's for ever.
//
// Torch's pool gives its 32 streams in rotation, whoever has them still; so streams are drawn until one is nobody's.
// They are not created by CUDA's own call: torch takes such streams through its CUDA library alone, to which this
// module is not linked.
class HeldStream {
 public:
  // On the CPU there is none. Throws torch's errors, and a StatusError, ResourceExhausted, where all are held.
  explicit HeldStream(c10::Device device);
  ~HeldStream();
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  c10::Device device() const { return device_; }
  const std::optional<c10::Stream>& stream() const { return stream_; }

 private:
  const c10::Device device_;
  std::optional<c10::Stream> stream_;
};

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
