#include "libdistill/comm/tuning_text.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/field_text.h"

namespace distill {

std::string DescribeAlgorithms(const CommTuning& flat, const CommTuning* lane, const CommLayout& all) {
  const AlgorithmPreference preference = flat.preference();
  const CommTuning& across = lane != nullptr ? *lane : flat;
  const CommLayout layout = lane != nullptr ? CommLayout{all.hosts, all.hosts, 1} : all;
  std::string text = "all-reduce over the fabric: ";
  if (lane != nullptr) {
    const bool chooses = preference == AlgorithmPreference::kAuto || preference == AlgorithmPreference::kFlat;
    absl::StrAppend(&text, chooses ? flat.Describe(CommOperation::kAllReduce, all) : "hierarchical",
                    ", and in its lanes ");
  }
  absl::StrAppend(&text, across.Describe(CommOperation::kAllReduce, layout, /*flat_only=*/true), " (comm_algorithm ",
                  FieldText(preference), ")");
  if (preference == AlgorithmPreference::kBinomialTree || preference == AlgorithmPreference::kBinaryTree) {
    absl::StrAppend(&text,
                    "; broadcast and reduce: ", across.Describe(CommOperation::kBroadcast, layout, /*flat_only=*/true));
  }
  if (across.was_given()) return text;
  absl::StrAppend(&text, "; costs: the built-in ones of ", across.source());
  // Of GPUs' memory in the lanes, beside host memory between all ranks.
  if (flat.source() != across.source()) absl::StrAppend(&text, ", and between all ranks of ", flat.source());
  return text;
}

}  // namespace distill
