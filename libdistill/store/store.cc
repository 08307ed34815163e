#include "libdistill/store/store.h"

#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/local_store.h"
#include "libdistill/store/s3_store.h"
#include "libdistill/store/staged_folder.h"

namespace distill {
namespace {

// Of the process. Stores are made when they are first needed, so that a program without s3:// opens no connection.
struct ProcessStores {
  std::mutex mutex;
  StoreOptions options;
  StoreCounters counters;
  std::shared_ptr<Store> local = MakeLocalStore();
  std::string s3_place;
  std::shared_ptr<Store> s3;
};

ProcessStores& Stores() {
  static auto* const stores = new ProcessStores;
  return *stores;
}

absl::StatusOr<std::shared_ptr<Store>> S3StoreOfProcess() {
  ProcessStores& stores = Stores();
  const std::lock_guard<std::mutex> lock(stores.mutex);
  DISTILL_ASSIGN_OR_RETURN(const std::string place, FindS3());
  if (stores.s3 == nullptr || stores.s3_place != place) {
    DISTILL_ASSIGN_OR_RETURN(stores.s3, MakeS3Store(stores.options, stores.counters));
    stores.s3_place = place;
  }
  return stores.s3;
}

}  // namespace

absl::StatusOr<std::string> Store::WriteIf(const std::string& path, absl::string_view, const std::string&) {
  return absl::UnimplementedError(absl::StrCat(path, ": its store compares no versions"));
}

// A local file's writer leaves a file, which anybody sees.
absl::Status Store::RemoveUnfinished(const std::string&) { return absl::OkStatus(); }

absl::StatusOr<std::shared_ptr<Store>> StoreOf(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the path is empty");
  if (absl::StartsWith(path, "s3://")) return S3StoreOfProcess();
  if (!absl::StrContains(path, "://")) return Stores().local;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": URLs of this kind are not supported; give a local path, or one of the form s3://BUCKET/KEY"));
}

bool IsRemote(const std::string& path) { return absl::StrContains(path, "://"); }

void SetStoreOptions(const StoreOptions& options) {
  ProcessStores& stores = Stores();
  const std::lock_guard<std::mutex> lock(stores.mutex);
  stores.options = options;
  stores.s3 = nullptr;
}

StoreOptions CurrentStoreOptions() {
  ProcessStores& stores = Stores();
  const std::lock_guard<std::mutex> lock(stores.mutex);
  return stores.options;
}

StoreCounters& CountersOfStores() { return Stores().counters; }

absl::StatusOr<std::shared_ptr<const ReadableFile>> OpenFile(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(path));
  return store->Open(path);
}

absl::StatusOr<std::unique_ptr<FileWriter>> CreateFile(const std::string& path) {
  if (const std::shared_ptr<StagedFiles> staged = StagedFilesOf(path)) return staged->Create(path);
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(path));
  return store->Create(path);
}

}  // namespace distill
