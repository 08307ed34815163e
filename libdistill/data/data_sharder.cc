#include "libdistill/data/data_sharder.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "libdistill/core/description.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/mixture.h"
#include "libdistill/data/sample_order.h"
#include "libdistill/store/content_hash.h"

namespace distill {
namespace {

// Of a global batch: what transformers' LengthGroupedSampler sorts together.
constexpr int64_t kWindowBatches = 50;
// Where a budget, and not the global batch, says what a batch holds: the order depends on no number of ranks.
constexpr int64_t kWindowOfBudget = 16384;

// A row takes the samples that come next as long as they fit.
std::vector<int64_t> PackRows(const EpochOrder& order, const std::vector<int64_t>& lengths, int64_t max_length) {
  std::vector<int64_t> begins;
  int64_t room = 0;
  for (int64_t i = 0; i < order.size(); ++i) {
    const int64_t length = lengths[order[i]];  // at most max_length
    if (length > room) {
      begins.push_back(i);
      room = max_length;
    }
    room -= length;
  }
  return begins;
}

std::string HashOf(const Mixture& mixture) {
  return absl::StrCat(absl::Hex(HashOfBytes(mixture.Describe()), absl::kZeroPad16));
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Samples that are sorted by length together are read in another order: of a streamed data set they must be few beside
// those that it has at hand. A quarter of a window, so that two such groups, one being read behind the other, touch two
// windows at most, also of a source in a mixture.
constexpr int64_t kGroupsInWindow = 4;

absl::Status CheckGroupIsAtHand(int64_t group, int64_t window) {
  if (window == 0 || group <= window / kGroupsInWindow) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "group_by_length sorts ", group, " samples at a time, but this data set is streamed, in windows of ", window,
      " samples: open it with windows of at least ", kGroupsInWindow * group, " (RowDatasetOptions::window_rows), ",
      "use packing or max_tokens_per_batch alone, or make tokens of it first (distill_data tokenize)"));
}

}  // namespace

absl::StatusOr<DataSharder> DataSharder::Create(std::shared_ptr<const Dataset> dataset, int rank, int world_size,
                                                const ShardOptions& options) {
  if (world_size < 1 || rank < 0 || rank >= world_size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of ", world_size, " does not exist"));
  }
  DISTILL_RETURN_IF_ERROR(CheckShardOptions(options));
  if (dataset == nullptr) return absl::InvalidArgumentError("there is no data set");
  if (dataset->size() == 0) return absl::InvalidArgumentError("the data set has no samples");
  DataSharder sharder;
  sharder.dataset_ = std::move(dataset);
  sharder.rank_ = rank;
  sharder.world_size_ = world_size;
  sharder.options_ = options;
  DISTILL_ASSIGN_OR_RETURN(const StepShape step, StepOn(options, world_size));
  sharder.rank_rows_ = step.rank_rows;
  if (const std::string lower = DescribeLowerBatch(options, world_size); !lower.empty()) LogInfo(lower);
  sharder.state_ = sharder.Start();
  DISTILL_RETURN_IF_ERROR(CheckGroupIsAtHand(sharder.state_.window, sharder.dataset_->window()));
  return sharder;
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> DataSharder::Fingerprint() const {
  DISTILL_ASSIGN_OR_RETURN(const std::string samples, dataset_->Fingerprint());
  FieldValues fields = ValuesOf(options_);
  fields.emplace_back("world_size", absl::StrCat(world_size_));
  fields.emplace_back("position", absl::StrCat("epoch ", state_.epoch, ", row ", state_.row));
  fields.emplace_back("samples", samples);
  return fields;
}

DataPosition DataSharder::Start() const {
  const Mixture* const mixture = dataset_->mixture();
  const int64_t window = has_budget() ? kWindowOfBudget : kWindowBatches * rows_per_step();
  return {.seed = options_.seed,
          .samples = dataset_->size(),
          .mixture = mixture == nullptr ? "" : HashOf(*mixture),
          .window = options_.group_by_length ? window : 0,
          .max_tokens = options_.max_tokens_per_batch,
          .order_window = options_.shuffle && mixture == nullptr ? dataset_->window() : 0};
}

absl::Status DataSharder::ReadLengths() {
  if (lengths_ != nullptr) return absl::OkStatus();
  std::vector<int64_t> lengths;
  lengths.reserve(dataset_->size());
  for (int64_t i = 0; i < dataset_->size(); ++i) {
    DISTILL_ASSIGN_OR_RETURN(const int64_t length, dataset_->Length(i));
    if (length < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("sample ", i, " has length ", length, ": leave empty samples out of the data set"));
    }
    lengths.push_back(std::min(length, options_.max_length));
  }
  const bool has_lengths = std::any_of(lengths.begin(), lengths.end(), [](int64_t length) { return length > 1; });
  if (!has_lengths && !options_.packing) {
    return absl::InvalidArgumentError(
        "every sample has length 1: this data set knows no lengths, so group_by_length and max_tokens_per_batch do not "
        "go with it");
  }
  lengths_ = std::make_shared<const std::vector<int64_t>>(std::move(lengths));
  return absl::OkStatus();
}

