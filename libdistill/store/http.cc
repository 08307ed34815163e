#include "libdistill/store/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/environment_text.h"

namespace distill {
namespace {

constexpr size_t kMostBodyBytes = size_t{64} << 20;  // that are kept where there is no sink

// One attempt, as the functions that libcurl calls see it.
struct Transfer {
  CURL* curl = nullptr;
  const HttpRequest* request = nullptr;
  const HttpSink* sink = nullptr;
  absl::string_view unsent;
  ByteStream* stream = nullptr;
  HttpResponse response;
  absl::Status sink_status;  // of the sink, or of the stream that is sent
  absl::Duration stall_timeout;
  absl::Time last_progress;
  curl_off_t bytes = 0;
  bool has_stalled = false;
  bool has_body = false;
};

size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const absl::string_view line = absl::StripAsciiWhitespace(absl::string_view(data, size * count));
  if (absl::StartsWith(line, "HTTP/")) {  // of an answer; after a redirect there is another
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    transfer.response = {};
    if (parts.size() < 2 || !absl::SimpleAtoi(parts[1], &transfer.response.status)) return 0;
  } else if (const size_t colon = line.find(':'); colon != absl::string_view::npos) {
    transfer.response.headers[absl::AsciiStrToLower(line.substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return size * count;
}

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const absl::string_view bytes(data, size * count);
  if (*transfer.sink && transfer.response.status / 100 == 2) {
    if (!std::exchange(transfer.has_body, true) && transfer.request->begin_body) {
      transfer.sink_status = transfer.request->begin_body(transfer.response);
    }
    if (transfer.sink_status.ok()) transfer.sink_status = (*transfer.sink)(bytes);
    return transfer.sink_status.ok() ? bytes.size() : CURL_WRITEFUNC_ERROR;
  }
  if (transfer.response.body.size() + bytes.size() > kMostBodyBytes) {
    transfer.sink_status =
        absl::ResourceExhaustedError(absl::StrCat("an answer of more than ", kMostBodyBytes, " bytes"));
    return CURL_WRITEFUNC_ERROR;
  }
  transfer.response.body.append(bytes.data(), bytes.size());
  return bytes.size();
}

size_t OnUpload(char* out, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t taken = std::min(size * count, transfer.unsent.size());
  std::memcpy(out, transfer.unsent.data(), taken);
  transfer.unsent.remove_prefix(taken);
  return taken;
}

// libcurl asks for no more than there should be.
size_t OnStreamUpload(char* out, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const absl::StatusOr<size_t> taken = transfer.stream->Read(absl::MakeSpan(out, size * count));
  if (taken.ok() && *taken > 0) return *taken;
  transfer.sink_status = taken.ok() ? absl::DataLossError("what is to be sent is shorter than it was") : taken.status();
  return CURL_READFUNC_ABORT;
}

// libcurl calls it at least once a second.
int OnProgress(void* user, curl_off_t, curl_off_t received, curl_off_t, curl_off_t sent) {
  auto& transfer = *static_cast<Transfer*>(user);
  const absl::Time now = absl::Now();
  if (received + sent != transfer.bytes) {
    transfer.bytes = received + sent;
    transfer.last_progress = now;
  }
  transfer.has_stalled = now - transfer.last_progress > transfer.stall_timeout;
  return transfer.has_stalled ? 1 : 0;
}

absl::StatusCode CodeOf(CURLcode code) {
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_TOO_MANY_REDIRECTS:
      return absl::StatusCode::kInvalidArgument;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return absl::StatusCode::kPermissionDenied;
    case CURLE_OPERATION_TIMEDOUT:
      return absl::StatusCode::kDeadlineExceeded;
    case CURLE_OUT_OF_MEMORY:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

// "https://host:port", for messages: what follows may hold secrets.
std::string HostOf(const std::string& url) {
  const size_t host = url.find("://");
  return host == std::string::npos ? url : url.substr(0, url.find_first_of("/?", host + 3));
}

void SetBody(CURL* curl, const HttpRequest& request, Transfer& transfer) {
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (request.method == "PUT" || !request.body.empty()) {
    const bool streams = request.stream != nullptr;
    transfer.unsent = request.body;
    transfer.stream = request.stream;
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, streams ? &OnStreamUpload : &OnUpload);
    curl_easy_setopt(curl, CURLOPT_READDATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
    curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE,
                     static_cast<curl_off_t>(streams ? request.stream_bytes : request.body.size()));
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  } else if (request.method == "POST") {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
  } else if (request.method != "GET") {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

struct FreeHeaders {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeHeaders>;

HeaderList MakeHeaders(const HttpRequest& request) {
  curl_slist* list = curl_slist_append(nullptr, "Expect:");  // a server's "100 Continue" would only be waited for
  for (const auto& [name, value] : request.headers) {
    list = curl_slist_append(list,
                             value.empty() ? absl::StrCat(name, ";").c_str() : absl::StrCat(name, ": ", value).c_str());
  }
  return HeaderList(list);
}

}  // namespace

const std::string& HttpResponse::Header(const std::string& name) const {
  static const std::string* const kNone = new std::string;
  const auto found = headers.find(name);
  return found == headers.end() ? *kNone : found->second;
}

struct HttpClient::Impl {
  explicit Impl(const HttpOptions& given) : options(given) { curl_global_init(CURL_GLOBAL_DEFAULT); }
  ~Impl() {
    for (CURL* curl : idle) curl_easy_cleanup(curl);
  }

  // One that nobody uses now, with its connections, or else a new one.
  CURL* Take() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (idle.empty()) return curl_easy_init();
    CURL* curl = idle.back();
    idle.pop_back();
    return curl;
  }
  void GiveBack(CURL* curl) {
    curl_easy_reset(curl);  // keeps connections
    const std::lock_guard<std::mutex> lock(mutex);
    idle.push_back(curl);
  }
  void SetUp(CURL* curl, const HttpRequest& request, const curl_slist* headers, Transfer& transfer) const;

  const HttpOptions options;
  std::mutex mutex;
  std::vector<CURL*> idle;
};

void HttpClient::Impl::SetUp(CURL* curl, const HttpRequest& request, const curl_slist* headers,
                             Transfer& transfer) const {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  if (!options.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options.ca_file.c_str());
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);  // an object's key may have "..", and is signed as it is
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 512L << 10);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options.connect_timeout)));
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, request.max_redirects > 0 ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, static_cast<long>(request.max_redirects));
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  SetBody(curl, request, transfer);
}

