#include "libdistill/store/s3_client.h"

#include <algorithm>
#include <cstring>
#include <pugixml.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/s3_error.h"

namespace distill {

// One request of the interface.
struct S3Client::Call {
  std::string action;  // "read", for messages
  S3Address address;
  std::string prefix = "";  // of the keys that are listed, for messages
  std::string method = "GET";
  HttpFields query = {};
  HttpFields headers = {};
  absl::string_view body = {};
  int allowed = 200;
  HttpSink sink = nullptr;
  std::function<absl::Status(const HttpResponse& response)> check = nullptr;  // of an allowed answer
  std::function<void()> begin = nullptr;                                      // before each attempt
  std::string What() const { return absl::StrCat(action, " ", address.Url(), prefix); }
};

namespace {

bool IsBucketCharacter(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) || absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
         c == '.' || c == '-' || c == '_';
}

// Where a request goes.
struct Target {
  std::string scheme, host, path;
};

// AWS has the bucket in the host's name, so that its name service can spread them; other servers, and names with a dot,
// for which no certificate holds, in the path.
Target TargetOf(const S3ClientOptions& options, const std::string& region, const S3Address& address) {
  const std::string key = PercentEncode(address.key, /*keep_slashes=*/true);
  if (!options.endpoint.empty()) {
    const size_t end = options.endpoint.find("://");
    std::string host = options.endpoint.substr(end + 3);
    while (absl::EndsWith(host, "/")) host.pop_back();
    return {options.endpoint.substr(0, end + 3), host, absl::StrCat("/", address.bucket, "/", key)};
  }
  const std::string service =
      absl::StrCat("s3.", region, absl::StartsWith(region, "cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
  if (absl::StrContains(address.bucket, '.')) return {"https://", service, absl::StrCat("/", address.bucket, "/", key)};
  return {"https://", absl::StrCat(address.bucket, ".", service), absl::StrCat("/", key)};
}

// An answer may begin with 200 and hold an error all the same, where the server began before it knew.
absl::Status CheckNoErrorInside(const S3Address& address, const HttpResponse& response) {
  if (S3ErrorCode(response).empty()) return absl::OkStatus();
  HttpResponse error = response;
  error.status = 500;
  return S3Error(address, error);
}

// What was stored has an ETag; an error inside a 200 has none.
absl::Status CheckIsStored(const HttpResponse& response) {
  if (!response.Header("etag").empty()) return absl::OkStatus();
  return absl::UnavailableError("the answer has no ETag");
}

absl::StatusOr<int64_t> LengthOf(const S3Address& object, const HttpResponse& response) {
  int64_t size = 0;
  if (absl::SimpleAtoi(response.Header("content-length"), &size) && size >= 0) return size;
  return absl::UnavailableError(absl::StrCat(object.Url(), ": the answer has no length"));
}

// Refuses an answer that is not of the range and version that were asked for.
absl::Status CheckRangeOf(const std::string& etag, int64_t offset, size_t size, const HttpResponse& response) {
  if (!etag.empty() && response.Header("etag") != etag) {
    return absl::DataLossError(absl::StrCat("the object was replaced while it was read (ETag ", etag, " before, now ",
                                            response.Header("etag"), "); start again with the new one"));
  }
  const std::string range = absl::StrCat("bytes ", offset, "-", offset + static_cast<int64_t>(size) - 1, "/");
  if (absl::StartsWith(response.Header("content-range"), range)) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("asked for ", range, "..., the answer is of '", response.Header("content-range"), "'"));
}

}  // namespace

absl::StatusOr<S3Address> ParseS3Url(const std::string& url) {
  constexpr absl::string_view kScheme = "s3://";
  if (!absl::StartsWith(url, kScheme))
    return absl::InvalidArgumentError(absl::StrCat(url, ": not of the form s3://BUCKET/KEY"));
  const std::string rest = url.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  S3Address address{rest.substr(0, slash), slash < rest.size() ? rest.substr(slash + 1) : ""};
  if (address.bucket.size() < 3 || !std::all_of(address.bucket.begin(), address.bucket.end(), IsBucketCharacter)) {
    return absl::InvalidArgumentError(absl::StrCat(url, ": '", address.bucket,
                                                   "' cannot be a bucket's name (s3://BUCKET/KEY; lower-case "
                                                   "letters, digits, '-' and '.')"));
  }
  return address;
}

S3Client::S3Client(S3ClientOptions options, StoreCounters& counters)
    : options_(std::move(options)), counters_(counters), http_(options_.http) {}

std::string S3Client::RegionOf(const std::string& bucket) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = regions_.find(bucket);
  return found == regions_.end() ? options_.region : found->second;
}

