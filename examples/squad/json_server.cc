#include "examples/squad/json_server.h"

#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "examples/squad/deadline_stream.h"

namespace distill {
namespace {

constexpr char kJson[] = "application/json";
constexpr int kBacklog = 512;  // connections that the kernel keeps until they are accepted
constexpr int64_t kRequestsOfConnection = 1000;

// What this thread works on.
struct Connection {
  bool is_rejected = false;  // it is the accepting thread, and there is no room
  bool is_to_close = false;  // what the client sends further is no request
  absl::Time deadline = absl::InfiniteFuture();
  const DeadlineStream* stream = nullptr;
};
thread_local Connection t_connection;

void Set(const JsonReply& reply, httplib::Response& response) {
  response.status = reply.status;
  response.set_content(reply.body, kJson);
  if (reply.status >= 400) t_connection.is_to_close = true;
}

const char* MessageFor(int status) {
  switch (status) {
    case 400:
      return "this is no HTTP request";
    case 404:
      return "there are /ping and /invocations";
    case 413:
      return "the body is too large";
    case 414:
      return "the path is too long";
    case 431:
      return "the headers are too long";
    default:
      return "the request cannot be answered";
  }
}

// Connections wait here for a thread. Beyond `queue_size` they are refused by the thread that accepts them.
class BoundedQueue : public httplib::TaskQueue {
 public:
  explicit BoundedQueue(const ServerLimits& limits) : queue_size_(static_cast<size_t>(limits.queue_size)) {
    for (int64_t i = 0; i < limits.threads; ++i) threads_.emplace_back([this] { Work(); });
  }
  void enqueue(std::function<void()> serve) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (waiting_.size() < queue_size_ + idle_) {
        waiting_.push_back(std::move(serve));
        changed_.notify_one();
        return;
      }
    }
    t_connection.is_rejected = true;
    serve();
    t_connection.is_rejected = false;
  }
  void shutdown() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Work() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      ++idle_;
      changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      --idle_;
      if (waiting_.empty()) return;
      const std::function<void()> serve = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      serve();
    }
  }

  const size_t queue_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  size_t idle_ = 0;  // threads
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

// Without waiting for the client.
void Reject(int socket) {
  const JsonReply reply = ErrorReply(503, "too many requests at one time: try again later");
  const std::string answer =
      absl::StrCat("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n",
                   "Content-Type: ", kJson, "\r\nContent-Length: ", reply.body.size(), "\r\n\r\n", reply.body);
  char dropped[4096];
  (void)!recv(socket, dropped, sizeof(dropped), MSG_DONTWAIT);  // what is unread when it closes would undo the answer
  (void)!send(socket, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(socket, SHUT_RDWR);
  close(socket);
}

}  // namespace

