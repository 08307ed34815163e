#include "libdistill/tensor/own_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace distill {

c10::Event RecordEvent(c10::Device device) {
  c10::Event event(device.type());
  event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

c10::Stream StreamOfPool(c10::Device device, bool first) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/first);
}

OwnStream::OwnStream(const c10::Stream& stream, const c10::Event& ready) : guard_(stream) {
  ready.block(guard_.current_stream());
}

}  // namespace distill