bool S3Client::LearnRegion(const std::string& bucket, const HttpResponse& response) {
  const std::string& region = response.Header("x-amz-bucket-region");
  if (region.empty() || region == RegionOf(bucket)) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  regions_[bucket] = region;
  return true;
}

absl::StatusOr<HttpResponse> S3Client::SendOnce(const Call& call) {
  DISTILL_ASSIGN_OR_RETURN(const AwsCredentials credentials, credentials_.Get());
  const std::string region = RegionOf(call.address.bucket);
  const Target target = TargetOf(options_, region, call.address);
  const AwsRequest request{call.method, target.host, target.path, call.query, call.headers, call.body};
  std::string url = absl::StrCat(target.scheme, target.host, target.path);
  if (!call.query.empty()) absl::StrAppend(&url, "?", EncodeQuery(call.query));
  ++counters_.requests;
  return http_.Send({.method = call.method,
                     .url = url,
                     .headers = SignedHeaders(request, credentials, region, "s3", absl::Now()),
                     .body = call.body},
                    call.sink);
}

absl::StatusOr<HttpResponse> S3Client::AskAgainForReason(const Call& call) {
  Call again = call;
  again.method = "GET";
  again.headers = {{"range", "bytes=0-0"}};
  again.sink = nullptr;
  return SendOnce(again);
}

absl::StatusOr<HttpResponse> S3Client::Send(const Call& call) {
  HttpResponse answer;
  bool has_renewed = false, has_moved = false;
  const absl::Status status = Retry(options_.retry, counters_, call.What(), [&]() -> absl::Status {
    for (;;) {
      if (call.begin) call.begin();
      DISTILL_ASSIGN_OR_RETURN(answer, SendOnce(call));
      if (answer.status == call.allowed) return call.check ? call.check(answer) : absl::OkStatus();
      if (answer.status / 100 != 2 && !has_moved && LearnRegion(call.address.bucket, answer)) {
        has_moved = true;
        continue;
      }
      if (call.method == "HEAD" && answer.status != 404 && answer.status < 500) {
        DISTILL_ASSIGN_OR_RETURN(answer, AskAgainForReason(call));
      }
      if (S3ErrorCode(answer) == "ExpiredToken" && !has_renewed) {
        has_renewed = true;
        credentials_.Forget();
        continue;
      }
      return S3Error(call.address, answer);
    }
  });
  if (!status.ok()) return Annotate(status, absl::StrCat("cannot ", call.What()));
  return answer;
}

absl::StatusOr<S3Object> S3Client::Head(const S3Address& object) {
  DISTILL_ASSIGN_OR_RETURN(const HttpResponse response,
                           Send({.action = "look at", .address = object, .method = "HEAD"}));
  DISTILL_ASSIGN_OR_RETURN(const int64_t size, LengthOf(object, response));
  return S3Object{object.key, size, response.Header("etag")};
}

