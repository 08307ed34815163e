#include "libdistill/proto/tensorboard_events.h"

#include "tensorboard.pb.h"

namespace distill {

std::string FileVersionEvent(double wall_time) {
  proto::Event event;
  event.set_wall_time(wall_time);
  event.set_file_version("brain.Event:2");
  return event.SerializeAsString();
}

std::string SessionStartEvent(double wall_time, int64_t step) {
  proto::Event event;
  event.set_wall_time(wall_time);
  event.set_step(step);
  event.mutable_session_log()->set_status(proto::SessionLog::START);
  return event.SerializeAsString();
}

std::string ScalarsEvent(double wall_time, int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  proto::Event event;
  event.set_wall_time(wall_time);
  event.set_step(step);
  for (const auto& [tag, value] : scalars) {
    proto::Summary::Value& entry = *event.mutable_summary()->add_value();
    entry.set_tag(tag);
    entry.set_simple_value(static_cast<float>(value));
  }
  return event.SerializeAsString();
}

}  // namespace distill
