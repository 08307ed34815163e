#include "libdistill/data/hdf5_trials.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/content_hash.h"

namespace distill {
namespace {

constexpr int64_t kEdgeBytes = 64 << 10, kMostPrefetchBytes = 16 << 20;

template <typename T>
absl::StatusOr<HostTensor> ReadAs(const Hdf5File& file, const Hdf5Dataset& dataset) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<T> values, file.ReadAll<T>(dataset));
  return HostTensor(std::move(values), dataset.shape);
}

absl::StatusOr<HostTensor> ReadTensor(const Hdf5File& file, const std::string& name) {
  DISTILL_ASSIGN_OR_RETURN(const Hdf5Dataset dataset, file.Find(name));
  const Hdf5Type& type = dataset.type;
  if (type.kind == Hdf5Kind::kFloat) {
    return type.bytes == 8 ? ReadAs<double>(file, dataset) : ReadAs<float>(file, dataset);
  }
  if (type.kind == Hdf5Kind::kUnsigned && type.bytes == 1) return ReadAs<uint8_t>(file, dataset);
  const bool is_small = type.kind == Hdf5Kind::kSigned ? type.bytes <= 4 : type.bytes == 2;
  return is_small ? ReadAs<int32_t>(file, dataset) : ReadAs<int64_t>(file, dataset);  // which refuses what is no number
}

HostTensor AttributeTensor(const Hdf5Attribute& attribute) {
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&attribute.values)) {
    return HostTensor(*integers, attribute.shape);
  }
  if (const auto* floats = std::get_if<std::vector<double>>(&attribute.values)) {
    return HostTensor(*floats, attribute.shape);
  }
  std::vector<uint8_t> bytes;
  for (const std::string& text : std::get<std::vector<std::string>>(attribute.values)) {
    bytes.insert(bytes.end(), text.begin(), text.end());
  }
  return HostTensor(std::move(bytes));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Hdf5Trials>> Hdf5Trials::Open(const std::vector<std::string>& files,
                                                             Hdf5TrialsOptions options) {
  if (options.datasets.empty()) return absl::InvalidArgumentError("name the data sets that a trial is made of");
  const auto cache = std::make_shared<BlockCache>(BlockCacheOptions{.blocks = options.cache_blocks});
  std::shared_ptr<Hdf5Trials> trials(new Hdf5Trials(std::move(options)));
  for (const std::string& path : files) {
    DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const Hdf5File> file, Hdf5File::Open(path, {.cache = cache}));
    DISTILL_RETURN_IF_ERROR(trials->AddFile(std::move(file)));
  }
  return trials;
}

// A link says where its object begins, without a look at it; what belongs to a trial lies mostly up to the next one.
absl::Status Hdf5Trials::AddFile(std::shared_ptr<const Hdf5File> file) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Hdf5Link> links, file->List("/"));
  std::vector<int64_t> begins = {file->file().size()};
  for (const Hdf5Link& link : links) begins.push_back(link.address);
  std::sort(begins.begin(), begins.end());
  const size_t before = trials_.size();
  for (const Hdf5Link& link : links) {
    if (link.address < 0 || !absl::StartsWith(link.name, options_.prefix)) continue;
    const auto next = std::upper_bound(begins.begin(), begins.end(), link.address);
    const int64_t end = next == begins.end() ? file->file().size() : *next;
    trials_.push_back({static_cast<int64_t>(files_.size()), absl::StrCat("/", link.name), link.address, end});
  }
  if (trials_.size() == before) {
    return absl::InvalidArgumentError(absl::StrCat(file->file().path(), ": has no group whose name begins with '",
                                                   options_.prefix, "', of ", links.size(), " that it has"));
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

// So that what HDF5 then asks for under its lock is there: other threads need not wait while bytes come from afar. What
// fails here fails again where it is needed.
void Hdf5Trials::Prefetch(const Trial& trial) const {
  const ReadableFile& file = files_[static_cast<size_t>(trial.file)]->file();
  const int64_t end = std::min({trial.end, trial.begin + kMostPrefetchBytes, file.size()});
  if (end <= trial.begin) return;
  std::string bytes(static_cast<size_t>(end - trial.begin), '\0');
  (void)file.ReadAt(trial.begin, absl::MakeSpan(&bytes[0], bytes.size()));
}

absl::StatusOr<int64_t> Hdf5Trials::Length(int64_t index) const {
  DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
  const Trial& trial = trials_[static_cast<size_t>(index)];
  const Hdf5File& file = *files_[static_cast<size_t>(trial.file)];
  DISTILL_ASSIGN_OR_RETURN(const Hdf5Dataset first,
                           file.Find(absl::StrCat(trial.name, "/", options_.datasets.front())));
  return std::max<int64_t>(1, first.shape.empty() ? 1 : first.shape[0]);
}

absl::StatusOr<Sample> Hdf5Trials::Read(int64_t index) const {
  DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
  const Trial& trial = trials_[static_cast<size_t>(index)];
  const Hdf5File& file = *files_[static_cast<size_t>(trial.file)];
  Prefetch(trial);
  Sample sample{.id = index, .tensors = {}};
  for (const std::string& name : options_.datasets) {
    DISTILL_ASSIGN_OR_RETURN(sample.tensors[name], ReadTensor(file, absl::StrCat(trial.name, "/", name)));
  }
  if (options_.attributes.empty()) return sample;
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Hdf5Attribute> attributes, file.Attributes(trial.name));
  for (const Hdf5Attribute& attribute : attributes) {
    const auto& wanted = options_.attributes;
    if (std::find(wanted.begin(), wanted.end(), attribute.name) == wanted.end()) continue;
    sample.tensors[attribute.name] = AttributeTensor(attribute);
  }
  return sample;
}

absl::StatusOr<std::string> Hdf5Trials::Fingerprint() const {
  ContentHash hash;
  for (const std::shared_ptr<const Hdf5File>& file : files_) {
    const int64_t size = file->file().size();
    std::string edge(static_cast<size_t>(std::min(size, kEdgeBytes)), '\0');
    for (const int64_t at : {int64_t{0}, size - static_cast<int64_t>(edge.size())}) {
      DISTILL_RETURN_IF_ERROR(file->file().ReadAt(at, absl::MakeSpan(&edge[0], edge.size())));
      hash.Add(absl::string_view(edge));
    }
    hash.Add(absl::StrCat(size, " bytes\n"));
  }
  for (const Trial& trial : trials_) hash.Add(absl::StrCat(trial.file, trial.name, " ", trial.begin, "\n"));
  return absl::StrCat(size(), " trials of ", files_.size(), " HDF5 files with XXH3 ", hash.Hex());
}

}  // namespace distill
