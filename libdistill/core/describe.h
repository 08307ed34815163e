// The words in which an options struct describes its fields: once, beside the struct.
//
//   enum class Scheduler { kCosine, kLinear };
//   constexpr auto NamesOf(Scheduler) { return EnumNames<Scheduler, 2>{{{"cosine", Scheduler::kCosine}, ...}}; }
//
//   template <class V>
//   void Describe(V& v, TrainerOptions& o) {
//     v.Group("Training");
//     v.Field("learning_rate", o.learning_rate, AtLeast(0), "peak of the schedule").Alias("lr");
//     v.Field("lr_scheduler_type", o.scheduler, "shape after the warm-up");  // an enum: its names are its choices
//   }
//
// From this come the command line, config files, --help, docs/config.md, resolved_config.yaml, the checks of ranges and
// the comparison over ranks (core/description.h, config/). What V offers stands in core/description.h.
#pragma once

#include <array>
#include <limits>

namespace distill {

// Of a number; those of a list or a duration are those of its seconds.
struct FieldLimits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool excludes_low = false;
  bool excludes_high = false;
};

constexpr FieldLimits AtLeast(double low) { return {.low = low}; }
constexpr FieldLimits Above(double low) { return {.low = low, .excludes_low = true}; }
constexpr FieldLimits Within(double low, double high) { return {.low = low, .high = high}; }
// The low end belongs to it, the high one does not.
constexpr FieldLimits FromUpTo(double low, double high) { return {.low = low, .high = high, .excludes_high = true}; }

// What an enum's values are called in files and on the command line. The enum's NamesOf, found beside it, returns it.
template <class E>
struct EnumName {
  const char* name;
  E value;
};
template <class E, size_t kCount>
using EnumNames = std::array<EnumName<E>, kCount>;

// Yes, no, or what suits the machine.
enum class Switch { kFalse, kTrue, kAuto };
constexpr EnumNames<Switch, 3> NamesOf(Switch) {
  return {{{"auto", Switch::kAuto}, {"true", Switch::kTrue}, {"false", Switch::kFalse}}};
}
constexpr Switch SwitchOf(bool on) { return on ? Switch::kTrue : Switch::kFalse; }

}  // namespace distill
