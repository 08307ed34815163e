#include "libdistill/store/s3_error.h"

#include <pugixml.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace distill {
namespace {

struct Reason {
  std::string code, message;
};

Reason ReasonOf(const HttpResponse& response) {
  pugi::xml_document document;
  if (!document.load_buffer(response.body.data(), response.body.size())) return {};
  const pugi::xml_node error = document.child("Error");
  return {error.child_value("Code"), error.child_value("Message")};
}

// The policy that this user or role lacks.
std::string MissingPolicy(const std::string& bucket) {
  return absl::StrCat(
      "add to the policy of this user or role: Allow s3:GetObject, s3:ListBucket on arn:aws:s3:::", bucket,
      " and arn:aws:s3:::", bucket,
      "/* (and s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload, s3:ListBucketMultipartUploads to write)");
}

std::string AdviceFor(const Reason& reason, const S3Address& address, const HttpResponse& response) {
  if (reason.code == "InvalidAccessKeyId") return "check AWS_ACCESS_KEY_ID: the server does not know this key";
  if (reason.code == "SignatureDoesNotMatch") {
    return "check AWS_SECRET_ACCESS_KEY, which does not belong to this access key, and the endpoint";
  }
  if (reason.code == "ExpiredToken" || reason.code == "TokenRefreshRequired") {
    return "the session token has expired: fetch new credentials, and restart";
  }
  if (reason.code == "InvalidToken") return "check AWS_SESSION_TOKEN: it does not belong to this access key";
  if (reason.code == "RequestTimeTooSkewed") {
    return absl::StrCat("set this machine's clock: here it is ",
                        absl::FormatTime(absl::RFC1123_full, absl::Now(), absl::UTCTimeZone()), ", there ",
                        response.Header("date"));
  }
  return MissingPolicy(address.bucket);
}

bool MayPass(int status, const std::string& code) {
  return (status >= 500 && status != 501) || status == 429 || status == 408 || code == "SlowDown" ||
         code == "RequestTimeout" || code == "InternalError" || code == "ServiceUnavailable" ||
         code == "OperationAborted";
}

}  // namespace

std::string S3ErrorCode(const HttpResponse& response) { return ReasonOf(response).code; }

absl::Status S3Error(const S3Address& address, const HttpResponse& response) {
  const Reason reason = ReasonOf(response);
  const std::string said = absl::StrCat(response.status, reason.code.empty() ? "" : " ", reason.code,
                                        reason.message.empty() ? "" : absl::StrCat(" (", reason.message, ")"));
  if (response.status / 100 == 2)
    return absl::UnavailableError(absl::StrCat(said, ", which is not the answer to this"));
  if (MayPass(response.status, reason.code)) return absl::UnavailableError(said);
  if (reason.code == "NoSuchBucket") {
    return absl::NotFoundError(
        absl::StrCat(said, ": there is no bucket '", address.bucket, "': check its name and the endpoint"));
  }
  switch (response.status) {
    case 401:
    case 403:
      return absl::PermissionDeniedError(absl::StrCat(said, "; ", AdviceFor(reason, address, response)));
    case 404:
      return absl::NotFoundError(absl::StrCat(said, ": no such object: check bucket and key"));
    case 409:
      return absl::AbortedError(absl::StrCat(said, ": another one writes it at this moment"));
    case 501:
      return absl::UnimplementedError(absl::StrCat(said, ": this server cannot do that"));
    case 412:
      return absl::DataLossError(
          absl::StrCat(said, ": the object was replaced while it was read; start again with the new one"));
    case 416:
      return absl::DataLossError(
          absl::StrCat(said, ": the object is shorter than when it was opened: it was replaced"));
    default:
      return absl::InternalError(said);
  }
}

}  // namespace distill
