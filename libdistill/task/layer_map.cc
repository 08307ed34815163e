#include "libdistill/task/layer_map.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// `pair`: as messages show it.
absl::StatusOr<int64_t> ParseLayer(const std::string& pair, absl::string_view text, const char* whose, int64_t layers) {
  int64_t layer = 0;
  if (!absl::SimpleAtoi(text, &layer)) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer_map: ", pair, " is no pair of layers: write STUDENT:TEACHER, as 2:8"));
  }
  if (layer >= 0 && layer <= layers) return layer;
  return absl::InvalidArgumentError(
      absl::StrCat("layer_map: ", pair, ": the ", whose, " has layers 0 (its embeddings) to ", layers));
}

}  // namespace

absl::StatusOr<std::vector<LayerPair>> ParseLayerMap(const std::string& text, int64_t student_layers,
                                                     int64_t teacher_layers) {
  std::vector<LayerPair> pairs;
  for (int64_t i = 1; text.empty() && i <= student_layers; ++i) {
    pairs.push_back({i, (2 * i * teacher_layers + student_layers) / (2 * student_layers)});
  }
  if (text.empty()) return pairs;
  const std::vector<std::string> texts = absl::StrSplit(text, ',');
  for (const std::string& pair : texts) {
    const std::vector<absl::string_view> sides = absl::StrSplit(pair, ':');
    const std::string shown =
        absl::StrCat("\"", pair, "\"", texts.size() == 1 ? "" : absl::StrCat(" in \"", text, "\""));
    LayerPair parsed;
    DISTILL_ASSIGN_OR_RETURN(parsed.student, ParseLayer(shown, sides[0], "student", student_layers));
    DISTILL_ASSIGN_OR_RETURN(parsed.teacher,
                             ParseLayer(shown, sides.size() == 2 ? sides[1] : "", "teacher", teacher_layers));
    pairs.push_back(parsed);
  }
  return pairs;
}

}  // namespace distill
