#include "examples/recipe/text_sources.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/rows.h"
#include "libdistill/data/token_folder.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hub_cache.h"
#include "libdistill/store/store.h"
#include "libdistill/world/own_cores.h"

namespace distill {
namespace {

// Before any rank can have begun to tokenize, and before a run leaves each rank its own cores.
const absl::Time kProgramStart = absl::Now();
const std::vector<int> kCoresAtStart = AllowedCores();

// It is slower where that fails, and nothing else.
void Bind(const std::vector<int>& cores) {
  if (!cores.empty()) BindThread(cores).IgnoreError();
}

// One for each data set, or none.
absl::StatusOr<std::vector<double>> WeightsOf(const SourceOptions& options) {
  std::vector<double> weights;
  for (absl::string_view part : absl::StrSplit(options.dataset_weights, ',', absl::SkipWhitespace())) {
    part = absl::StripAsciiWhitespace(part);
    if (double& weight = weights.emplace_back(); !absl::SimpleAtod(part, &weight) || !(weight > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("dataset_weights: '", part, "' is no number above 0: give a weight for each data set"));
    }
  }
  const size_t names = SourceNames(options).size();
  if (weights.empty() || weights.size() == names) return weights;
  return absl::InvalidArgumentError(absl::StrCat("dataset_weights: there are ", weights.size(), " for ", names,
                                                 " data sets of dataset_name: give one for each, or none"));
}

}  // namespace

std::vector<std::string> SourceNames(const SourceOptions& options) {
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(options.dataset_name, ',', absl::SkipWhitespace())) {
    names.emplace_back(absl::StripAsciiWhitespace(name));
  }
  // A name may hold a comma itself.
  return names.size() > 1 && (FileExists(options.dataset_name) || FolderExists(options.dataset_name))
             ? std::vector<std::string>{options.dataset_name}
             : names;
}

absl::Status CheckSplit(const char* split_name, const std::string& split, const std::string& otherwise,
                        const char* path_name, const std::string& path) {
  // Of the hub, the file that the card names for the split.
  if (split == otherwise || !FileExists(path) || !NameOfSnapshot(path).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(split_name, " is '", split, "', but ", path_name, " is the file ",
                                                 path, ", which has no splits: leave ", split_name,
                                                 " out, or name the folder that holds one file a split"));
}

absl::Status CheckRows(const std::string& path, const std::string& split, const RowOptions& rows) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(path));
  DISTILL_ASSIGN_OR_RETURN(const PathKind kind, store->KindOf(path));
  if (kind == PathKind::kFolder && IsTokenFolder(path)) return ReadTokenIndex(path).status();
  if (kind != PathKind::kNothing) return CheckRowFiles(path, split, rows);
  return absl::NotFoundError(absl::StrCat(
      path, ": no such file, or it cannot be read; data are files, folders, s3:// or data sets of the hub ",
      "(org/name)"));
}

absl::Status CheckSplits(const SourceOptions& options) {
  for (const std::string& name : SourceNames(options)) {
    DISTILL_RETURN_IF_ERROR(
        CheckSplit("dataset_split", options.dataset_split, SourceOptions().dataset_split, "dataset_name", name));
  }
  return absl::OkStatus();
}

absl::Status CheckSourceFiles(const SourceOptions& options, const RowOptions& rows) {
  for (const std::string& name : SourceNames(options)) {
    DISTILL_RETURN_IF_ERROR(Annotate(CheckRows(name, options.dataset_split, rows), "dataset_name"));
  }
  return WeightsOf(options).status();
}

absl::StatusOr<JoinedSources> JoinSources(const SourceOptions& options,
                                          std::vector<std::shared_ptr<const Dataset>> sources) {
  MixOptions mix = options.mix;
  DISTILL_ASSIGN_OR_RETURN(mix.weights, WeightsOf(options));
  std::vector<std::shared_ptr<const Dataset>> held_out;
  if (options.validation_split > 0) {
    for (auto& source : sources) {
      SplitDataset split = SplitByIds(std::move(source), options.validation_split);
      source = std::move(split.first);
      if (split.second->size() > 0) held_out.push_back(std::move(split.second));
    }
  }
  JoinedSources joined;
  if (sources.size() == 1 && options.validation_split == 0) {
    joined.train = std::const_pointer_cast<Dataset>(sources[0]);
    return joined;
  }
  absl::StatusOr<std::shared_ptr<Dataset>> mixed = MixSources(std::move(sources), mix);
  if (!mixed.ok()) return Annotate(mixed.status(), "dataset_name");
  joined.train = *std::move(mixed);
  if (options.validation_split == 0) return joined;
  if (held_out.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("validation_split: of so few samples ", options.validation_split, " holds out none: raise it"));
  }
  DISTILL_ASSIGN_OR_RETURN(joined.held_out, MixSources(std::move(held_out), {}));
  LogInfo(absl::StrCat("validation_split: ", joined.held_out->size(), " samples are held out, ", joined.train->size(),
                       " are trained"));
  return joined;
}

TokenCache CacheOf(const TokenizingOptions& options) {
  if (options.cache_dir == "none") return {};
  const bool is_default = options.cache_dir.empty();
  return {.folder = is_default ? DefaultTokenCacheFolder() : options.cache_dir,
          .is_required = !is_default,
          .rebuild_before = options.overwrite_cache ? kProgramStart : absl::InfinitePast()};
}

int64_t ThreadsOf(const TokenizingOptions& options) {
  if (options.num_workers > 0) return options.num_workers;
  return CacheOf(options).folder.empty() ? at::get_num_threads() : std::max<int64_t>(1, std::ssize(kCoresAtStart));
}

TokenizingCores::TokenizingCores(const TokenizingOptions& options) {
  if (CacheOf(options).folder.empty()) return;
  own_ = AllowedCores();
  Bind(kCoresAtStart);
}

TokenizingCores::~TokenizingCores() { Bind(own_); }

}  // namespace distill
