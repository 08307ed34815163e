// A task whose position is the number of steps that it has made: for tests that make their own micro-batches.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/task/task.h"

namespace distill::testing {

class CountedTask : public Task {
 public:
  virtual int64_t steps_per_epoch() const { return 100; }
  absl::StatusOr<int64_t> StepsInEpoch(int64_t) override { return steps_per_epoch(); }
  std::string Position() const override { return absl::StrCat("1 ", made_); }
  absl::Status Restore(const std::string& position) override {
    absl::string_view number = position;
    if (absl::ConsumePrefix(&number, "1 ") && absl::SimpleAtoi(number, &made_)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("'", position, "' is no position of a counted task"));
  }
  std::map<std::string, int64_t> TrainedRows(const torch::nn::Module&) const override { return trained_rows; }
  absl::Status SaveModel(const torch::nn::Module& module, const std::string& folder) const override {
    return save ? save(folder) : Task::SaveModel(module, folder);
  }

  std::map<std::string, int64_t> trained_rows;
  std::function<absl::Status(const std::string& folder)> save;

 protected:
  int64_t made_ = 0;
};

}  // namespace distill::testing