int64_t DataSharder::Epoch::EndOf(int64_t index) const {
  return index + 1 < std::ssize(begins) ? begins[index + 1] : order.size();
}

absl::StatusOr<DataSharder::Epoch> DataSharder::Form(int64_t number, int64_t window) {
  Epoch epoch;
  epoch.number = number;
  epoch.window = window;
  epoch.order = EpochOrder(*dataset_, options_.shuffle, options_.seed, number);
  if (!options_.packing && !has_budget() && window == 0) return epoch;
  DISTILL_RETURN_IF_ERROR(ReadLengths());
  if (options_.packing) {
    epoch.begins = PackRows(epoch.order, *lengths_, options_.max_length);
    return epoch;
  }
  ArrangedSamples arranged = ArrangeByLength(epoch.order, *lengths_,
                                             {.window = window,
                                              .batch_rows = std::max<int64_t>(1, window / kWindowBatches),
                                              .max_tokens = options_.max_tokens_per_batch,
                                              .shuffle = options_.shuffle,
                                              .seed = options_.seed,
                                              .epoch = number});
  epoch.arranged = std::move(arranged.samples);
  if (has_budget()) epoch.begins = std::move(arranged.batch_begins);
  return epoch;
}

absl::StatusOr<int64_t> DataSharder::BeginsIn(int64_t number, int64_t window, bool is_next) {
  if (!options_.packing && !has_budget()) return EpochOrder::SizeOf(*dataset_);
  if (number == epoch_.number && window == epoch_.window) return std::ssize(epoch_.begins);
  DISTILL_ASSIGN_OR_RETURN(Epoch formed, Form(number, window));
  const int64_t begins = std::ssize(formed.begins);
  if (is_next) epoch_ = std::move(formed);
  return begins;
}

std::vector<int64_t> DataSharder::Row(int64_t row) const {
  if (!options_.packing) return {epoch_.Sample(row)};
  std::vector<int64_t> samples;
  for (int64_t place = epoch_.begins[row]; place < epoch_.EndOf(row); ++place) samples.push_back(epoch_.Sample(place));
  return samples;
}

absl::StatusOr<int64_t> DataSharder::StepsInEpoch(int64_t epoch) {
  DISTILL_ASSIGN_OR_RETURN(const int64_t begins, BeginsIn(epoch, Start().window, epoch == state_.epoch));
  return CeilDivide(begins, has_budget() ? batches_per_step() : rows_per_step());
}

std::vector<IndexRows> DataSharder::DealRows(int64_t begin, int64_t end) const {
  // Rank 0 has the most rows of a short batch; the others make as many micro-batches as it does, empty ones at the end.
  std::vector<IndexRows> step(CeilDivide(CeilDivide(end - begin, world_size_), options_.rows_per_rank));
  int64_t mine = 0;
  for (int64_t row = begin + rank_; row < end; row += world_size_) {
    step[mine++ / options_.rows_per_rank].push_back(Row(row));
  }
  return step;
}

std::vector<IndexRows> DataSharder::DealBatches(int64_t first, int64_t end) const {
  std::vector<IndexRows> step(CeilDivide(end - first, world_size_));
  for (int64_t batch = first + rank_, mine = 0; batch < end; batch += world_size_, ++mine) {
    for (int64_t row = epoch_.begins[batch]; row < epoch_.EndOf(batch); ++row) step[mine].push_back(Row(row));
  }
  return step;
}

