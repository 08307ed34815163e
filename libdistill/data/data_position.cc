#include "libdistill/data/data_position.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/data/sample_order.h"

namespace distill {
namespace {

constexpr char kName[] = "DataSharder";
constexpr int kWithoutSamples = 1;
constexpr int kListed = 2;
constexpr int kWithoutList = 3;  // another order of more samples than SampleOrder::kMostListed
constexpr int kWithMixture = 4;
constexpr int kByLength = 5;
constexpr int kInWindows = 6;
constexpr char kNoMixture[] = "-";

size_t PartsOf(int version) {
  switch (version) {
    case kWithoutSamples:
      return 5;
    case kWithMixture:
      return 7;
    case kByLength:
      return 9;
    case kInWindows:
      return 10;
    default:
      return 6;
  }
}

}  // namespace

std::string DataPosition::Format() const {
  const bool is_by_length = window > 0 || max_tokens > 0;
  const int version = order_window > 0                     ? kInWindows
                      : is_by_length                       ? kByLength
                      : !mixture.empty()                   ? kWithMixture
                      : samples > SampleOrder::kMostListed ? kWithoutList
                                                           : kListed;
  std::string bytes = absl::StrCat(kName, " ", version, " ", epoch, " ", row, " ", seed, " ", samples);
  if (version >= kWithMixture) absl::StrAppend(&bytes, " ", mixture.empty() ? kNoMixture : mixture);
  if (version >= kByLength) absl::StrAppend(&bytes, " ", window, " ", max_tokens);
  if (version >= kInWindows) absl::StrAppend(&bytes, " ", order_window);
  return bytes;
}

absl::StatusOr<DataPosition> DataPosition::Parse(const std::string& bytes) {
  const auto none = [&bytes] { return absl::InvalidArgumentError(absl::StrCat("no data position: '", bytes, "'")); };
  const std::vector<std::string> parts = absl::StrSplit(bytes, ' ');
  int version = 0;
  if (parts.size() < 2 || parts[0] != kName || !absl::SimpleAtoi(parts[1], &version)) return none();
  if (version < kWithoutSamples || version > kInWindows) {
    return absl::InvalidArgumentError(absl::StrCat("the saved data position is of version ", parts[1],
                                                   "; this program knows versions up to ", kInWindows,
                                                   ": resume with the program that saved it"));
  }
  DataPosition position;
  if (parts.size() != PartsOf(version) || !absl::SimpleAtoi(parts[2], &position.epoch) ||
      !absl::SimpleAtoi(parts[3], &position.row) || !absl::SimpleAtoi(parts[4], &position.seed) ||
      (version > kWithoutSamples && !absl::SimpleAtoi(parts[5], &position.samples)) || position.epoch < 0 ||
      position.row < 0 || position.samples < 0) {
    return none();
  }
  if (parts.size() > 6 && parts[6] != kNoMixture) position.mixture = parts[6];
  if (version >= kByLength &&
      (!absl::SimpleAtoi(parts[7], &position.window) || !absl::SimpleAtoi(parts[8], &position.max_tokens) ||
       position.window < 0 || position.max_tokens < 0)) {
    return none();
  }
  if (version >= kInWindows && (!absl::SimpleAtoi(parts[9], &position.order_window) || position.order_window < 0)) {
    return none();
  }
  position.has_older_list = version <= kListed;
  return position;
}

}  // namespace distill
