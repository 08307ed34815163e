#include "libdistill/data/data_sharder.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/description.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/mixture.h"
#include "libdistill/store/content_hash.h"

namespace distill {
namespace {

constexpr char kPositionName[] = "DataSharder";
constexpr char kPositionVersion[] = "2";
constexpr char kVersionWithoutSamples[] = "1";
constexpr char kVersionWithoutList[] = "3";
constexpr char kVersionWithMixture[] = "4";

// What is written of a data set of this size. Those that are shuffled without a list had another order before.
const char* VersionOf(int64_t samples) {
  return samples > SampleOrder::kMostListed ? kVersionWithoutList : kPositionVersion;
}

// A row takes the samples that come next as long as they fit.
std::vector<int64_t> PackRows(const EpochOrder& order, const std::vector<int64_t>& lengths, int64_t max_length) {
  std::vector<int64_t> begins;
  int64_t room = 0;
  for (int64_t i = 0; i < order.size(); ++i) {
    const int64_t length = std::min(lengths[order[i]], max_length);
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

}  // namespace

absl::StatusOr<DataSharder> DataSharder::Create(std::shared_ptr<const Dataset> dataset, int rank, int world_size,
                                                const ShardOptions& options) {
  if (world_size < 1 || rank < 0 || rank >= world_size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of ", world_size, " does not exist"));
  }
  DISTILL_RETURN_IF_ERROR(CheckOptions(options));
  if (dataset == nullptr) return absl::InvalidArgumentError("there is no data set");
  if (dataset->size() == 0) return absl::InvalidArgumentError("the data set has no samples");
  DataSharder sharder;
  sharder.dataset_ = std::move(dataset);
  sharder.rank_ = rank;
  sharder.world_size_ = world_size;
  sharder.options_ = options;
  sharder.state_.seed = options.seed;
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
    lengths.push_back(length);
  }
  lengths_ = std::make_shared<const std::vector<int64_t>>(std::move(lengths));
  return absl::OkStatus();
}

absl::StatusOr<DataSharder::Epoch> DataSharder::Form(int64_t number) {
  Epoch epoch;
  epoch.number = number;
  epoch.order = EpochOrder(*dataset_, options_.shuffle, options_.seed, number);
  if (!options_.packing) return epoch;
  DISTILL_RETURN_IF_ERROR(ReadLengths());
  epoch.row_begins = PackRows(epoch.order, *lengths_, options_.max_length);
  return epoch;
}

absl::StatusOr<int64_t> DataSharder::RowsIn(int64_t number, bool is_next) {
  if (!options_.packing) return EpochOrder::SizeOf(*dataset_);
  if (number == epoch_.number) return std::ssize(epoch_.row_begins);
  DISTILL_ASSIGN_OR_RETURN(Epoch formed, Form(number));
  const int64_t rows = std::ssize(formed.row_begins);
  if (is_next) epoch_ = std::move(formed);
  return rows;
}

std::vector<int64_t> DataSharder::Row(int64_t row) const {
  if (!options_.packing) return {epoch_.order[row]};
  const bool is_last = row + 1 == static_cast<int64_t>(epoch_.row_begins.size());
  const int64_t end = is_last ? epoch_.order.size() : epoch_.row_begins[row + 1];
  std::vector<int64_t> samples;
  for (int64_t place = epoch_.row_begins[row]; place < end; ++place) samples.push_back(epoch_.order[place]);
  return samples;
}

absl::StatusOr<int64_t> DataSharder::StepsInEpoch(int64_t epoch) {
  DISTILL_ASSIGN_OR_RETURN(const int64_t rows, RowsIn(epoch, epoch == state_.epoch));
  return CeilDivide(rows, rows_per_step());
}

absl::StatusOr<std::vector<IndexRows>> DataSharder::NextStep() {
  if (epoch_.number != state_.epoch) {
    DISTILL_ASSIGN_OR_RETURN(epoch_, Form(state_.epoch));
  }
  const int64_t rows = options_.packing ? std::ssize(epoch_.row_begins) : epoch_.order.size();
  const int64_t begin = state_.row, end = std::min(begin + rows_per_step(), rows);
  // Rank 0 has the most rows of a short batch; the others make as many micro-batches as it does, empty ones at the end.
  std::vector<IndexRows> step(CeilDivide(CeilDivide(end - begin, world_size_), options_.rows_per_rank));
  int64_t mine = 0;
  for (int64_t row = begin + rank_; row < end; row += world_size_) {
    step[mine++ / options_.rows_per_rank].push_back(Row(row));
  }
  const bool is_over = end == rows;
  state_.epoch += is_over;
  state_.row = is_over ? 0 : end;
  return step;
}

std::string DataSharder::Position() const {
  if (dataset_->mixture() == nullptr) return PositionOf(state_.epoch, state_.row, state_.seed, dataset_->size());
  return absl::StrCat(kPositionName, " ", kVersionWithMixture, " ", state_.epoch, " ", state_.row, " ", state_.seed,
                      " ", dataset_->size(), " ", HashOf(*dataset_->mixture()));
}

std::string DataSharder::PositionOf(int64_t epoch, int64_t row, uint64_t seed, int64_t samples) {
  return absl::StrCat(kPositionName, " ", VersionOf(samples), " ", epoch, " ", row, " ", seed, " ", samples);
}

absl::StatusOr<DataSharder::SavedPosition> DataSharder::ParsePosition(const std::string& position) const {
  std::vector<std::string> parts = absl::StrSplit(position, ' ');
  if (parts.size() >= 2 && parts[0] == kPositionName && parts[1] == kVersionWithoutSamples) {
    parts[1] = kPositionVersion;
    parts.push_back("0");
  }
  std::string mixture;
  const bool has_mixture = parts.size() == 7 && parts[0] == kPositionName && parts[1] == kVersionWithMixture;
  if (has_mixture) {
    mixture = parts.back();
    parts.pop_back();
    parts[1] = kPositionVersion;
  }
  const bool is_without_list = parts.size() >= 2 && parts[1] == kVersionWithoutList;
  if (parts.size() >= 2 && parts[0] == kPositionName && parts[1] != kPositionVersion && !is_without_list) {
    return absl::InvalidArgumentError(absl::StrCat("the saved data position is of version ", parts[1],
                                                   "; this program knows versions up to ", kVersionWithMixture,
                                                   ": resume with the program that saved it"));
  }
  State state;
  int64_t samples = 0;
  if (parts.size() != 6 || parts[0] != kPositionName || !absl::SimpleAtoi(parts[2], &state.epoch) ||
      !absl::SimpleAtoi(parts[3], &state.row) || !absl::SimpleAtoi(parts[4], &state.seed) ||
      !absl::SimpleAtoi(parts[5], &samples) || state.epoch < 0 || state.row < 0 || samples < 0) {
    return absl::InvalidArgumentError(absl::StrCat("no data position: '", position, "'"));
  }
  const bool has_list = dataset_->size() <= SampleOrder::kMostListed;
  return SavedPosition{state, samples, mixture, !options_.shuffle || has_mixture || has_list != is_without_list};
}

absl::Status DataSharder::Restore(const std::string& position) {
  DISTILL_ASSIGN_OR_RETURN(const auto parsed, ParsePosition(position));
  const auto& [state, samples, mixture, is_of_this_order] = parsed;
  if (state.seed != options_.seed) {
    return absl::InvalidArgumentError(absl::StrCat("the saved data position has seed ", state.seed, ", this job ",
                                                   options_.seed, ": resume with the same seed"));
  }
  if (state.row > 0) {  // an epoch's first row is always there, and nothing needs to be read to know it
    if (samples > 0 && samples != dataset_->size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the saved data position is within an epoch of ", samples, " samples, but the data set has ",
          dataset_->size(), ", in another order: resume with the same data, or start a new run from the saved model"));
    }
    if (mixture != (dataset_->mixture() == nullptr ? "" : HashOf(*dataset_->mixture()))) {
      return absl::InvalidArgumentError(
          "the saved data position is within an epoch of other sources, or of other weights: resume with the same "
          "ones, or start a new run from the saved model");
    }
    if (!is_of_this_order) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the saved data position is within an epoch that was shuffled with a list of all samples, which data sets ",
          "of more than ", SampleOrder::kMostListed, " are no more: resume with the program that saved it, or from a ",
          "checkpoint at the end of an epoch"));
    }
    DISTILL_ASSIGN_OR_RETURN(const int64_t rows, RowsIn(state.epoch, /*is_next=*/true));
    if (state.row >= rows) {
      return absl::InvalidArgumentError(absl::StrCat("the saved data position is row ", state.row, " of an epoch of ",
                                                     rows, " rows: is this another data set, or packed otherwise?"));
    }
  }
  state_ = state;
  return absl::OkStatus();
}

}  // namespace distill
