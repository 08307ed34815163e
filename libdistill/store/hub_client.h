// Requests to the Hugging Face hub: signed with the user's token, tried again where that may help, counted, and with
// errors that say what to do. What is asked for is the business of those who read (download) and write (publish).
//
//   DISTILL_ASSIGN_OR_RETURN(HubSettings settings, ReadHubSettings());
//   HubClient hub(settings, CurrentStoreOptions(), CountersOfStores());
//   DISTILL_ASSIGN_OR_RETURN(const HttpResponse answer,
//                            hub.Send({.action = "look up", .repository = repository, .path =
//                            "/api/models/org/name"}));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/byte_stream.h"
#include "libdistill/store/http.h"
#include "libdistill/store/hub_settings.h"
#include "libdistill/store/retry.h"
#include "libdistill/store/store_options.h"

namespace distill {

enum class HubKind { kModel, kDataset };

struct HubRepository {
  HubKind kind = HubKind::kModel;
  std::string name;               // "org/name"
  std::string revision = "main";  // a branch, a tag or a commit

  // "models" or "datasets": the first word of paths of the interface.
  std::string Plural() const { return kind == HubKind::kModel ? "models" : "datasets"; }
  // Where people look at it, below the endpoint: "/org/name" or "/datasets/org/name".
  std::string Page() const { return (kind == HubKind::kModel ? "/" : "/datasets/") + name; }
};

// One request of the hub's interface, or of a store that it has sent us to.
struct HubRequest {
  std::string action;  // "read", for messages: "cannot read org/name (model.safetensors)"
  HubRepository repository = {};
  std::string file = {};  // of the repository, for messages; may be empty
  std::string method = "GET";
  std::string path = {};  // below the endpoint, percent-encoded, with its query
  std::string url = {};   // in place of `path`: another server's, to which no token is sent
  std::vector<std::pair<std::string, std::string>> headers = {};
  absl::string_view body = {};
  // In place of `body`, for what is too large for memory: opened for each attempt, and `body_bytes` of it are sent.
  std::function<absl::StatusOr<std::unique_ptr<ByteStream>>()> open_body = nullptr;
  int64_t body_bytes = 0;
  int max_redirects = 0;
  std::vector<int> also_fine = {};  // statuses beside 2xx that are no errors, such as 302 or 409
  HttpSink sink = nullptr;
  std::function<absl::Status(const HttpResponse& head)> begin_body = nullptr;  // as HttpRequest's
  std::function<void()> begin = nullptr;                                       // before each attempt
  std::function<absl::Status(const HttpResponse& response)> check = nullptr;   // of an answer that is no error
};

class HubClient {
 public:
  // `counters` outlives it.
  HubClient(HubSettings settings, const StoreOptions& options, StoreCounters& counters);

  const HubSettings& settings() const { return settings_; }

  // Blocks; any thread, any number at a time. NotFound: no such repository, revision or file; the message says which.
  // PermissionDenied: refused, with what to do (a token, access to a gated repository). Unavailable,
  // DeadlineExceeded: no answer, also after retries. FailedPrecondition: offline, or the repository has changed
  // meanwhile (409, 412). InvalidArgument: the hub calls the request wrong (400, 422).
  [[nodiscard]] absl::StatusOr<HttpResponse> Send(const HubRequest& request);
  // The same with so many attempts.
  [[nodiscard]] absl::StatusOr<HttpResponse> Send(const HubRequest& request, int attempts);
  // One attempt, for who tries again himself; errors are those of Send, without the action before them.
  [[nodiscard]] absl::StatusOr<HttpResponse> SendOnce(const HubRequest& request);

  const RetryPolicy& retry() const { return retry_; }
  // That of one request. An attempt at a large body may take longer than all attempts at others together, so that its
  // attempts are counted, but not their time.
  RetryPolicy RetryOf(const HubRequest& request) const;
  StoreCounters& counters() { return counters_; }

 private:
  const HubSettings settings_;
  const RetryPolicy retry_;
  StoreCounters& counters_;
  HttpClient http_;
};

// The error that an answer is. OK for 2xx.
[[nodiscard]] absl::Status HubError(const HubSettings& settings, const HubRequest& request,
                                    const HttpResponse& response);

}  // namespace distill
