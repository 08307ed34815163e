#include "libdistill/store/s3_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/aws_profile.h"
#include "libdistill/store/environment_text.h"
#include "libdistill/store/file_cache.h"
#include "libdistill/store/s3_client.h"
#include "libdistill/store/s3_writer.h"

namespace distill {
namespace {

class S3File : public ReadableFile {
 public:
  S3File(std::shared_ptr<S3Client> client, std::string path, S3Address address, S3Object object)
      : client_(std::move(client)), path_(std::move(path)), address_(std::move(address)), object_(std::move(object)) {}

  const std::string& path() const override { return path_; }
  int64_t size() const override { return object_.size; }
  const std::string& version() const override { return object_.etag; }
  absl::Status ReadAt(int64_t offset, absl::Span<char> out) const override {
    DISTILL_RETURN_IF_ERROR(CheckRange(*this, offset, out.size()));
    return client_->Get(address_, object_.etag, offset, out);
  }

 private:
  const std::shared_ptr<S3Client> client_;
  const std::string path_;
  const S3Address address_;
  const S3Object object_;
};

absl::StatusOr<S3Address> ParseKey(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(S3Address address, ParseS3Url(path));
  if (!address.key.empty()) return address;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is a bucket, where an object was expected (s3://BUCKET/KEY)"));
}

// With a slash at the end, so that "data" does not list "database".
absl::StatusOr<S3Address> ParseFolder(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(S3Address address, ParseS3Url(path));
  if (!address.key.empty() && !absl::EndsWith(address.key, "/")) address.key += "/";
  return address;
}

class S3Store : public Store {
 public:
  // `cache` may be null.
  S3Store(std::shared_ptr<S3Client> client, std::shared_ptr<FileCache> cache)
      : client_(std::move(client)), cache_(std::move(cache)) {}

  bool is_remote() const override { return true; }

  absl::StatusOr<std::shared_ptr<const ReadableFile>> Open(const std::string& path) override {
    DISTILL_ASSIGN_OR_RETURN(const S3Address address, ParseKey(path));
    DISTILL_ASSIGN_OR_RETURN(S3Object object, client_->Head(address));
    auto file = std::make_shared<S3File>(client_, path, address, std::move(object));
    return cache_ == nullptr ? file : cache_->Wrap(std::move(file));
  }

  absl::StatusOr<std::unique_ptr<FileWriter>> Create(const std::string& path) override {
    DISTILL_ASSIGN_OR_RETURN(S3Address address, ParseKey(path));
    return MakeS3Writer(client_, std::move(address));
  }

  absl::StatusOr<PathKind> KindOf(const std::string& path) override {
    DISTILL_ASSIGN_OR_RETURN(const S3Address address, ParseS3Url(path));
    if (!address.key.empty() && !absl::EndsWith(address.key, "/")) {
      const absl::Status status = client_->Head(address).status();
      if (status.ok()) return PathKind::kFile;
      // Without s3:ListBucket S3 says 403 of what is not there; the listing then says why.
      if (!absl::IsNotFound(status) && !absl::IsPermissionDenied(status)) return status;
    }
    DISTILL_ASSIGN_OR_RETURN(const S3Address folder, ParseFolder(path));
    DISTILL_ASSIGN_OR_RETURN(const S3Listing listing, client_->List(folder, "/", 1));
    const bool is_folder = !listing.objects.empty() || !listing.folders.empty() || folder.key.empty();
    return is_folder ? PathKind::kFolder : PathKind::kNothing;
  }

  absl::StatusOr<std::vector<FolderEntry>> List(const std::string& path) override {
    DISTILL_ASSIGN_OR_RETURN(const S3Address folder, ParseFolder(path));
    DISTILL_ASSIGN_OR_RETURN(const S3Listing listing, client_->List(folder, "/"));
    std::vector<FolderEntry> entries;
    for (const S3Object& object : listing.objects) {
      if (object.key == folder.key) continue;  // the folder itself, as consoles make it
      entries.push_back({object.key.substr(folder.key.size()), false, object.size});
    }
    for (const std::string& key : listing.folders) {
      entries.push_back({key.substr(folder.key.size(), key.size() - folder.key.size() - 1), true, 0});
    }
    if (entries.empty() && listing.objects.empty() && !folder.key.empty()) {
      return absl::NotFoundError(absl::StrCat(path, ": no object's key begins with ", folder.key));
    }
    std::sort(entries.begin(), entries.end(),
              [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
    return entries;
  }

  absl::StatusOr<std::vector<std::string>> ListAll(const std::string& path, const std::string& prefix) override {
    DISTILL_ASSIGN_OR_RETURN(const S3Address folder, ParseFolder(path));
    DISTILL_ASSIGN_OR_RETURN(const S3Listing listing, client_->List({folder.bucket, folder.key + prefix}, ""));
    std::vector<std::string> names;
    for (const S3Object& object : listing.objects) names.push_back(object.key.substr(folder.key.size()));
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status Remove(const std::string& path) override {
    DISTILL_ASSIGN_OR_RETURN(const S3Address address, ParseKey(path));
    return client_->Delete(address);
  }

  absl::StatusOr<std::string> WriteIf(const std::string& path, absl::string_view bytes,
                                      const std::string& version) override {
    DISTILL_ASSIGN_OR_RETURN(const S3Address address, ParseKey(path));
    return client_->PutIf(address, bytes, version);
  }

  absl::Status RemoveUnfinished(const std::string& prefix) override {
    DISTILL_ASSIGN_OR_RETURN(const S3Address at, ParseS3Url(prefix));
    DISTILL_ASSIGN_OR_RETURN(const std::vector<S3Upload> uploads, client_->ListUploads(at));
    for (const auto& [key, upload] : uploads) {
      DISTILL_RETURN_IF_ERROR(client_->AbortUpload({at.bucket, key}, upload));
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<S3Client> client_;
  const std::shared_ptr<FileCache> cache_;
};

absl::StatusOr<std::string> FindEndpoint() {
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    if (const std::string url = EnvironmentText(name); !url.empty()) return url;
  }
  DISTILL_ASSIGN_OR_RETURN(const AwsProfile profile, ReadAwsProfile(AwsProfileName()));
  const auto found = profile.find("endpoint_url");
  return found == profile.end() ? "" : found->second;
}

}  // namespace

absl::StatusOr<std::string> FindS3() {
  std::vector<std::string> parts;
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE",
                           "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_ACCESS_KEY_ID",
                           "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_NO_SIGN_REQUEST", "AWS_CA_BUNDLE"}) {
    parts.push_back(EnvironmentText(name));
  }
  return absl::StrJoin(parts, "\n");
}

absl::StatusOr<std::shared_ptr<Store>> MakeS3Store(const StoreOptions& options, StoreCounters& counters) {
  S3ClientOptions client;
  DISTILL_ASSIGN_OR_RETURN(client.endpoint, FindEndpoint());
  if (!client.endpoint.empty() && !absl::StartsWith(client.endpoint, "http://") &&
      !absl::StartsWith(client.endpoint, "https://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("AWS_ENDPOINT_URL is '", client.endpoint, "'; it begins with https:// or http://"));
  }
  DISTILL_ASSIGN_OR_RETURN(client.region, FindAwsRegion());
  client.http.stall_timeout = absl::Seconds(options.stall_seconds);
  client.http.ca_file = CaFile("AWS_CA_BUNDLE");
  client.retry.attempts = static_cast<int>(options.attempts);
  std::shared_ptr<FileCache> cache;
  if (!options.cache_folder.empty()) {
    absl::StatusOr<std::shared_ptr<FileCache>> made =
        FileCache::Create(options.cache_folder, options.cache_gib << 30, options.range_mib << 20);
    if (!made.ok()) return Annotate(made.status(), "store_cache_dir");
    cache = *std::move(made);
  }
  return std::make_shared<S3Store>(std::make_shared<S3Client>(std::move(client), counters), std::move(cache));
}

}  // namespace distill
