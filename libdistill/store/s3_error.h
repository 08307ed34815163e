// What an S3 server says where it does not do what was asked, as a Status with what to do about it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "libdistill/store/http.h"
#include "libdistill/store/s3_client.h"

namespace distill {

// The answer's error code, from its body: "NoSuchKey"; empty where it has none.
std::string S3ErrorCode(const HttpResponse& response);

// Of an answer that is not the one expected; without what was asked for. Unavailable: another attempt may help.
absl::Status S3Error(const S3Address& address, const HttpResponse& response);

}  // namespace distill