absl::Status S3Client::Get(const S3Address& object, const std::string& etag, int64_t offset, absl::Span<char> out) {
  if (out.empty()) return absl::OkStatus();
  size_t filled = 0;
  Call call{.action = "read", .address = object};
  call.headers.emplace_back("range",
                            absl::StrCat("bytes=", offset, "-", offset + static_cast<int64_t>(out.size()) - 1));
  if (!etag.empty()) call.headers.emplace_back("if-match", etag);
  call.allowed = 206;
  call.begin = [&] { filled = 0; };
  call.sink = [&](absl::string_view bytes) -> absl::Status {
    if (bytes.size() > out.size() - filled) {
      return absl::UnavailableError(absl::StrCat("the answer is longer than the ", out.size(), " bytes asked for"));
    }
    std::memcpy(out.data() + filled, bytes.data(), bytes.size());
    filled += bytes.size();
    counters_.bytes_read += static_cast<int64_t>(bytes.size());
    return absl::OkStatus();
  };
  call.check = [&](const HttpResponse& response) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(CheckRangeOf(etag, offset, out.size(), response));
    if (filled == out.size()) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(filled, " of ", out.size(), " bytes came"));
  };
  return Send(call).status();
}

absl::StatusOr<S3Listing> S3Client::List(const S3Address& at, const std::string& delimiter, int64_t most) {
  S3Listing listing;
  std::string token;
  do {
    Call call{.action = "list", .address = {at.bucket, ""}, .prefix = at.key};
    call.query = {{"list-type", "2"}, {"prefix", at.key}};
    if (!delimiter.empty()) call.query.emplace_back("delimiter", delimiter);
    if (!token.empty()) call.query.emplace_back("continuation-token", token);
    if (most > 0) call.query.emplace_back("max-keys", absl::StrCat(std::min<int64_t>(most, 1000)));
    pugi::xml_document document;
    call.check = [&](const HttpResponse& response) -> absl::Status {
      if (document.load_buffer(response.body.data(), response.body.size()) && document.child("ListBucketResult")) {
        return absl::OkStatus();
      }
      return absl::UnavailableError("the answer is no ListBucketResult");
    };
    DISTILL_RETURN_IF_ERROR(Send(call).status());
    const pugi::xml_node result = document.child("ListBucketResult");
    for (const pugi::xml_node entry : result.children("Contents")) {
      listing.objects.push_back(
          {entry.child_value("Key"), entry.child("Size").text().as_llong(), entry.child_value("ETag")});
    }
    for (const pugi::xml_node entry : result.children("CommonPrefixes"))
      listing.folders.push_back(entry.child_value("Prefix"));
    token = result.child_value("NextContinuationToken");
  } while (!token.empty() && (most == 0 || std::ssize(listing.objects) < most));
  return listing;
}

absl::Status S3Client::Put(const S3Address& object, absl::string_view bytes) {
  const absl::Status status =
      Send({.action = "write", .address = object, .method = "PUT", .body = bytes, .check = CheckIsStored}).status();
  if (status.ok()) counters_.bytes_written += static_cast<int64_t>(bytes.size());
  return status;
}

absl::StatusOr<std::string> S3Client::PutIf(const S3Address& object, absl::string_view bytes, const std::string& etag) {
  Call call{.action = "write", .address = object, .method = "PUT", .body = bytes, .check = CheckIsStored};
  // Without its quotes: Ceph compares what is between them, and AWS takes both.
  const absl::string_view bare = absl::StripSuffix(absl::StripPrefix(etag, "\""), "\"");
  call.headers.emplace_back(etag.empty() ? "if-none-match" : "if-match", etag.empty() ? "*" : std::string(bare));
  const absl::StatusOr<HttpResponse> response = Send(call);
  // 412: of a read it would be that the object was replaced. Without an object If-Match is answered by 404.
  if (absl::IsDataLoss(response.status()) || (absl::IsNotFound(response.status()) && !etag.empty())) {
    return absl::AbortedError(absl::StrCat(object.Url(), " was written by another meanwhile"));
  }
  if (!response.ok()) return response.status();
  counters_.bytes_written += static_cast<int64_t>(bytes.size());
  return response->Header("etag");
}

absl::Status S3Client::Delete(const S3Address& object) {
  return Send({.action = "remove", .address = object, .method = "DELETE", .allowed = 204}).status();
}

