// The picture of a figure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "libdistill/metrics/figure.h"

namespace distill {

// 1,200 pixels wide; a diagram is 300 high, two of them beside one another.
constexpr int kPictureWidth = 1200;

// The bytes of a PNG file. Any names will do: what is no UTF-8 is replaced, what is too long is cut in the middle.
// Unimplemented: this build has no Cairo.
[[nodiscard]] absl::StatusOr<std::string> DrawPng(const Figure& figure);

}  // namespace distill
