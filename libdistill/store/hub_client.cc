#include "libdistill/store/hub_client.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr char kUserAgent[] = "libdistill";
constexpr size_t kMostSaid = 300;  // of an answer's body, in a message

RetryPolicy PolicyOf(const StoreOptions& options) {
  RetryPolicy retry;
  retry.attempts = static_cast<int>(options.attempts);
  return retry;
}

HttpOptions HttpOptionsOf(const StoreOptions& options) {
  HttpOptions http;
  http.stall_timeout = absl::Seconds(options.stall_seconds);
  http.ca_file = CaFile();
  return http;
}

std::string WhatOf(const HubRequest& request) {
  return absl::StrCat(request.action, " ", request.repository.name,
                      request.file.empty() ? "" : absl::StrCat(" (", request.file, ")"));
}

// The hub says what is wrong in headers; other servers, such as its stores, in the body.
std::string ReasonOf(const HttpResponse& response) {
  std::string said = response.Header("x-error-message");
  if (said.empty()) said = response.body.substr(0, kMostSaid);
  return absl::StrCat(response.status, said.empty() ? "" : absl::StrCat(" (", said, ")"));
}

std::string TokenAdvice(const HubSettings& settings) {
  return settings.token.empty() ? "where it is private or gated, set HF_TOKEN"
                                : "check that HF_TOKEN belongs to a user who may use it";
}

// 401 stands for what is private, gated or not there, so that nobody learns which.
absl::Status RefusedError(const HubSettings& settings, const HubRequest& request, const HttpResponse& response) {
  const std::string& code = response.Header("x-error-code");
  const std::string page = absl::StrCat(settings.endpoint, request.repository.Page());
  if (code == "GatedRepo") {
    return absl::PermissionDeniedError(absl::StrCat(ReasonOf(response), ": it is gated: ask for access at ", page,
                                                    ", and set HF_TOKEN to a token of that user"));
  }
  if (absl::StrContains(absl::AsciiStrToLower(ReasonOf(response)), "quota")) {
    return absl::PermissionDeniedError(absl::StrCat(ReasonOf(response), ": the owner of ", request.repository.name,
                                                    " has no space left on the hub: make some, or ",
                                                    "publish for another owner"));
  }
  if (!request.url.empty())
    return absl::PermissionDeniedError(absl::StrCat(ReasonOf(response), ": the store that the hub named refuses it"));
  if (response.status == 403) {
    return absl::PermissionDeniedError(absl::StrCat(
        ReasonOf(response), ": the token may not do this: it needs the permission to ",
        request.method == "GET" || request.method == "HEAD" ? "read" : "write to", " ", request.repository.name));
  }
  return absl::PermissionDeniedError(absl::StrCat(ReasonOf(response),
                                                  ": there is no such repository, or it may not "
                                                  "be seen: check the name at ",
                                                  page, "; ", TokenAdvice(settings)));
}

absl::Status MissingError(const HubSettings& settings, const HubRequest& request, const HttpResponse& response) {
  const std::string& code = response.Header("x-error-code");
  const HubRepository& repository = request.repository;
  if (code == "RevisionNotFound") {
    return absl::NotFoundError(absl::StrCat(ReasonOf(response), ": it has no revision '", repository.revision,
                                            "': give a branch, a tag or a commit"));
  }
  if (code == "EntryNotFound" || !request.file.empty()) {
    return absl::NotFoundError(absl::StrCat(ReasonOf(response), ": it has no such file"));
  }
  return absl::NotFoundError(absl::StrCat(ReasonOf(response), ": there is no such repository among the ",
                                          repository.Plural(), " of ", settings.endpoint, "; ", TokenAdvice(settings)));
}

}  // namespace

absl::Status HubError(const HubSettings& settings, const HubRequest& request, const HttpResponse& response) {
  switch (response.status) {
    case 401:
    case 403:
      return RefusedError(settings, request, response);
    case 404:
      return MissingError(settings, request, response);
    case 408:
    case 429:
      return absl::UnavailableError(ReasonOf(response));
    case 400:
    case 422:
      return absl::InvalidArgumentError(ReasonOf(response));
    case 409:
    case 412:
      return absl::FailedPreconditionError(ReasonOf(response));
    case 413:
      return absl::InvalidArgumentError(absl::StrCat(ReasonOf(response), ": it is too large for the hub"));
    case 416:
      return absl::DataLossError(absl::StrCat(ReasonOf(response), ": the file is shorter than it was"));
    default:
      if (response.status / 100 == 2) return absl::OkStatus();
      if (response.status >= 500) return absl::UnavailableError(ReasonOf(response));
      return absl::InternalError(ReasonOf(response));
  }
}

HubClient::HubClient(HubSettings settings, const StoreOptions& options, StoreCounters& counters)
    : settings_(std::move(settings)), retry_(PolicyOf(options)), counters_(counters), http_(HttpOptionsOf(options)) {}

absl::StatusOr<HttpResponse> HubClient::SendOnce(const HubRequest& request) {
  if (settings_.is_offline) return absl::FailedPreconditionError("HF_HUB_OFFLINE is set");
  HttpRequest http{.method = request.method,
                   .url = request.url.empty() ? settings_.endpoint + request.path : request.url,
                   .headers = request.headers,
                   .body = request.body,
                   .max_redirects = request.max_redirects,
                   .begin_body = request.begin_body};
  http.headers.emplace_back("user-agent", kUserAgent);
  if (request.url.empty() && !settings_.token.empty()) {
    http.headers.emplace_back("authorization", absl::StrCat("Bearer ", settings_.token));
  }
  if (request.begin) request.begin();
  ++counters_.requests;
  std::unique_ptr<ByteStream> body;
  if (request.open_body) {
    DISTILL_ASSIGN_OR_RETURN(body, request.open_body());
    http.stream = body.get();
    http.stream_bytes = request.body_bytes;
  }
  DISTILL_ASSIGN_OR_RETURN(HttpResponse answer, http_.Send(http, request.sink));
  const auto& fine = request.also_fine;
  if (std::find(fine.begin(), fine.end(), answer.status) == fine.end()) {
    DISTILL_RETURN_IF_ERROR(HubError(settings_, request, answer));
  }
  if (request.check) DISTILL_RETURN_IF_ERROR(request.check(answer));
  return answer;
}

RetryPolicy HubClient::RetryOf(const HubRequest& request) const {
  RetryPolicy retry = retry_;
  if (request.open_body) retry.total = absl::InfiniteDuration();
  return retry;
}

absl::StatusOr<HttpResponse> HubClient::Send(const HubRequest& request) { return Send(request, retry_.attempts); }

absl::StatusOr<HttpResponse> HubClient::Send(const HubRequest& request, int attempts) {
  const std::string what = WhatOf(request);
  RetryPolicy retry = RetryOf(request);
  retry.attempts = std::min(attempts, retry.attempts);
  HttpResponse answer;
  const absl::Status status = Retry(retry, counters_, what, [&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(answer, SendOnce(request));
    return absl::OkStatus();
  });
  if (!status.ok()) return Annotate(status, absl::StrCat("cannot ", what));
  return answer;
}

}  // namespace distill
