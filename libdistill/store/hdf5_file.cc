#include "libdistill/store/hdf5_file.h"

#include <hdf5.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hdf5_attributes.h"
#include "libdistill/store/hdf5_dataset.h"
#include "libdistill/store/hdf5_driver.h"
#include "libdistill/store/hdf5_read.h"

namespace distill {
namespace {

constexpr size_t kMostLinks = size_t{1} << 24, kDeepest = 64;

struct LinkList {
  std::vector<Hdf5Link> links;
};

herr_t TakeLink(hid_t, const char* name, const H5L_info_t* link, void* data) {
  auto& found = *static_cast<LinkList*>(data);
  if (found.links.size() == kMostLinks) return -1;
  const bool is_hard = link->type == H5L_TYPE_HARD && link->u.address != HADDR_UNDEF;
  found.links.push_back({name, is_hard ? static_cast<int64_t>(link->u.address) : -1});
  return 0;
}

// HDF5's first eight bytes stand at the beginning, or behind a user block of 512, 1024, 2048, ... bytes.
absl::StatusOr<bool> HasSignature(const ReadableFile& file) {
  constexpr absl::string_view kSignature("\x89HDF\r\n\x1a\n", 8);
  std::string bytes(kSignature.size(), '\0');
  const int64_t last = file.size() - static_cast<int64_t>(bytes.size());
  for (int64_t at = 0; at <= last; at = at == 0 ? 512 : 2 * at) {
    DISTILL_RETURN_IF_ERROR(file.ReadAt(at, absl::MakeSpan(&bytes[0], bytes.size())));
    if (bytes == kSignature) return true;
  }
  return false;
}

// An Hdf5Source that HDF5 has open goes after HDF5's own handle, and is used under `mutex_`.
class StoredHdf5File : public Hdf5File {
 public:
  StoredHdf5File(std::shared_ptr<const ReadableFile> file, const Hdf5Options& options)
      : file_(std::move(file)), options_(options) {
    source_.file = file_;
  }
  ~StoredHdf5File() override {
    const QuietHdf5 quiet;
    if (id_ >= 0) H5Fclose(id_);
  }

  const ReadableFile& file() const override { return *file_; }

  absl::Status Open() {
    return Call("the file", [&]() -> absl::Status {
      id_ = OpenHdf5Source(source_);
      if (id_ >= 0) return absl::OkStatus();
      const absl::Status failure = Hdf5Failure();
      DISTILL_ASSIGN_OR_RETURN(const bool is_hdf5, HasSignature(*file_));
      if (is_hdf5) return failure;
      return absl::InvalidArgumentError(
          "its bytes are not HDF5: it is damaged, empty, or was renamed; fetch it again, or give it the right name");
    });
  }

  absl::StatusOr<std::vector<Hdf5Link>> List(const std::string& group) const override {
    return Call(group, [&] { return ListLocked(group); });
  }

  absl::StatusOr<std::vector<std::string>> ListDatasets(const std::string& group) const override {
    return Call(group, [&]() -> absl::StatusOr<std::vector<std::string>> {
      std::vector<std::string> names;
      std::set<haddr_t> visited;
      DISTILL_RETURN_IF_ERROR(VisitLocked(group, 0, visited, names));
      return names;
    });
  }

  absl::StatusOr<Hdf5Dataset> Find(const std::string& dataset) const override {
    return Call(dataset, [&]() -> absl::StatusOr<Hdf5Dataset> {
      DISTILL_ASSIGN_OR_RETURN(const OpenedHdf5Dataset opened, OpenedHdf5Dataset::Open(*file_, id_, dataset));
      return opened.description();
    });
  }

  absl::StatusOr<std::vector<Hdf5Attribute>> Attributes(const std::string& object) const override {
    return Call(object, [&]() -> absl::StatusOr<std::vector<Hdf5Attribute>> {
      DISTILL_RETURN_IF_ERROR(CheckHdf5Path(id_, object));
      const Hdf5Handle opened(H5Oopen(id_, object.c_str(), H5P_DEFAULT), H5Oclose);
      if (!opened.ok()) return Hdf5Failure();
      DISTILL_ASSIGN_OR_RETURN(const int64_t base, BaseOfHdf5(id_));
      return ReadHdf5Attributes(*file_, base, opened.id());
    });
  }

