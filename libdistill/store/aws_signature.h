// Signature Version 4 of requests to AWS ("Signature Version 4 signing process", AWS General Reference): an HMAC over
// the request with a key derived from the secret, the day, the region and the service. The secret itself is never sent.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace distill {

struct AwsCredentials {
  std::string access_key_id;  // empty: requests are not signed
  std::string secret_access_key;
  std::string session_token;  // of temporary ones
  absl::Time expiration = absl::InfiniteFuture();
};

using HttpFields = std::vector<std::pair<std::string, std::string>>;

struct AwsRequest {
  std::string method;
  std::string host;         // with the port, where it is not the scheme's
  std::string path;         // percent-encoded: "/bucket/a%20key"
  HttpFields query = {};    // not encoded, in any order
  HttpFields headers = {};  // beyond those that signing adds; all of them are signed
  absl::string_view body = {};
};

// The headers to send: `request.headers`, x-amz-date, x-amz-content-sha256, x-amz-security-token and authorization; not
// host, which the client sends by itself. Without credentials only request.headers.
HttpFields SignedHeaders(const AwsRequest& request, const AwsCredentials& credentials, absl::string_view region,
                         absl::string_view service, absl::Time now);

// "a=1&b=x%20y", sorted by name, as it is signed and sent.
std::string EncodeQuery(HttpFields query);

// Hexadecimal SHA-256.
std::string Sha256Hex(absl::string_view bytes);

}  // namespace distill