absl::StatusOr<std::string> S3Client::CreateUpload(const S3Address& object) {
  std::string upload;
  Call call{.action = "write", .address = object, .method = "POST", .query = {{"uploads", ""}}};
  call.check = [&](const HttpResponse& response) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(CheckNoErrorInside(object, response));
    pugi::xml_document document;
    document.load_buffer(response.body.data(), response.body.size());
    upload = document.child("InitiateMultipartUploadResult").child_value("UploadId");
    return upload.empty() ? absl::UnavailableError("the answer has no UploadId") : absl::OkStatus();
  };
  DISTILL_RETURN_IF_ERROR(Send(call).status());
  return upload;
}

absl::StatusOr<std::string> S3Client::UploadPart(const S3Address& object, const std::string& upload, int number,
                                                 absl::string_view bytes) {
  DISTILL_ASSIGN_OR_RETURN(const HttpResponse response,
                           Send({.action = "write",
                                 .address = object,
                                 .method = "PUT",
                                 .query = {{"partNumber", absl::StrCat(number)}, {"uploadId", upload}},
                                 .body = bytes,
                                 .check = CheckIsStored}));
  counters_.bytes_written += static_cast<int64_t>(bytes.size());
  return response.Header("etag");
}

absl::Status S3Client::CompleteUpload(const S3Address& object, const std::string& upload,
                                      const std::vector<std::string>& etags) {
  std::string body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < etags.size(); ++i) {
    absl::StrAppend(&body, "<Part><PartNumber>", i + 1, "</PartNumber><ETag>", etags[i], "</ETag></Part>");
  }
  body += "</CompleteMultipartUpload>";
  Call call{.action = "write", .address = object, .method = "POST", .query = {{"uploadId", upload}}, .body = body};
  call.check = [&object](const HttpResponse& response) { return CheckNoErrorInside(object, response); };
  const absl::Status status = Send(call).status();
  if (!absl::IsNotFound(status)) return status;
  // A first attempt may have succeeded, and its answer been lost: then the upload is gone, and the object is there.
  const absl::StatusOr<S3Object> written = Head(object);
  const bool is_there = written.ok() && absl::EndsWith(written->etag, absl::StrCat("-", etags.size(), "\""));
  return is_there ? absl::OkStatus() : status;
}

absl::Status S3Client::AbortUpload(const S3Address& object, const std::string& upload) {
  return Send({.action = "abort the upload of",
               .address = object,
               .method = "DELETE",
               .query = {{"uploadId", upload}},
               .allowed = 204})
      .status();
}

absl::StatusOr<std::vector<S3Upload>> S3Client::ListUploads(const S3Address& at) {
  std::vector<S3Upload> uploads;
  for (bool is_cut = true; is_cut;) {
    Call call{.action = "list unfinished uploads to", .address = {at.bucket, ""}, .prefix = at.key};
    call.query = {{"prefix", at.key}, {"uploads", ""}};
    if (!uploads.empty()) {
      call.query.emplace_back("key-marker", uploads.back().key);
      call.query.emplace_back("upload-id-marker", uploads.back().upload);
    }
    pugi::xml_document document;
    call.check = [&](const HttpResponse& response) -> absl::Status {
      if (document.load_buffer(response.body.data(), response.body.size()) &&
          document.child("ListMultipartUploadsResult")) {
        return absl::OkStatus();
      }
      return absl::UnavailableError("the answer is no ListMultipartUploadsResult");
    };
    DISTILL_RETURN_IF_ERROR(Send(call).status());
    const pugi::xml_node result = document.child("ListMultipartUploadsResult");
    const size_t before = uploads.size();
    for (const pugi::xml_node entry : result.children("Upload")) {
      uploads.push_back({entry.child_value("Key"), entry.child_value("UploadId")});
    }
    is_cut = result.child("IsTruncated").text().as_bool() && uploads.size() > before;
  }
  return uploads;
}

}  // namespace distill
