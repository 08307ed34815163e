// What a beat carries of its sender's last calls, and how rank 0 compares those of all ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/world/rendezvous.h"

namespace distill {

std::string EncodeCalls(const std::vector<CallView>& calls);
// DataLoss: no such bytes.
[[nodiscard]] absl::StatusOr<std::vector<CallView>> DecodeCalls(absl::string_view payload);

// Finds ranks that make different calls.
class CallComparison {
 public:
  // `name`: of the rank whose calls they are. FailedPrecondition: a call is another than that of a rank before.
  [[nodiscard]] absl::Status Compare(const std::string& name, const std::vector<CallView>& calls);

 private:
  struct First {
    std::string name;
    std::string text;
  };
  std::map<int64_t, First> first_;  // by the call's number
};

}  // namespace distill