  absl::StatusOr<std::vector<std::string>> ReadStrings(const Hdf5Dataset& dataset, const std::vector<int64_t>& offset,
                                                       const std::vector<int64_t>& count) const override {
    if (dataset.type.kind != Hdf5Kind::kString) {
      return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": ", dataset.name, ": its elements are of type ",
                                                     dataset.type.name, ", where strings are wanted"));
    }
    DISTILL_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(dataset, offset, count));
    if (dataset.type.bytes > 0) {
      return Call(dataset.name, [&]() -> absl::StatusOr<std::vector<std::string>> {
        DISTILL_ASSIGN_OR_RETURN(const OpenedHdf5Dataset opened, OpenedHdf5Dataset::Open(*file_, id_, dataset.name));
        return CutHdf5Strings(opened.type(), bytes);
      });
    }
    DISTILL_ASSIGN_OR_RETURN(const int64_t base, Call(dataset.name, [&] { return BaseOfHdf5(id_); }));
    absl::StatusOr<std::vector<std::string>> texts = ReadHdf5Heap(*file_, base, bytes, options_.most_read_bytes);
    if (texts.ok()) return texts;
    return Annotate(texts.status(), absl::StrCat(file_->path(), ": ", dataset.name));
  }

 private:
  // HDF5's own calls. Their errors become those of the store, where it is the store that failed.
  template <typename Body>
  auto Call(const std::string& what, Body body) const -> decltype(body()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    source_.failed = absl::OkStatus();
    const QuietHdf5 quiet;
    decltype(body()) result = body();
    if (result.ok()) return result;
    absl::Status status;
    if constexpr (std::is_same_v<decltype(body()), absl::Status>) {
      status = result;
    } else {
      status = result.status();
    }
    if (!source_.failed.ok()) return Annotate(source_.failed, absl::StrCat("reading ", what));
    return Annotate(status, absl::StrCat(file_->path(), ": ", what));
  }

  absl::StatusOr<std::string> ReadBytes(const Hdf5Dataset& dataset, const std::vector<int64_t>& offset,
                                        const std::vector<int64_t>& count) const override {
    Hdf5BlockReader reader(*file_, options_, offset, count);
    DISTILL_RETURN_IF_ERROR(Call(dataset.name, [&] { return reader.Prepare(id_, dataset); }));
    while (!reader.is_done()) {
      DISTILL_RETURN_IF_ERROR(Call(dataset.name, [&] { return reader.FindChunks(id_, source_); }));
      DISTILL_RETURN_IF_ERROR(
          Annotate(reader.ReadChunks(), absl::StrCat(file_->path(), ": ", dataset.name)));  // outside of HDF5
    }
    return std::move(reader).bytes();
  }

  absl::StatusOr<std::vector<Hdf5Link>> ListLocked(const std::string& group) const {
    DISTILL_RETURN_IF_ERROR(CheckHdf5Path(id_, group));
    const Hdf5Handle opened(H5Oopen(id_, group.c_str(), H5P_DEFAULT), H5Oclose);
    if (!opened.ok()) return Hdf5Failure();
    if (H5Iget_type(opened.id()) != H5I_GROUP) return absl::InvalidArgumentError("is not a group");
    LinkList found;
    hsize_t position = 0;
    // In the order of the file, and sorted here: to sort them HDF5 1.10 makes a table, which crashes it where the file
    // is damaged.
    if (H5Literate(opened.id(), H5_INDEX_NAME, H5_ITER_NATIVE, &position, TakeLink, &found) < 0) return Hdf5Failure();
    std::sort(found.links.begin(), found.links.end(),
              [](const Hdf5Link& a, const Hdf5Link& b) { return a.name < b.name; });
    return std::move(found.links);
  }

  absl::Status VisitLocked(const std::string& group, size_t depth, std::set<haddr_t>& visited,
                           std::vector<std::string>& names) const {
    if (depth == kDeepest) return absl::InvalidArgumentError(absl::StrCat(group, ": groups are nested too deep"));
    DISTILL_ASSIGN_OR_RETURN(const std::vector<Hdf5Link> links, ListLocked(group));
    for (const Hdf5Link& link : links) {
      if (link.address < 0) continue;
      const std::string name = absl::StrCat(group == "/" ? "" : group, "/", link.name);
      H5O_info_t info;
      if (H5Oget_info_by_name2(id_, name.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0) {
        return Annotate(Hdf5Failure(), name);
      }
      if (info.type == H5O_TYPE_DATASET) names.push_back(name);
      // A group may hold itself.
      if (info.type == H5O_TYPE_GROUP && visited.insert(info.addr).second) {
        DISTILL_RETURN_IF_ERROR(VisitLocked(name, depth + 1, visited, names));
      }
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const ReadableFile> file_;
  const Hdf5Options options_;
  mutable std::mutex mutex_;
  mutable Hdf5Source source_;
  Hdf5Id id_ = -1;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Hdf5File>> Hdf5File::Open(const std::string& path, const Hdf5Options& options) {
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const ReadableFile> file, OpenFile(path));
  return Open(std::move(file), options);
}

absl::StatusOr<std::shared_ptr<const Hdf5File>> Hdf5File::Open(std::shared_ptr<const ReadableFile> file,
                                                               const Hdf5Options& options) {
  const std::shared_ptr<BlockCache> cache =
      options.cache != nullptr ? options.cache : std::make_shared<BlockCache>(BlockCacheOptions{});
  auto opened = std::make_shared<StoredHdf5File>(cache->Wrap(std::move(file)), options);
  DISTILL_RETURN_IF_ERROR(opened->Open());
  return opened;
}

}  // namespace distill
