// What an S3 server says where it does not do what was asked, as a Status with what to do about it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/http.h"
#include "libdistill/store/s3_client.h"

namespace distill {

// The answer's error code, from its body: "NoSuchKey"; empty where it has none.
std::string S3ErrorCode(const HttpResponse& response);

// Of an answer that is no success. `action`: "read s3://bucket/key". Unavailable: another attempt may help.
absl::Status S3Error(absl::string_view action, const S3Address& address, const HttpResponse& response);

}  // namespace distill