class JsonServer::Impl : public httplib::Server {
 public:
  Impl(const ServerLimits& limits, Answer answer) : limits_(limits), answer_(std::move(answer)) {
    new_task_queue = [this] { return new BoundedQueue(limits_); };
    // One server a port: the library's own options would let a second one in.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    set_tcp_nodelay(true);
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      const JsonReply refusal = Refusal(request);
      if (refusal.body.empty()) return HandlerResponse::Unhandled;
      if (refusal.status == 405) response.set_header("Allow", request.path == "/ping" ? "GET" : "POST");
      Set(refusal, response);
      return HandlerResponse::Handled;
    });
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) Set(ErrorReply(response.status, MessageFor(response.status)), response);
    });
    set_exception_handler([](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
      Set(ErrorReply(500, "the request failed within the server"), response);
    });
    Get("/ping", [](const httplib::Request&, httplib::Response& response) { Set({200, "{}"}, response); });
    Post("/invocations", [this](const httplib::Request&, httplib::Response& response,
                                const httplib::ContentReader& content) { Set(ReadAndAnswer(content), response); });
  }

  absl::StatusOr<int> Bind(const std::string& host, int port) {
    const int bound = port == 0 ? bind_to_any_port(host) : bind_to_port(host, port) ? port : -1;
    if (bound > 0 && ::listen(svr_sock_, kBacklog) == 0) return bound;
    return absl::UnavailableError(absl::StrCat("cannot listen at ", host, ":", port,
                                               ": another program does, or the address is not this machine's; choose "
                                               "another port or host"));
  }

  absl::Status Serve() {
    const bool ended_well = stops_ || listen_after_bind();
    ended_ = true;
    return ended_well || stops_ ? absl::OkStatus() : absl::UnavailableError("no more connections can be accepted");
  }

  void Stop() {
    stops_ = true;
    while (!ended_) {
      if (is_running()) stop();  // before, Serve may be about to listen
      absl::SleepFor(absl::Milliseconds(10));
    }
  }

 private:
  // Before a body is read; a body: why it is not.
  JsonReply Refusal(const httplib::Request& request) const {
    const bool pings = request.path == "/ping";
    if (!pings && request.path != "/invocations") return ErrorReply(404, MessageFor(404));
    const bool is_right = pings ? request.method == "GET" || request.method == "HEAD" : request.method == "POST";
    if (!is_right) {
      return ErrorReply(405, absl::StrCat(request.path, " is for ", pings ? "GET" : "POST", ", not ", request.method));
    }
    if (pings) return {};
    const std::string length = request.get_header_value("Content-Length");
    uint64_t bytes = 0;
    if (length.empty() && !absl::EqualsIgnoreCase(request.get_header_value("Transfer-Encoding"), "chunked")) {
      return ErrorReply(411, "Content-Length is missing");
    }
    if (!length.empty() && !absl::SimpleAtoi(length, &bytes)) return ErrorReply(400, "Content-Length is no number");
    if (bytes > static_cast<uint64_t>(limits_.max_body_bytes)) return TooLarge();
    if (request.is_multipart_form_data()) return ErrorReply(415, "the body must be JSON, not a form");
    return {};
  }

  JsonReply TooLarge() const {
    return ErrorReply(413, absl::StrCat("the body has more than ", limits_.max_body_bytes, " bytes"));
  }

  // The body may grow when it is unpacked, so what is kept counts.
  JsonReply ReadAndAnswer(const httplib::ContentReader& content) const {
    std::string body;
    bool is_too_large = false;
    const bool is_whole = content([&](const char* bytes, size_t size) {
      is_too_large = body.size() + size > static_cast<size_t>(limits_.max_body_bytes);
      if (!is_too_large) body.append(bytes, size);
      return !is_too_large;
    });
    if (is_too_large) return TooLarge();
    if (is_whole) return answer_(body, t_connection.deadline);
    const bool is_late = t_connection.stream != nullptr && t_connection.stream->is_late();
    return is_late ? ErrorReply(408, "the body did not come in time") : ErrorReply(400, "the body cannot be read");
  }

  bool process_and_close_socket(socket_t socket) override {
    if (t_connection.is_rejected) {
      Reject(socket);
      return false;
    }
    DeadlineStream stream(socket);
    t_connection.stream = &stream;
    bool is_ok = true;
    for (int64_t left = kRequestsOfConnection; left > 0; --left) {
      if (!stream.AwaitRequest(limits_.idle_timeout, stops_)) break;
      t_connection.is_to_close = false;
      t_connection.deadline = absl::Now() + limits_.request_timeout;
      stream.SetDeadline(t_connection.deadline);
      bool is_closed = false;
      is_ok = process_request(stream, left == 1 || stops_, is_closed, nullptr);
      if (!is_ok || is_closed || t_connection.is_to_close) break;
    }
    t_connection.stream = nullptr;
    CloseGently(socket);
    return is_ok;
  }

  const ServerLimits limits_;
  const Answer answer_;
  std::atomic<bool> stops_ = false, ended_ = false;
};

JsonReply ErrorReply(int status, const std::string& message) {
  const nlohmann::ordered_json body = {{"code", status}, {"message", message}};
  return {status, body.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace)};
}

JsonServer::JsonServer(const ServerLimits& limits, Answer answer)
    : impl_(std::make_unique<Impl>(limits, std::move(answer))) {}
JsonServer::~JsonServer() = default;
absl::StatusOr<int> JsonServer::Bind(const std::string& host, int port) { return impl_->Bind(host, port); }
absl::Status JsonServer::Serve() { return impl_->Serve(); }
void JsonServer::Stop() { impl_->Stop(); }

}  // namespace distill
