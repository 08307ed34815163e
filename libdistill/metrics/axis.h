// The axis of a diagram: what part of the numbers it shows, where its ticks are, and what they are called.
#pragma once

#include <string>
#include <vector>

namespace distill {

struct Tick {
  double value = 0;
  std::string label;
};

struct Axis {
  double low = 0, high = 1;  // low < high; above 0 where it is logarithmic
  bool is_log = false;
  std::vector<Tick> ticks = {};

  // 0 at `low`, 1 at `high`.
  double Place(double value) const;
};

// Whether a linear axis would hide most of the values: all are above 0, the greatest is at least 30 times the least,
// and half of them would lie in the lowest tenth.
bool SpansDecades(std::vector<double> values);

// Ticks lie at multiples of 1, 2 or 5 times a power of ten, which is at least `least_step`; at most `most_ticks`, which
// is 5 or more.
Axis LinearAxis(double low, double high, int most_ticks, double least_step = 0);
// 0 < low < high. Ticks lie at powers of ten, at most `most_ticks` of them; over few decades also at twice and five
// times those.
Axis LogAxis(double low, double high, int most_ticks);

// Of the vertical axis that shows these values, each within 1e290 of 0, with some room around them.
Axis AxisOf(const std::vector<double>& values, int most_ticks);

}  // namespace distill
