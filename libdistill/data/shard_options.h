// The options of a DataSharder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/core/describe.h"

namespace distill {

struct ShardOptions {
  uint64_t seed = 42;
  int64_t rows_per_rank = 1;       // of one micro-batch
  int64_t held_out_rows = 0;       // of one in an evaluation; 0: rows_per_rank
  int64_t accumulation_steps = 1;  // micro-batches of one step
  // Rows of one step, over all ranks, in place of accumulation_steps: the same for any number of ranks that divides it,
  // else the nearest lower multiple of them. 0: none.
  int64_t global_rows = 0;
  bool shuffle = true;
  bool packing = false;          // several samples in a row, up to max_length, none cut
  bool group_by_length = false;  // samples of nearly one length share a global batch
  // Of a micro-batch of one rank, padding included, in place of rows_per_rank; 0: none.
  int64_t max_tokens_per_batch = 0;
  int64_t max_length = 4096;  // of a row; a sample that is longer counts as so long, and has a row of its own
};

// As CheckOptions; InvalidArgument too for options that exclude one another.
[[nodiscard]] absl::Status CheckShardOptions(const ShardOptions& options);

// What a step is on so many ranks, where rows are counted (no max_tokens_per_batch).
struct StepShape {
  int64_t rank_rows = 0;      // of one rank
  int64_t micro_batches = 0;  // of it, the last of which may have less than rows_per_rank
};
// InvalidArgument: global_rows are less than one for each rank.
[[nodiscard]] absl::StatusOr<StepShape> StepOn(const ShardOptions& options, int64_t world_size);
// "a step is 48 ranks x 85 rows = 4080 rows, the nearest lower multiple of 48 to global_batch_size 4096"; empty where
// ranks divide global_rows, or there are none.
std::string DescribeLowerBatch(const ShardOptions& options, int64_t world_size);

// In an evaluation each sample comes once, in order; what accumulates makes no difference there.
inline ShardOptions ForEvaluation(ShardOptions options) {
  if (options.held_out_rows > 0) {
    options.rows_per_rank = options.held_out_rows;
    options.max_tokens_per_batch = 0;
  }
  options.group_by_length = false;
  options.accumulation_steps = 1;
  options.global_rows = 0;
  options.shuffle = false;
  return options;
}

template <class V>
void Describe(V& v, ShardOptions& o) {
  constexpr FieldLimits kCount = Within(1, int64_t{1} << 31), kLength = Within(2, int64_t{1} << 31);
  v.Group("Run");
  v.Field("seed", o.seed, "seed of shuffles and of random weights").Alias("random_seed", "manual_seed", "data_seed");
  v.Group("Data");
  v.Field("max_length", o.max_length, kLength, "tokens of a row; longer samples are cut")
      .Alias("max_seq_length", "max_seq_len", "seq_len", "seq_length", "sequence_length", "sequence_len",
             "model_max_length", "cutoff_len")
      .Similar("block_size");
  v.Field("packing", o.packing, "several samples in a row, without attention across them")
      .Alias("pack", "sample_packing");
  v.Field("group_by_length", o.group_by_length,
          "samples of nearly one length share a batch, so that less of it is padding; not with packing")
      .AliasOf("train_sampling_strategy", {{"group_by_length", "true"}, {"random", "false"}});
  v.Accept("length_column_name", {"length"}, "lengths are counted, in tokens");
  v.Field("shuffle", o.shuffle, "another order of the samples each epoch").InCodeOnly();
  v.Group("Training");
  v.Field("per_device_train_batch_size", o.rows_per_rank, kCount, "rows of a micro-batch of one rank")
      .Alias("micro_batch_size", "per_device_batch_size", "per_gpu_train_batch_size", "train_micro_batch_size_per_gpu")
      .Similar("batch_size", "train_batch_size");
  v.Field("max_tokens_per_batch", o.max_tokens_per_batch, Within(0, int64_t{1} << 31),
          "rows of a micro-batch of one rank: as many as stay within so many tokens, padding included, in place of "
          "per_device_train_batch_size; 0: none")
      .Alias("max_tokens", "max_tokens_per_gpu", "max_tokens_per_device")
      .Similar("batch_tokens", "tokens_per_batch");
  v.Field("per_device_eval_batch_size", o.held_out_rows, Within(0, int64_t{1} << 31),
          "rows of a micro-batch of held-out data; 0: per_device_train_batch_size")
      .Alias("per_gpu_eval_batch_size", "eval_batch_size");
  v.Field("gradient_accumulation_steps", o.accumulation_steps, kCount, "micro-batches of a step")
      .Alias("gradient_accumulation", "grad_accum", "grad_accum_steps", "grad_accumulation_steps", "accumulation_steps",
             "accumulate_grad_batches");
  v.Field("global_batch_size", o.global_rows, Within(0, int64_t{1} << 31),
          "rows of a step over all ranks, in place of gradient_accumulation_steps; where ranks do not divide it, the "
          "nearest lower multiple of them; 0: none")
      .Alias("effective_batch_size", "total_batch_size", "total_train_batch_size");
}

}  // namespace distill
