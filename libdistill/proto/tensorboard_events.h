// TensorBoard's events as bytes; metrics/tensorboard.cc frames them into a file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace distill {

// The first event of a file. `wall_time` is in seconds since 1970.
std::string FileVersionEvent(double wall_time);
// Tells TensorBoard to forget what earlier files hold from `step` on (a resumed run).
std::string SessionStartEvent(double wall_time, int64_t step);
std::string ScalarsEvent(double wall_time, int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

}  // namespace distill
