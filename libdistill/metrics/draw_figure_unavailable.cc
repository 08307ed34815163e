// In place of draw_figure.cc where there is no Cairo.
#include "libdistill/metrics/draw_figure.h"

namespace distill {

absl::StatusOr<std::string> DrawPng(const Figure&) {
  return absl::UnimplementedError(
      "this build of libdistill draws no pictures: Cairo (libcairo2-dev) was missing when it was built. Build again "
      "after scripts/setup, or draw what metrics.jsonl has with another tool");
}

}  // namespace distill
