#include "libdistill/world/slurm.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/random.h"

namespace distill {
namespace {

// Slurm numbers its own steps (batch script, interactive shell, extern) down from 2^32 - 1.
constexpr int64_t kFirstSpecialStep = 0xfffffff0;

}  // namespace

bool InsideSrunStep(const Environment& environment) {
  return environment.Has("SLURM_PROCID") && environment.Number("SLURM_STEP_ID", 0, kFirstSpecialStep - 1).ok();
}

absl::StatusOr<std::string> FirstHostOfNodeList(const std::string& list) {
  const auto damaged = [&list] {
    return absl::InvalidArgumentError(absl::StrCat("'", list, "' is no Slurm list of nodes"));
  };
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ',';) {
    if (list[i] != '[') {
      host += list[i++];
      continue;
    }
    const size_t close = list.find(']', i);
    const size_t end = list.find_first_of(",-]", i + 1);
    if (close == std::string::npos || end == i + 1) return damaged();
    host.append(list, i + 1, end - i - 1);  // the first number, with its leading zeros
    i = close + 1;
  }
  if (host.empty()) return damaged();
  return host;
}

absl::StatusOr<int64_t> TasksOnNode(const std::string& tasks_per_node, int64_t node) {
  for (const absl::string_view entry : absl::StrSplit(tasks_per_node, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(entry, absl::MaxSplits("(x", 1));
    int64_t tasks = 0;
    int64_t times = 1;
    absl::string_view repeat = parts.second;
    const bool repeated = entry.size() != parts.first.size();
    if (repeated && (repeat.empty() || repeat.back() != ')')) break;
    if (repeated) repeat.remove_suffix(1);
    if (!absl::SimpleAtoi(parts.first, &tasks) || tasks < 1) break;
    if (repeated && (!absl::SimpleAtoi(repeat, &times) || times < 1)) break;
    if (node < times) return tasks;
    node -= times;
  }
  return absl::InvalidArgumentError(absl::StrCat("the environment variable SLURM_STEP_TASKS_PER_NODE is '",
                                                 tasks_per_node, "', which does not say how many tasks this node has"));
}

int RendezvousPortOfStep(int64_t job, int64_t step) {
  constexpr int kLowest = 20000;
  constexpr int kHighest = 32000;
  return kLowest +
         static_cast<int>(Random(static_cast<uint64_t>(job), static_cast<uint64_t>(step)).Below(kHighest - kLowest));
}

}  // namespace distill
