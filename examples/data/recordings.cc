#include "examples/data/recordings.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "examples/data/lengths.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/hdf5_trials.h"
#include "libdistill/data/row_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hdf5_file.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

constexpr int64_t kBlockElements = int64_t{1} << 22;  // that are read at a time
constexpr size_t kValuesShown = 8;

bool IsRecording(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return absl::EndsWith(lower, ".hdf5") || absl::EndsWith(lower, ".h5");
}

absl::StatusOr<std::vector<std::string>> RecordingsOf(const std::string& path, const std::string& split) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(path));
  DISTILL_ASSIGN_OR_RETURN(const PathKind kind, store->KindOf(path));
  if (kind == PathKind::kFile) return std::vector<std::string>{path};
  if (kind == PathKind::kNothing) return absl::NotFoundError(absl::StrCat(path, ": no such file or folder"));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(path, split, ""));
  std::vector<std::string> files;
  for (const std::string& name : names) {
    if (IsRecording(name)) files.push_back(JoinPath(path, name));
  }
  if (!files.empty()) return files;
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> all, ListFiles(path, "", ""));
  return absl::NotFoundError(absl::StrCat(path, ": no file matches ", split, "*.hdf5 or .h5; the folder holds ",
                                          absl::StrJoin(all, ", "),
                                          ": name the split that a file's name begins with, or the file itself"));
}

// The names of data sets, by the group that they lie in.
using Groups = std::map<std::string, std::vector<std::string>>;

absl::StatusOr<Groups> GroupsOf(const Hdf5File& file) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, file.ListDatasets());
  Groups groups;
  for (const std::string& name : names) groups[name.substr(0, name.rfind('/'))].push_back(name);
  return groups;
}

std::string BaseName(const std::string& name) { return name.substr(name.rfind('/') + 1); }

std::string ShapeText(const std::vector<int64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

std::string Describe(const Hdf5Dataset& dataset) {
  std::string text = absl::StrCat(BaseName(dataset.name), " ", dataset.type.name, " ", ShapeText(dataset.shape));
  if (!dataset.chunk.empty()) absl::StrAppend(&text, " in chunks of ", ShapeText(dataset.chunk));
  if (!dataset.filters.empty()) absl::StrAppend(&text, ", ", absl::StrJoin(dataset.filters, ", "));
  return text;
}

std::string Describe(const Hdf5Attribute& attribute) {
  const auto list = [&](const auto& values) {
    const size_t shown = std::min(values.size(), kValuesShown);
    return absl::StrCat(absl::StrJoin(values.begin(), values.begin() + shown, ", "),
                        values.size() > shown ? ", ..." : "");
  };
  return absl::StrCat(attribute.name, " = ", std::visit(list, attribute.values));
}

// All of it, some rows of the first dimension at a time.
absl::Status ReadDataset(const Hdf5File& file, const Hdf5Dataset& dataset) {
  std::vector<int64_t> offset(dataset.shape.size(), 0), count = dataset.shape;
  int64_t row_elements = 1;
  for (size_t i = 1; i < dataset.shape.size(); ++i) row_elements *= std::max<int64_t>(dataset.shape[i], 1);
  const int64_t rows = dataset.shape.empty() ? 1 : dataset.shape[0];
  int64_t step = std::max<int64_t>(1, kBlockElements / row_elements);
  // No chunk is read twice.
  if (!dataset.chunk.empty()) step = (step + dataset.chunk[0] - 1) / dataset.chunk[0] * dataset.chunk[0];
  for (int64_t row = 0; row < rows; row += step) {
    if (!offset.empty()) {
      offset[0] = row;
      count[0] = std::min(step, rows - row);
    }
    if (dataset.type.kind == Hdf5Kind::kString) {
      DISTILL_RETURN_IF_ERROR(file.ReadStrings(dataset, offset, count).status());
    } else {
      DISTILL_RETURN_IF_ERROR(file.Check(dataset, offset, count));
    }
  }
  return absl::OkStatus();
}

struct Verified {
  int64_t read = 0, damaged = 0, other = 0;
};

void VerifyFile(const Hdf5File& file, const Groups& groups, Verified& verified) {
  for (const auto& [group, names] : groups) {
    for (const std::string& name : names) {
      const absl::StatusOr<Hdf5Dataset> dataset = file.Find(name);
      const absl::Status status = dataset.ok() ? ReadDataset(file, *dataset) : dataset.status();
      if (status.ok()) {
        ++verified.read;
        continue;
      }
      const bool is_other = absl::IsInvalidArgument(status);  // a kind of data that is not read
      ++(is_other ? verified.other : verified.damaged);
      std::printf("%s: %s\n", is_other ? "not read" : "damaged", std::string(status.message()).c_str());
    }
  }
}

// That of the most dimensions of the first trial, whose first one is the length.
absl::StatusOr<std::string> LongestDataset(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const Hdf5File> file, Hdf5File::Open(path));
  DISTILL_ASSIGN_OR_RETURN(const Groups groups, GroupsOf(*file));
  for (const auto& [group, names] : groups) {
    if (group.empty()) continue;
    std::string best;
    size_t dimensions = 0;
    for (const std::string& name : names) {
      DISTILL_ASSIGN_OR_RETURN(const Hdf5Dataset dataset, file->Find(name));
      if (dataset.shape.size() <= dimensions) continue;
      best = BaseName(name);
      dimensions = dataset.shape.size();
    }
    if (!best.empty()) return best;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": has no trial (a group with data sets) whose length could be told: name one by --dataset"));
}

}  // namespace

