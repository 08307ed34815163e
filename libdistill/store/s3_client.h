// The part of S3's interface that libdistill needs ("Amazon S3 API Reference"): objects read by ranges, written at once
// or in parts, listed and removed. Every call blocks, is tried again where that may help, and counted; any thread may
// make it, any number at a time.
//
// libcurl carries the requests, not Arrow's S3 file system: that one cannot say If-Match, without which a range of a
// replaced object passes for one of the old, and cuts no answer that stalls.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/store/aws_credentials.h"
#include "libdistill/store/http.h"
#include "libdistill/store/retry.h"

namespace distill {

struct S3Address {
  std::string bucket;
  std::string key;  // may be empty: the bucket itself

  std::string Url() const { return "s3://" + bucket + "/" + key; }
};

// Of s3://bucket/key. InvalidArgument: another form, or a name that no bucket can have.
[[nodiscard]] absl::StatusOr<S3Address> ParseS3Url(const std::string& url);

struct S3Object {
  std::string key;
  int64_t size = 0;
  std::string etag;  // with its quotes, as S3 gives it
};

struct S3Listing {
  std::vector<S3Object> objects;
  std::vector<std::string> folders;  // with a delimiter: what the keys begin with up to it
};

// Of an object in parts that was not completed.
struct S3Upload {
  std::string key;
  std::string upload;
};

struct S3ClientOptions {
  std::string endpoint;  // "http://127.0.0.1:9000": another server, with the bucket in the path; empty: AWS
  std::string region = "us-east-1";
  HttpOptions http = {};
  RetryPolicy retry = {};
};

class S3Client {
 public:
  // `counters` outlives it.
  S3Client(S3ClientOptions options, StoreCounters& counters);

  // NotFound: no such object, or no such bucket. PermissionDenied: refused; not tried again, and the message says what
  // to check or which policy to add. Unavailable, DeadlineExceeded: no answer, also after retries. All calls below give
  // these.
  [[nodiscard]] absl::StatusOr<S3Object> Head(const S3Address& object);
  // The bytes from `offset` on, of the version whose ETag is `etag`. DataLoss: the object was replaced.
  [[nodiscard]] absl::Status Get(const S3Address& object, const std::string& etag, int64_t offset,
                                 absl::Span<char> out);
  // All whose keys begin with at.key, in their order; with `delimiter` "/" those of one folder. At most `most` of them
  // where that is positive.
  [[nodiscard]] absl::StatusOr<S3Listing> List(const S3Address& at, const std::string& delimiter, int64_t most = 0);
  [[nodiscard]] absl::Status Put(const S3Address& object, absl::string_view bytes);
  // Puts it where the object there has this ETag; "": where there is none. Returns its ETag. Aborted: there is another
  // object. Unimplemented: the server compares none.
  [[nodiscard]] absl::StatusOr<std::string> PutIf(const S3Address& object, absl::string_view bytes,
                                                  const std::string& etag);
  [[nodiscard]] absl::Status Delete(const S3Address& object);

  // Objects written in parts: nothing is there before CompleteUpload returns. Parts are at least 5 MiB but for the
  // last, at most 10,000, numbered from 1.
  [[nodiscard]] absl::StatusOr<std::string> CreateUpload(const S3Address& object);
  [[nodiscard]] absl::StatusOr<std::string> UploadPart(const S3Address& object, const std::string& upload, int number,
                                                       absl::string_view bytes);
  [[nodiscard]] absl::Status CompleteUpload(const S3Address& object, const std::string& upload,
                                            const std::vector<std::string>& etags);
  [[nodiscard]] absl::Status AbortUpload(const S3Address& object, const std::string& upload);
  // Those under way whose keys begin with at.key.
  [[nodiscard]] absl::StatusOr<std::vector<S3Upload>> ListUploads(const S3Address& at);

 private:
  struct Call;
  // One request with retries; the answer has one of the statuses that `call` allows.
  absl::StatusOr<HttpResponse> Send(const Call& call);
  absl::StatusOr<HttpResponse> SendOnce(const Call& call);
  // Why a request was refused, where the answer has no body that says it.
  absl::StatusOr<HttpResponse> AskAgainForReason(const Call& call);
  std::string RegionOf(const std::string& bucket);
  bool LearnRegion(const std::string& bucket, const HttpResponse& response);

  const S3ClientOptions options_;
  StoreCounters& counters_;
  HttpClient http_;
  AwsCredentialsCache credentials_;
  std::mutex mutex_;
  std::map<std::string, std::string> regions_;  // of buckets that lie elsewhere
};

}  // namespace distill
