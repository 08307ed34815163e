#include "examples/llm/end_of_answer.h"

#include "libdistill/core/status_macros.h"
#include "libdistill/nn/generate.h"

namespace distill {

absl::StatusOr<std::vector<int32_t>> EndsOfAnswer(const std::string& folder, const Tokenizer& tokenizer) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<int32_t> ids, ReadStopIds(folder));
  if (tokenizer.eos_id()) ids.push_back(*tokenizer.eos_id());
  for (const char* token : {"<|im_end|>", "<|eot_id|>"}) {
    if (const auto id = tokenizer.TokenToId(token)) ids.push_back(*id);
  }
  return ids;
}

}  // namespace distill