absl::StatusOr<bool> HasRecordings(const std::string& path, const std::string& split) {
  if (IsRecording(path)) return true;
  if (!FolderExists(path)) return false;
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(path, "", ""));
  if (std::none_of(names.begin(), names.end(), IsRecording)) return false;
  std::string recording, rows;  // the first of the split
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, split)) continue;
    if (recording.empty() && IsRecording(name)) recording = name;
    if (rows.empty() && IsRowFileName(name)) rows = name;
  }
  if (rows.empty()) return true;
  if (recording.empty()) return false;
  return absl::InvalidArgumentError(absl::StrCat(
      path, " holds HDF5 (", recording, ", ...) and rows (", rows,
      ", ...), which are looked at one at a time: name one file, or a --split that begins only one of them"));
}

absl::Status CountTrials(const std::string& path, const DataOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> files, RecordingsOf(path, options.split));
  int64_t all = 0;
  for (const std::string& name : files) {
    DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const Hdf5File> file, Hdf5File::Open(name));
    DISTILL_ASSIGN_OR_RETURN(const Groups groups, GroupsOf(*file));
    std::set<std::string> datasets;
    int64_t trials = 0;
    for (const auto& [group, names] : groups) {
      trials += !group.empty();
      for (const std::string& dataset : names) datasets.insert(BaseName(dataset));
    }
    all += trials;
    std::printf("%s: %lld trials (%s)\n", name.c_str(), static_cast<long long>(trials),
                absl::StrJoin(datasets, ", ").c_str());
  }
  std::printf("%lld trials in %zu files\n", static_cast<long long>(all), files.size());
  return absl::OkStatus();
}

absl::Status PrintTrials(const std::string& path, const DataOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> files, RecordingsOf(path, options.split));
  int64_t shown = 0;
  for (const std::string& name : files) {
    DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const Hdf5File> file, Hdf5File::Open(name));
    DISTILL_ASSIGN_OR_RETURN(const Groups groups, GroupsOf(*file));
    for (const auto& [group, names] : groups) {
      if (shown++ == options.rows) return absl::OkStatus();
      std::printf("%s:%s\n", name.c_str(), group.empty() ? "/" : group.c_str());
      for (const std::string& dataset : names) {
        DISTILL_ASSIGN_OR_RETURN(const Hdf5Dataset found, file->Find(dataset));
        std::printf("  %s\n", Describe(found).c_str());
      }
      DISTILL_ASSIGN_OR_RETURN(const auto attributes, file->Attributes(group.empty() ? "/" : group));
      for (const Hdf5Attribute& attribute : attributes) std::printf("  %s\n", Describe(attribute).c_str());
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyTrials(const std::string& path, const DataOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> files, RecordingsOf(path, options.split));
  Verified verified;
  for (const std::string& name : files) {
    DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const Hdf5File> file, Hdf5File::Open(name));
    DISTILL_ASSIGN_OR_RETURN(const Groups groups, GroupsOf(*file));
    VerifyFile(*file, groups, verified);
  }
  std::printf("%s: all chunks of %lld data sets can be read%s\n", path.c_str(), static_cast<long long>(verified.read),
              verified.other == 0 ? "" : absl::StrCat("; ", verified.other, " hold kinds that are not read").c_str());
  if (verified.damaged == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": ", verified.damaged, " data sets are damaged; fetch or write their files again"));
}

absl::Status PrintTrialStats(const std::string& path, const DataOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> files, RecordingsOf(path, options.split));
  std::string dataset = options.dataset;
  if (dataset.empty()) {
    DISTILL_ASSIGN_OR_RETURN(dataset, LongestDataset(files.front()));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Hdf5Trials> trials, Hdf5Trials::Open(files, {.datasets = {dataset}}));
  DISTILL_ASSIGN_OR_RETURN(const Lengths lengths, LengthsOf(*trials));
  std::printf("%s: %s of %lld trials in %zu files\n", path.c_str(), dataset.c_str(),
              static_cast<long long>(trials->size()), files.size());
  const Lengths sorted = Sorted(lengths);
  std::printf("%s", DescribeLengths(sorted, /*max_length=*/0, "frames").c_str());
  DISTILL_RETURN_IF_ERROR(PrintPadding(lengths, options.batch_rows, sorted.back(), /*with_packing=*/false));
  return options.picture.empty() ? absl::OkStatus() : DrawLengths(sorted, path, options.picture);
}

}  // namespace distill
