// An HTTP server with SageMaker's two paths: GET /ping, and POST /invocations, which a callable answers. Whatever its
// clients do, it holds a bounded number of connections, bytes and threads, and none of them longer than a time-out.
//
//   JsonServer server({.max_body_bytes = 1 << 20}, [](const std::string& body, absl::Time deadline) { ... });
//   DISTILL_ASSIGN_OR_RETURN(const int port, server.Bind("127.0.0.1", 8080));
//   DISTILL_RETURN_IF_ERROR(server.Serve());   // until Stop
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace distill {

struct ServerLimits {
  int64_t threads = 16;     // connections that are served at one time
  int64_t queue_size = 64;  // further ones that wait for one of these; those beyond are told 503 at once
  int64_t max_body_bytes = int64_t{1} << 20;
  absl::Duration request_timeout = absl::Seconds(30);  // from a request's first byte to its answer
  absl::Duration idle_timeout = absl::Seconds(5);      // between requests of one connection
};

struct JsonReply {
  int status = 200;  // of HTTP
  std::string body;  // JSON
};

// {"code": 400, "message": "..."}
JsonReply ErrorReply(int status, const std::string& message);

class JsonServer {
 public:
  // Called on several threads at once, with a body of at most max_body_bytes.
  using Answer = std::function<JsonReply(const std::string& body, absl::Time deadline)>;

  JsonServer(const ServerLimits& limits, Answer answer);
  ~JsonServer();
  JsonServer(const JsonServer&) = delete;
  JsonServer& operator=(const JsonServer&) = delete;

  // Port 0: any that is free; the port. Unavailable: it is taken, or the host is none of this machine's.
  [[nodiscard]] absl::StatusOr<int> Bind(const std::string& host, int port);
  // After Bind; blocks until Stop was called and what had been accepted before is answered. Unavailable: no more
  // connections can be accepted.
  [[nodiscard]] absl::Status Serve();
  // From any thread, also before Serve.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distill
