// Writes the event files that tensorboard_golden.py reads: a run of 6 steps, interrupted after its 6th, resumed at 4.
#include <cstdio>

#include "libdistill/metrics/tensorboard.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const int first : {1, 5}) {
    auto writer = distill::TensorBoardWriter::Open(argv[1], first - 1);
    if (!writer.ok()) {
      std::fprintf(stderr, "%s\n", writer.status().ToString().c_str());
      return 1;
    }
    for (int step = first; step <= 6; ++step) {
      const absl::Status status =
          (*writer)->Write(step, {{"train/loss", 1.0 / step + first}, {"train/learning_rate", 1e-4 * step}});
      if (!status.ok()) return 1;
    }
  }
  return 0;
}
