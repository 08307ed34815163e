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

}  // namespace distill
