#include "libdistill/data/data_sharder.h"

#include <xxhash.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"

namespace distill {
namespace {

absl::Status CheckOptions(int rank, int world_size, const ShardOptions& options) {
  if (world_size < 1 || rank < 0 || rank >= world_size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of ", world_size, " does not exist"));
  }
  for (const auto& [name, value] : {std::pair<const char*, int64_t>{"rows_per_rank", options.rows_per_rank},
                                    {"accumulation_steps", options.accumulation_steps},
                                    {"max_length", options.max_length}}) {
    if (value < 1 || value > (int64_t{1} << 31)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; it needs to be from 1 to 2^31"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSamples(const TokenDataset& dataset) {
  if (dataset.size() == 0) return absl::InvalidArgumentError("the data set has no samples");
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const TokenSample& sample = dataset.sample(i);
    if (sample.ids.empty()) return absl::InvalidArgumentError(absl::StrCat("sample ", i, " has no tokens"));
    if (sample.ids.size() != sample.is_target.size()) {
      return absl::InvalidArgumentError(absl::StrCat("sample ", i, " has ", sample.ids.size(), " ids, but ",
                                                     sample.is_target.size(), " target marks"));
    }
  }
  return absl::OkStatus();
}

std::vector<int64_t> EpochOrder(int64_t size, const ShardOptions& options, int64_t epoch) {
  std::vector<int64_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  if (!options.shuffle) return order;
  Random random(options.seed, static_cast<uint64_t>(epoch));
  for (int64_t i = size - 1; i > 0; --i) std::swap(order[i], order[random.Below(i + 1)]);  // Fisher-Yates
  return order;
}

// One sample a row; with packing, a row takes the samples that come next as long as they fit.
std::vector<std::vector<int64_t>> FormRows(const TokenDataset& dataset, const std::vector<int64_t>& order,
                                           const ShardOptions& options) {
  std::vector<std::vector<int64_t>> rows;
  int64_t room = 0;
  for (const int64_t index : order) {
    const int64_t length = std::min(static_cast<int64_t>(dataset.sample(index).ids.size()), options.max_length);
    if (!options.packing || length > room) {
      rows.emplace_back();
      room = options.max_length;
    }
    rows.back().push_back(index);
    room -= length;
  }
  return rows;
}

// Lengths go in as well, or tokens could move from a sample to the next unseen.
std::string HashOf(const TokenDataset& dataset) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const TokenSample& sample = dataset.sample(i);
    const uint64_t length = sample.ids.size();
    XXH3_64bits_update(hash.get(), &length, sizeof(length));
    XXH3_64bits_update(hash.get(), sample.ids.data(), length * sizeof(sample.ids[0]));
    XXH3_64bits_update(hash.get(), sample.is_target.data(), sample.is_target.size());
  }
  return absl::StrCat(dataset.size(), " samples with XXH3 ",
                      absl::Hex(XXH3_64bits_digest(hash.get()), absl::kZeroPad16));
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

absl::StatusOr<DataSharder> DataSharder::Create(std::shared_ptr<const TokenDataset> dataset, int rank, int world_size,
                                                const ShardOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckOptions(rank, world_size, options));
  if (dataset == nullptr) return absl::InvalidArgumentError("there is no data set");
  DISTILL_RETURN_IF_ERROR(CheckSamples(*dataset));
  DataSharder sharder;
  sharder.dataset_ = std::move(dataset);
  sharder.rank_ = rank;
  sharder.world_size_ = world_size;
  sharder.options_ = options;
  sharder.state_.seed = options.seed;
  sharder.StartEpoch();
  return sharder;
}

std::vector<std::pair<std::string, std::string>> DataSharder::Fingerprint() const {
  const auto& [seed, rows_per_rank, accumulation_steps, shuffle, packing, max_length, pad_id] = options_;
  return {{"seed", absl::StrCat(seed)},
          {"rows_per_rank", absl::StrCat(rows_per_rank)},
          {"accumulation_steps", absl::StrCat(accumulation_steps)},
          {"shuffle", absl::StrCat(shuffle)},
          {"packing", absl::StrCat(packing)},
          {"max_length", absl::StrCat(max_length)},
          {"pad_id", absl::StrCat(pad_id)},
          {"world_size", absl::StrCat(world_size_)},
          {"position", absl::StrCat("epoch ", state_.epoch, ", row ", state_.row)},
          {"tokens and targets", HashOf(*dataset_)}};
}

void DataSharder::StartEpoch() {
  rows_ = FormRows(*dataset_, EpochOrder(dataset_->size(), options_, state_.epoch), options_);
}

int64_t DataSharder::rows_per_step() const {
  return options_.rows_per_rank * options_.accumulation_steps * world_size_;
}

int64_t DataSharder::steps_per_epoch() const { return CeilDivide(static_cast<int64_t>(rows_.size()), rows_per_step()); }

int64_t DataSharder::steps_in_epoch(int64_t epoch) const {
  if (epoch == state_.epoch || !options_.packing) return steps_per_epoch();
  const size_t rows = FormRows(*dataset_, EpochOrder(dataset_->size(), options_, epoch), options_).size();
  return CeilDivide(static_cast<int64_t>(rows), rows_per_step());
}

std::vector<TokenBatch> DataSharder::NextStep() {
  const int64_t begin = state_.row, end = std::min(begin + rows_per_step(), static_cast<int64_t>(rows_.size()));
  std::vector<std::vector<int64_t>> mine;
  for (int64_t row = begin + rank_; row < end; row += world_size_) mine.push_back(rows_[row]);
  // Rank 0 has the most rows of a short batch; the others make as many micro-batches as it does, empty ones at the end.
  const int64_t micro_batches = CeilDivide(CeilDivide(end - begin, world_size_), options_.rows_per_rank);
  std::vector<TokenBatch> step;
  for (int64_t i = 0; i < micro_batches; ++i) {
    const auto rows = absl::MakeConstSpan(mine).subspan(std::min<size_t>(i * options_.rows_per_rank, mine.size()),
                                                        options_.rows_per_rank);
    step.push_back(Collate(*dataset_, rows, options_.max_length, options_.pad_id));
  }
  state_.row = end;
  if (end == static_cast<int64_t>(rows_.size())) {
    ++state_.epoch;
    state_.row = 0;
    StartEpoch();
  }
  return step;
}

absl::Status DataSharder::Restore(const ShardState& state) {
  if (state.seed != options_.seed) {
    return absl::InvalidArgumentError(absl::StrCat("the saved data position has seed ", state.seed, ", this job ",
                                                   options_.seed, ": resume with the same seed"));
  }
  if (state.epoch < 0 || state.row < 0) {
    return absl::InvalidArgumentError(absl::StrCat("no data position: epoch ", state.epoch, ", row ", state.row));
  }
  const ShardState before = std::exchange(state_, state);
  StartEpoch();
  if (state.row < static_cast<int64_t>(rows_.size())) return absl::OkStatus();
  const size_t rows = rows_.size();
  state_ = before;
  StartEpoch();
  return absl::InvalidArgumentError(absl::StrCat("the saved data position is row ", state.row, " of an epoch of ", rows,
                                                 " rows: is this another data set, or packed otherwise?"));
}

}  // namespace distill
