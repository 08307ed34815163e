#include "libdistill/world/call_views.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/different_calls.h"
#include "libdistill/world/framing.h"

namespace distill {

std::string EncodeCalls(const std::vector<CallView>& calls) {
  std::vector<std::string> fields;
  for (const CallView& call : calls) {
    fields.push_back(absl::StrCat(call.number));
    fields.push_back(call.text);
  }
  return fields.empty() ? "" : PackStrings(fields);
}

absl::StatusOr<std::vector<CallView>> DecodeCalls(absl::string_view payload) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> fields, UnpackStrings(payload));
  if (fields.size() % 2 != 0) return absl::DataLossError("a call without its text");
  std::vector<CallView> calls;
  for (size_t i = 0; i < fields.size(); i += 2) {
    CallView& call = calls.emplace_back();
    if (!absl::SimpleAtoi(fields[i], &call.number)) return absl::DataLossError("a call without its number");
    call.text = fields[i + 1];
  }
  return calls;
}

absl::Status CallComparison::Compare(const std::string& name, const std::vector<CallView>& calls) {
  for (const CallView& call : calls) {
    const First& other = first_.try_emplace(call.number, First{name, call.text}).first->second;
    if (other.text == call.text) continue;
    return DifferentCalls(absl::StrCat("in call number ", call.number, " ", other.name, " calls ", other.text),
                          absl::StrCat(name, " calls ", call.text));
  }
  return absl::OkStatus();
}

}  // namespace distill
