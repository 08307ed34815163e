#include "libdistill/data/shard_options.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/description.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::Status CheckShardOptions(const ShardOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckOptions(options));
  if (options.packing && options.group_by_length) {
    return absl::InvalidArgumentError(
        "packing and group_by_length exclude one another: packed rows have no padding to save");
  }
  if (options.max_tokens_per_batch == 0) return absl::OkStatus();
  if (options.global_rows > 0) {
    return absl::InvalidArgumentError(
        "global_batch_size and max_tokens_per_batch exclude one another: a budget of tokens says how many rows a "
        "micro-batch has, gradient_accumulation_steps how many of them a step");
  }
  if (options.packing) {
    return absl::InvalidArgumentError(
        "packing and max_tokens_per_batch exclude one another: a packed micro-batch has per_device_train_batch_size * "
        "max_length tokens");
  }
  if (options.rows_per_rank != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_tokens_per_batch says how many rows a micro-batch has: leave out per_device_train_batch_size, which is ",
        options.rows_per_rank));
  }
  if (options.max_tokens_per_batch >= options.max_length) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("max_tokens_per_batch is ", options.max_tokens_per_batch,
                                                 ", but one row may have max_length, ", options.max_length,
                                                 ": allow as many, or cut samples shorter"));
}

absl::StatusOr<StepShape> StepOn(const ShardOptions& options, int64_t world_size) {
  if (options.global_rows == 0)
    return StepShape{options.rows_per_rank * options.accumulation_steps, options.accumulation_steps};
  const int64_t rows = options.global_rows / world_size;
  if (rows > 0) return StepShape{rows, (rows + options.rows_per_rank - 1) / options.rows_per_rank};
  return absl::InvalidArgumentError(absl::StrCat("global_batch_size is ", options.global_rows,
                                                 ", which is less than a row for each of ", world_size,
                                                 " ranks: raise it, or start fewer ranks"));
}

std::string DescribeLowerBatch(const ShardOptions& options, int64_t world_size) {
  if (options.global_rows % world_size == 0) return "";
  const int64_t rows = options.global_rows / world_size;
  return absl::StrCat("a step is ", world_size, " ranks x ", rows, " rows = ", world_size * rows,
                      " rows, the nearest lower multiple of ", world_size, " to global_batch_size ",
                      options.global_rows);
}

}  // namespace distill