absl::StatusOr<std::vector<IndexRows>> DataSharder::NextStep() {
  if (epoch_.number != state_.epoch || epoch_.window != state_.window) {
    DISTILL_ASSIGN_OR_RETURN(epoch_, Form(state_.epoch, state_.window));
  }
  const int64_t begins = options_.packing || has_budget() ? std::ssize(epoch_.begins) : epoch_.order.size();
  std::vector<IndexRows> step;
  int64_t end = 0;  // of what is dealt: rows, or batches
  if (has_budget()) {
    const auto first = std::lower_bound(epoch_.begins.begin(), epoch_.begins.end(), state_.row) - epoch_.begins.begin();
    end = std::min<int64_t>(first + batches_per_step(), begins);
    step = DealBatches(first, end);
    state_.row = epoch_.EndOf(end - 1);
  } else {
    end = std::min(state_.row + rows_per_step(), begins);
    step = DealRows(state_.row, end);
    state_.row = end;
  }
  if (end == begins) {
    const int64_t next = state_.epoch + 1;
    state_ = Start();
    state_.epoch = next;
  }
  return step;
}

std::string DataSharder::PositionOf(int64_t epoch, int64_t row, uint64_t seed, int64_t samples) {
  return DataPosition{.epoch = epoch, .row = row, .seed = seed, .samples = samples}.Format();
}

absl::Status DataSharder::CheckWithinEpoch(const DataPosition& position) {
  const DataPosition start = Start();
  if (position.samples > 0 && position.samples != start.samples) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the saved data position is within an epoch of ", position.samples, " samples, but the data set has ",
        start.samples, ", in another order: resume with the same data, or start a new run from the saved model"));
  }
  if (position.mixture != start.mixture) {
    return absl::InvalidArgumentError(
        "the saved data position is within an epoch of other sources, or of other weights: resume with the same "
        "ones, or start a new run from the saved model");
  }
  if ((position.window > 0) != (start.window > 0) || position.max_tokens != start.max_tokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the saved data position is within an epoch with group_by_length ", position.window > 0 ? "true" : "false",
        " and max_tokens_per_batch ", position.max_tokens, ", in another order than this job's: resume with these, or ",
        "from a checkpoint at the end of an epoch"));
  }
  if (position.order_window != start.order_window) {
    return absl::InvalidArgumentError(
        absl::StrCat("the saved data position is within an epoch that was shuffled in windows of ",
                     position.order_window, " samples (0: without windows), this data set has ", start.order_window,
                     ": open it with the same window_rows, or resume from a checkpoint at the end of an epoch"));
  }
  const bool has_list = start.samples <= SampleOrder::kMostListed;
  if (options_.shuffle && position.has_older_list && !has_list) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the saved data position is within an epoch that was shuffled with a list of all samples, which data sets ",
        "of more than ", SampleOrder::kMostListed, " are no more: resume with the program that saved it, or from a ",
        "checkpoint at the end of an epoch"));
  }
  DISTILL_ASSIGN_OR_RETURN(int64_t rows, BeginsIn(position.epoch, position.window, /*is_next=*/true));
  if (has_budget()) rows = EpochOrder::SizeOf(*dataset_);
  const bool is_known = !has_budget() || std::binary_search(epoch_.begins.begin(), epoch_.begins.end(), position.row);
  if (position.row < rows && is_known) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the saved data position is row ", position.row, " of an epoch of ",
                                                 rows, " rows: is this another data set, or packed otherwise?"));
}

absl::Status DataSharder::Restore(const std::string& bytes) {
  DISTILL_ASSIGN_OR_RETURN(const DataPosition position, DataPosition::Parse(bytes));
  if (position.seed != options_.seed) {
    return absl::InvalidArgumentError(absl::StrCat("the saved data position has seed ", position.seed, ", this job ",
                                                   options_.seed, ": resume with the same seed"));
  }
  DataPosition state = Start();
  state.epoch = position.epoch;
  if (position.row > 0) {  // an epoch's first row is always there, and nothing needs to be read to know it
    DISTILL_RETURN_IF_ERROR(CheckWithinEpoch(position));
    state.row = position.row;
    state.window = position.window;
  }
  state_ = std::move(state);
  return absl::OkStatus();
}

}  // namespace distill
