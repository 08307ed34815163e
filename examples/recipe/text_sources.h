// Text out of several data sets: which, in which shares, what of it is held out, and where its tokens are kept. For
// recipes whose rows become token samples.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/core/describe.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/mixture.h"
#include "libdistill/data/row_options.h"
#include "libdistill/data/token_cache_options.h"

namespace distill {

struct SourceOptions {
  std::string dataset_name;  // several with commas: SourceNames
  std::string dataset_split = "train";
  std::string dataset_revision;
  std::string dataset_weights;
  MixOptions mix;  // but for the weights
  int64_t max_samples = 0;
  double validation_split = 0;  // of the samples, held out
};

// But for max_samples and validation_split, which recipes have names and words of their own for.

template <class V>
void Describe(V& v, SourceOptions& o) {
  v.Group("Data");
  v.Field("dataset_name", o.dataset_name,
          "data: a file of rows (.jsonl, .parquet, .csv, .tsv, also .gz and .zst), a folder of them, or one of tokens; "
          "may be s3://, or a data set of the hub (org/name, org/name@REVISION); several with commas, or as a list")
      .PathOfAnyStore()
      .TakesList()
      .Alias("dataset", "data", "data_path", "dataset_path", "train_file", "train_data", "train_dataset");
  v.Field("dataset_split", o.dataset_split, "of a folder, not of a file: the files whose names start with it")
      .Alias("dataset_train_split", "train_split")
      .Similar("split");
  v.Field("dataset_revision", o.dataset_revision,
          "of data sets of the hub: a branch, a tag or a commit; empty: main. Names with @REVISION have their own");
  v.Field("dataset_weights", o.dataset_weights,
          "of several data sets: the share of each in an epoch, above 0; empty: each sample comes once an epoch")
      .TakesList()
      .Alias("interleave_probs", "dataset_probabilities", "probabilities");
  v.Field("stopping_strategy", o.mix.stopping,
          "with dataset_weights, an epoch ends when one data set has no samples left, or when all of them came");
}

// How rows become tokens, and where these are kept.
struct TokenizingOptions {
  int64_t num_workers = 0;
  std::string cache_dir;
  bool overwrite_cache = false;
};

template <class V>
void Describe(V& v, TokenizingOptions& o) {
  v.Group("Data");
  v.Field("preprocessing_num_workers", o.num_workers, Within(0, 4096),
          "threads that tokenize rows; 0: one a core of the host, or with cache_dir none as many as this rank computes "
          "with")
      .Alias("dataset_num_proc", "num_proc", "dataset_num_workers", "preprocessing_workers");
  v.Field("cache_dir", o.cache_dir,
          "folder where tokens are kept for the other ranks of the host and for the next start; none: each rank keeps "
          "its own in memory; empty: DISTILL_CACHE_DIR of the environment, or ~/.cache/libdistill/tokens")
      .Path()
      .Alias("dataset_prepared_path");
  v.Field("overwrite_cache", o.overwrite_cache, "make the tokens again, although they are kept");
}

// The data sets that dataset_name names.
std::vector<std::string> SourceNames(const SourceOptions& options);

// Before any data are read, which may take minutes. CheckSplits: that no split is asked of a file, which has none.
// CheckSourceFiles: whether there are such files, and weights for them. Errors begin with their option.
[[nodiscard]] absl::Status CheckSplits(const SourceOptions& options);
[[nodiscard]] absl::Status CheckSourceFiles(const SourceOptions& options, const RowOptions& rows);

// The same of other data, of a recipe's own options. The split `otherwise`, their default, is accepted beside a file
// too: stored configs have it.
[[nodiscard]] absl::Status CheckSplit(const char* split_name, const std::string& split, const std::string& otherwise,
                                      const char* path_name, const std::string& path);
[[nodiscard]] absl::Status CheckRows(const std::string& path, const std::string& split, const RowOptions& rows);

struct JoinedSources {
  std::shared_ptr<Dataset> train;
  std::shared_ptr<Dataset> held_out;  // null without validation_split
};
// Of the samples of each source, in the order of SourceNames. InvalidArgument: weights that are not one a source, a
// source without samples, a validation_split that holds out none.
[[nodiscard]] absl::StatusOr<JoinedSources> JoinSources(const SourceOptions& options,
                                                        std::vector<std::shared_ptr<const Dataset>> sources);

// The cache; one that was not asked for is no reason to fail.
TokenCache CacheOf(const TokenizingOptions& options);
// Who fills the cache works for all ranks of its host, which wait for it.
int64_t ThreadsOf(const TokenizingOptions& options);

// While it lives, this thread and those that it starts may use all cores that the launcher left to this rank, where it
// may be one that fills the cache.
class TokenizingCores {
 public:
  explicit TokenizingCores(const TokenizingOptions& options);
  ~TokenizingCores();
  TokenizingCores(const TokenizingCores&) = delete;
  TokenizingCores& operator=(const TokenizingCores&) = delete;

 private:
  std::vector<int> own_;  // empty: nothing was changed
};

}  // namespace distill