std::string CaFile(const char* own) {
  for (const char* name : {own, "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (std::string file = *name == '\0' ? "" : EnvironmentText(name); !file.empty()) return file;
  }
  return "";
}

HttpClient::HttpClient(const HttpOptions& options) : impl_(std::make_unique<Impl>(options)) {}
HttpClient::~HttpClient() = default;

absl::StatusOr<HttpResponse> HttpClient::Send(const HttpRequest& request, const HttpSink& sink) {
  CURL* curl = impl_->Take();
  if (curl == nullptr) return absl::ResourceExhaustedError("no memory for a connection");
  Transfer transfer;
  transfer.curl = curl;
  transfer.request = &request;
  transfer.sink = &sink;
  transfer.stall_timeout = impl_->options.stall_timeout;
  transfer.last_progress = absl::Now();
  const HeaderList headers = MakeHeaders(request);
  impl_->SetUp(curl, request, headers.get(), transfer);
  char what[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, what);
  const CURLcode code = curl_easy_perform(curl);
  impl_->GiveBack(curl);

  DISTILL_RETURN_IF_ERROR(transfer.sink_status);
  if (code == CURLE_OK) return std::move(transfer.response);
  const std::string host = HostOf(request.url);
  if (transfer.has_stalled) {
    return absl::DeadlineExceededError(absl::StrCat(
        host, ": nothing came for ", absl::FormatDuration(transfer.stall_timeout), "; the request was cut"));
  }
  if (code == CURLE_TOO_MANY_REDIRECTS) {
    return absl::InvalidArgumentError(absl::StrCat(host, ": it sends from one address to the next, ",
                                                   request.max_redirects, " times: check that it is the right server"));
  }
  const char* const advice =
      code == CURLE_PEER_FAILED_VERIFICATION
          ? "; where an authority of your own signs it, name the file of its certificate: AWS_CA_BUNDLE, SSL_CERT_FILE"
          : "";
  return absl::Status(CodeOf(code),
                      absl::StrCat(host, ": ", what[0] != '\0' ? what : curl_easy_strerror(code), advice));
}

std::string PercentEncode(absl::string_view text, bool keep_slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || absl::StrContains("-._~", c) || (c == '/' && keep_slashes)) {
      out += c;
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

}  // namespace distill
