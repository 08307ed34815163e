#include "libdistill/data/token_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/token_shard.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kIndexName[] = "tokens.json";
constexpr int64_t kVersion = 1;

class TokenFolder : public Dataset {
 public:
  // `ends`: how many samples there are up to the end of each shard.
  TokenFolder(std::vector<std::shared_ptr<const TokenShard>> shards, std::vector<int64_t> ends, int64_t size,
              std::string fingerprint)
      : shards_(std::move(shards)), ends_(std::move(ends)), size_(size), fingerprint_(std::move(fingerprint)) {}

  int64_t size() const override { return size_; }

  absl::StatusOr<int64_t> Length(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    const auto [shard, place] = PlaceOf(index);
    return shards_[shard]->LengthOf(place);
  }

  absl::StatusOr<Sample> Read(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    const auto [shard, place] = PlaceOf(index);
    return shards_[shard]->Read(place, index);
  }

  absl::StatusOr<std::string> Fingerprint() const override { return fingerprint_; }

 private:
  std::pair<size_t, int64_t> PlaceOf(int64_t index) const {
    const auto shard = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    return {shard, index - (shard == 0 ? 0 : ends_[shard - 1])};
  }

  const std::vector<std::shared_ptr<const TokenShard>> shards_;
  const std::vector<int64_t> ends_;
  const int64_t size_;
  const std::string fingerprint_;
};

absl::StatusOr<TokenIndex> ParseIndex(const Json& json) {
  if (json.at("version") != kVersion) {
    return absl::DataLossError("was made by another version of libdistill: make the folder again");
  }
  const Json& recipe = json.at("recipe");
  TokenIndex index = {.samples = json.at("samples"),
                      .tokens = json.at("tokens"),
                      .shards = json.at("shards"),
                      .summary = json.at("summary"),
                      .fingerprint = json.at("fingerprint"),
                      .progress = json.at("progress").dump(),
                      .made_of = json.at("made_of"),
                      .recipe = {.tokenizer = recipe.at("tokenizer"),
                                 .chat_template = recipe.at("chat_template"),
                                 .train_on = recipe.at("train_on"),
                                 .max_length = recipe.at("max_length")}};
  if (index.samples >= 0 && index.shards >= 0 && index.shards <= index.samples) return index;
  return absl::DataLossError("its numbers make no sense: make the folder again");
}

}  // namespace

std::string TokenShardName(int64_t shard) { return absl::StrFormat("%05d.tokens", shard); }

bool IsTokenFolder(const std::string& path) { return FileExists(JoinPath(path, kIndexName)); }

absl::StatusOr<TokenIndex> ReadTokenIndex(const std::string& folder) {
  const std::string path = JoinPath(folder, kIndexName);
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  try {
    const absl::StatusOr<TokenIndex> index = ParseIndex(Json::parse(text));
    return index.ok() ? index : Annotate(index.status(), path);
  } catch (const Json::exception& error) {
    return absl::DataLossError(
        absl::StrCat(path, ": is damaged: remove the folder, and make it again (", error.what(), ")"));
  }
}

absl::Status WriteTokenIndex(const std::string& folder, const TokenIndex& index) {
  const Json json = {{"version", kVersion},
                     {"samples", index.samples},
                     {"tokens", index.tokens},
                     {"shards", index.shards},
                     {"summary", index.summary},
                     {"fingerprint", index.fingerprint},
                     {"recipe",
                      {{"tokenizer", index.recipe.tokenizer},
                       {"chat_template", index.recipe.chat_template},
                       {"train_on", index.recipe.train_on},
                       {"max_length", index.recipe.max_length}}},
                     {"progress", Json::parse(index.progress)},
                     {"made_of", index.made_of}};
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> file, CreateFile(JoinPath(folder, kIndexName)));
  DISTILL_RETURN_IF_ERROR(file->Append(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"));
  return file->Commit();
}

absl::StatusOr<std::shared_ptr<Dataset>> OpenTokenFolder(const std::string& folder, const TokenIndex& index,
                                                         int64_t num_samples) {
  std::vector<std::shared_ptr<const TokenShard>> shards;
  std::vector<int64_t> ends;
  int64_t samples = 0;
  for (int64_t i = 0; i < index.shards; ++i) {
    DISTILL_ASSIGN_OR_RETURN(auto shard, TokenShard::Open(JoinPath(folder, TokenShardName(i))));
    samples += shard->size();
    ends.push_back(samples);
    shards.push_back(std::move(shard));
  }
  if (samples != index.samples) {
    return absl::DataLossError(absl::StrCat(folder, ": its shards have ", samples, " samples, its index says ",
                                            index.samples, ": remove the folder, and make it again"));
  }
  const bool is_part = num_samples > 0 && num_samples < samples;
  return std::make_shared<TokenFolder>(
      std::move(shards), std::move(ends), is_part ? num_samples : samples,
      is_part ? absl::StrCat("the first ", num_samples, " of ", index.fingerprint) : index.fingerprint);
}

}  // namespace distill
