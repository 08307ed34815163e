// Answers questions over HTTP, as SageMaker's Hugging Face endpoints do: GET /ping, POST /invocations.
//
//   build/bin/squad_serve --model_name_or_path runs/squad --port 8080
//   curl -d '{"inputs": {"question": "Where does Ada live?", "context": "Ada lives in Rome."}}'
//     http://127.0.0.1:8080/invocations
#include <atomic>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "examples/squad/answer.h"
#include "examples/squad/answer_queue.h"
#include "examples/squad/invocation.h"
#include "examples/squad/json_server.h"
#include "libdistill/config/command_line.h"
#include "libdistill/core/description.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hub_path.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

struct ServeOptions {
  std::string model_name_or_path;
  std::string model_revision;
  std::string host = "127.0.0.1";
  int64_t port = 8080;
  ServerLimits limits;
  AnswerOptions answers;
};

template <class V>
void Describe(V& v, ServeOptions& o) {
  constexpr FieldLimits kCount = Within(1, 4096);
  v.Group("Server");
  v.Field("model_name_or_path", o.model_name_or_path, "model folder, may be s3://, or a model of the hub (org/name)")
      .PathOfAnyStore()
      .Alias("model");
  v.Field("model_revision", o.model_revision, "of a model of the hub: a branch, a tag or a commit; empty: main");
  v.Field("host", o.host, "address to listen at; 0.0.0.0: all of this machine's, as SageMaker needs it");
  v.Field("port", o.port, Within(0, 65535), "0: any that is free; the first line of output tells it");
  v.Field("threads", o.limits.threads, kCount, "connections that are served at one time");
  v.Field("queue_size", o.limits.queue_size, Within(0, 1 << 16), "connections that wait; others are refused with 503");
  v.Field("max_body_bytes", o.limits.max_body_bytes, Within(1, 1 << 30), "of one request");
  v.Field("request_timeout_seconds", o.limits.request_timeout, Above(0), "from a request's first byte to its answer");
  v.Field("idle_timeout_seconds", o.limits.idle_timeout, Above(0), "between the requests of one connection");
  Describe(v, o.answers);
}

constexpr ProgramText kProgram = {"squad_serve", "Answers questions about texts over HTTP, as a SageMaker endpoint."};

sigset_t EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  return signals;
}

absl::Status Serve(const ServeOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(
      const std::string folder,
      LocalPath(options.model_name_or_path, {HubKind::kModel, {HubContents::kModel}, options.model_revision}));
  DISTILL_ASSIGN_OR_RETURN(const auto answerer, SpanAnswerer::Load(folder, options.answers, c10::kCPU));
  AnswerQueue queue([&](const std::string& question, const std::string& context, absl::Time deadline) {
    return answerer->Answer(question, context, deadline);
  });
  JsonServer server(options.limits, [&](const std::string& body, absl::Time deadline) {
    absl::StatusOr<AskedQuestion> asked = ParseInvocation(body);
    if (!asked.ok()) return ReplyWith(asked.status());
    return ReplyWith(queue.Answer(std::move(asked->question), std::move(asked->context), deadline));
  });
  DISTILL_ASSIGN_OR_RETURN(const int port, server.Bind(options.host, static_cast<int>(options.port)));
  std::printf("listening at http://%s:%d\n", options.host.c_str(), port);
  std::fflush(stdout);
  // Signals are blocked in all threads, so they wait for this one.
  std::atomic<bool> ended = false;
  std::thread ender([&] {
    const sigset_t signals = EndingSignals();
    const timespec slice = {.tv_sec = 0, .tv_nsec = 100'000'000};
    while (!ended && sigtimedwait(&signals, nullptr, &slice) < 0) continue;
    if (!ended) LogInfo("a signal ends the server: what was accepted is answered first");
    server.Stop();
  });
  const absl::Status served = server.Serve();
  ended = true;
  ender.join();
  return served;
}

absl::Status Main(int argc, char** argv) {
  ServeOptions options;
  const Description settings = DescriptionOf(options), flags;
  DISTILL_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(argc, argv, kProgram, settings, flags));
  if (!line.message.empty()) {
    std::fputs(line.message.c_str(), stdout);
    return absl::OkStatus();
  }
  DISTILL_RETURN_IF_ERROR(settings.Check());
  if (options.model_name_or_path.empty()) {
    return absl::InvalidArgumentError("model_name_or_path is missing: give the folder of a trained model");
  }
  return CatchTorch([&] { return Serve(options); });
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  const sigset_t signals = distill::EndingSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const absl::Status status = distill::Main(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? 2 : 1;
}
