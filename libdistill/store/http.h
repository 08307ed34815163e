// Requests over HTTP and HTTPS, one attempt each: what s3:// and the hub are made of. Connections are kept and used
// again.
//
//   HttpClient client(HttpOptions{});
//   DISTILL_ASSIGN_OR_RETURN(const HttpResponse response, client.Send({.url = "https://example.org/api"}));
//   if (response.status != 200) ...
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libdistill/store/byte_stream.h"

namespace distill {

struct HttpResponse;

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers = {};
  absl::string_view body = {};   // sent as it is, with its length
  ByteStream* stream = nullptr;  // in place of `body`, for what is too large for memory: its next `stream_bytes` bytes
  int64_t stream_bytes = 0;
  int max_redirects = 0;  // followed; an Authorization is not sent on to another host
  // Of an answer whose status is 2xx and that has a body, before the first byte of it goes to the sink; its error ends
  // the request and comes back as it is.
  std::function<absl::Status(const HttpResponse& head)> begin_body = nullptr;
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // what the sink did not take

  // Empty where there is none. `name` in lower case.
  const std::string& Header(const std::string& name) const;
};

struct HttpOptions {
  absl::Duration connect_timeout = absl::Seconds(10);
  absl::Duration stall_timeout = absl::Seconds(20);  // an answer of which no byte came for so long is cut
  std::string ca_file = "";  // whose authorities sign servers' certificates (CaFile); empty: those of this system
};

// The file of authorities that the environment names: by `own`, else for all that asks over HTTPS, as other programs
// are told (REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE). Empty: none.
std::string CaFile(const char* own = "");

// Takes the next bytes of the body of an answer whose status is 2xx; its error ends the request and comes back as it
// is.
using HttpSink = std::function<absl::Status(absl::string_view bytes)>;

class HttpClient {
 public:
  explicit HttpClient(const HttpOptions& options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Blocks until the answer is complete; any thread, any number at a time. An answer of any status is OK here. Without
  // a sink, or where the status is not 2xx, the body is in the response. Unavailable: no connection, or one that ended
  // before the answer did (a body shorter than its Content-Length is one). DeadlineExceeded: it stalled.
  // InvalidArgument: no such URL, or more redirects than are followed. PermissionDenied: the server's certificate is
  // not trusted. An error of the stream that is sent comes back as it is; DataLoss: it ended early.
  [[nodiscard]] absl::StatusOr<HttpResponse> Send(const HttpRequest& request, const HttpSink& sink = nullptr);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "a b/c" as "a%20b/c" where `keep_slashes`: RFC 3986, everything but letters, digits and -._~.
std::string PercentEncode(absl::string_view text, bool keep_slashes);

}  // namespace distill
