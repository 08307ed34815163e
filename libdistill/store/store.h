// Where files live: a local disk or S3, behind one interface. The functions of files.h, readable_file.h and
// file_writer.h choose the store by the path; who needs no more than those never sees one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/readable_file.h"
#include "libdistill/store/retry.h"
#include "libdistill/store/store_options.h"

namespace distill {

enum class PathKind { kNothing, kFile, kFolder };

struct FolderEntry {
  std::string name;  // without the folder
  bool is_folder = false;
  int64_t size = 0;  // of a file
};

// Any function blocks, and may be called from any thread. Paths are those that users give, with s3:// where they have
// it.
class Store {
 public:
  virtual ~Store() = default;
  // Whether bytes come over a network: worth reading ahead, and worth keeping.
  virtual bool is_remote() const = 0;
  [[nodiscard]] virtual absl::StatusOr<std::shared_ptr<const ReadableFile>> Open(const std::string& path) = 0;
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<FileWriter>> Create(const std::string& path) = 0;
  [[nodiscard]] virtual absl::StatusOr<PathKind> KindOf(const std::string& path) = 0;
  // What lies in the folder, sorted by name. NotFound: no such folder.
  [[nodiscard]] virtual absl::StatusOr<std::vector<FolderEntry>> List(const std::string& folder) = 0;
  // Names of all files below the folder, with slashes, that start with `prefix`; sorted. None where there is no such
  // folder.
  [[nodiscard]] virtual absl::StatusOr<std::vector<std::string>> ListAll(const std::string& folder,
                                                                         const std::string& prefix) = 0;
  // The file; one that is not there is fine.
  [[nodiscard]] virtual absl::Status Remove(const std::string& path) = 0;

  // Where others may write the same file. Writes it if it still has `version` (ReadableFile::version), "" for one that
  // is not there, and returns the version that it has then. Aborted: it has another one. Unimplemented: this store
  // compares no versions.
  [[nodiscard]] virtual absl::StatusOr<std::string> WriteIf(const std::string& path, absl::string_view bytes,
                                                            const std::string& version);
  // Removes what writers that were killed have left of files whose paths begin with `prefix`, and nobody sees: the
  // parts of uploads. For a caller who knows that nobody writes there.
  [[nodiscard]] virtual absl::Status RemoveUnfinished(const std::string& prefix);
};

// InvalidArgument: an empty path, or a URL of no known store.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Store>> StoreOf(const std::string& path);

// Whether the path is of a store behind a network.
bool IsRemote(const std::string& path);

// How this process' stores behave, from the next file on; Run sets it once, from a program's options. Connections,
// credentials and counters are the process', as its descriptors are.
void SetStoreOptions(const StoreOptions& options);
StoreOptions CurrentStoreOptions();

// What they have done so far.
StoreCounters& CountersOfStores();

}  // namespace distill
