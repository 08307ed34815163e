// Checkpoints in a real S3 server, through a proxy that fails.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/final_save.h"
#include "libdistill/checkpoint/space.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "tests/checkpoint/saved.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/s3.h"
#include "tests/support/temp_folder.h"

namespace distill::testing {
namespace {

using Names = std::vector<std::string>;

Names NamesBelow(const std::string& folder) { return *(*StoreOf(folder))->ListAll(folder, ""); }

const Names kFiles = {"config.json", "manifest.pb", "optimizer.safetensors", "trainer_state.pb"};

// As Save of saved.h, whose model file is any store's.
absl::Status SaveRemote(const std::string& output_dir, int64_t step, float value = 1,
                        const std::function<void()>& before_commit = nullptr) {
  DISTILL_ASSIGN_OR_RETURN(CheckpointDraft draft, CheckpointDraft::Begin(output_dir, step));
  const auto fill = [&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(WriteWholeFile(JoinPath(draft.folder(), "config.json"), "{}"));
    DISTILL_RETURN_IF_ERROR(draft.WriteTensors({{"a", {.dtype = DType::kFloat32, .shape = {1}, .size_bytes = 4}}},
                                               [&](const std::string&, ByteSink sink) {
                                                 return sink({reinterpret_cast<const char*>(&value), 4});
                                               }));
    if (before_commit != nullptr) before_commit();
    return draft.Commit(StateOf(step));
  };
  const absl::Status saved = fill();
  if (!saved.ok()) draft.Discard();
  return saved;
}

float ValueIn(const absl::StatusOr<Checkpoint>& checkpoint) {
  INFO(checkpoint.status());
  REQUIRE(checkpoint.ok());
  return *static_cast<const float*>(checkpoint->tensors->Load("a")->data);
}

// In a process that kills itself when its next request is the given one.
void SaveAndDieAt(const std::string& output_dir, int64_t step, int requests) {
  const pid_t pid = fork();
  if (pid == 0) {
    // A fresh process: no connection of the parent's is used.
    SetStoreOptions({});
    CountersOfStores().requests = 0;
    std::thread([&] {
      while (CountersOfStores().requests < requests) absl::SleepFor(absl::Microseconds(50));
      kill(getpid(), SIGKILL);
    }).detach();
    const absl::Status saved = SaveRemote(output_dir, step, 2);
    _exit(saved.ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK((WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0)));
}

}  // namespace

TEST_CASE("a checkpoint in S3 is written without reading it back, and read with every checksum compared") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string out = server.Bucket() + "/out";
  CHECK(ReadNewestCheckpoint(out).status().code() == absl::StatusCode::kNotFound);
  REQUIRE(SaveRemote(out, 5, 5) == absl::OkStatus());
  for (const std::string& line : server.Log()) {
    CHECK_FALSE((absl::StartsWith(line, "GET") && absl::StrContains(line, "optimizer.safetensors")));
  }
  REQUIRE(SaveRemote(out, 10, 10) == absl::OkStatus());
  CHECK(NamesBelow(out + "/checkpoint-10") == kFiles);
  CHECK(*FindNewestCheckpoint(out) == out + "/checkpoint-10");
  CHECK(ValueIn(ReadNewestCheckpoint(out)) == 10);
  CHECK(ValueIn(ReadCheckpoint(out + "/checkpoint-5/")) == 5);
  CHECK(ReadNewestCheckpoint(out)->state.step == 10);

  std::string bytes = *ReadFile(out + "/checkpoint-10/optimizer.safetensors");
  bytes.back() ^= 1;
  REQUIRE(WriteWholeFile(out + "/checkpoint-10/optimizer.safetensors", bytes) == absl::OkStatus());
  const absl::Status damaged = ReadCheckpoint(out + "/checkpoint-10").status();
  CHECK(damaged.code() == absl::StatusCode::kDataLoss);
  CHECK(absl::StrContains(damaged.message(), out + "/checkpoint-10/optimizer.safetensors is damaged"));
  const CapturedStderr said;
  CHECK(ValueIn(ReadNewestCheckpoint(out)) == 5);
  CHECK(absl::StrContains(said.Text(), "passing over a newer checkpoint"));
}

TEST_CASE("old checkpoints go, the best one stays, and other programs' folders are left alone") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string out = server.Bucket() + "/out";
  for (const int step : {1, 2, 3, 4}) REQUIRE(SaveRemote(out, step) == absl::OkStatus());
  REQUIRE(WriteWholeFile(out + "/checkpoint-9/trainer_state.json", "{}") == absl::OkStatus());
  RemoveOldCheckpoints(out, 2, 4, out + "/checkpoint-1");
  CHECK(*ListEntries(out) == Names{"checkpoint-1", "checkpoint-4", "checkpoint-9"});
  const absl::Status refused = CheckRemovable(out);
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(absl::StrContains(refused.message(), "checkpoint-9 is no checkpoint of this library"));
  REQUIRE(RemoveFolder(out + "/checkpoint-9") == absl::OkStatus());
  REQUIRE(RemoveCheckpoints(out, out + "/checkpoint-4/") == absl::OkStatus());
  CHECK(*ListEntries(out) == Names{"checkpoint-4"});
}

TEST_CASE("a checkpoint that is saved again can be read until the new one takes its place") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string out = server.Bucket() + "/out", folder = out + "/checkpoint-3";
  REQUIRE(SaveRemote(out, 3, 1) == absl::OkStatus());
  for (int save = 2; save <= 3; ++save) {
    const auto reads_old = [&] { CHECK(ValueIn(ReadCheckpoint(folder)) == static_cast<float>(save - 1)); };
    REQUIRE(SaveRemote(out, 3, static_cast<float>(save), reads_old) == absl::OkStatus());
    CHECK(ValueIn(ReadNewestCheckpoint(out)) == static_cast<float>(save));
    CHECK(NamesBelow(folder).size() == 4);  // the older files went
  }
  SetStoreOptions({.attempts = 2});
  const absl::Status failed = SaveRemote(out, 3, 9, [&] {
    server.Fault({{"/manifest.pb", "status 503 SlowDown", 2}});
  });
  CHECK(failed.code() == absl::StatusCode::kInternal);
  CHECK(ValueIn(ReadCheckpoint(folder)) == 3);
  CHECK(NamesBelow(folder).size() == 4);
  SetStoreOptions({});
}

TEST_CASE("a save that is killed at any request leaves the older checkpoints, and nothing after the next save") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  for (const bool saves_again : {false, true}) {
    const std::string out = server.Bucket() + "/out";
    const int64_t step = saves_again ? 1 : 2;
    for (int requests = 1; requests < 24; requests += 2) {
      INFO(requests);
      REQUIRE(SaveRemote(out, 1, 1) == absl::OkStatus());
      SaveAndDieAt(out, step, requests);
      const float value = ValueIn(ReadNewestCheckpoint(out));
      CHECK((value == 1 || value == 2));
      if (!saves_again) CHECK(ValueIn(ReadCheckpoint(out + "/checkpoint-1")) == 1);
      REQUIRE(SaveRemote(out, 3, 3) == absl::OkStatus());
      CHECK(ValueIn(ReadNewestCheckpoint(out)) == 3);
      const Names left = *ListEntries(out);
      for (const std::string& name : left) CHECK(NamesBelow(JoinPath(out, name)).size() == 4);
      REQUIRE(RemoveCheckpoints(out, "") == absl::OkStatus());
      CHECK(NamesBelow(out).empty());
    }
  }
}

TEST_CASE("a storm of 503 in a save is survived, and one that does not end leaves the older checkpoint") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string out = server.Bucket() + "/out";
  REQUIRE(SaveRemote(out, 1, 1) == absl::OkStatus());
  server.Fault({{"PUT /", "status 503 SlowDown", 5}, {"GET /", "status 500 InternalError", 2}});
  REQUIRE(SaveRemote(out, 2, 2) == absl::OkStatus());
  CHECK(ValueIn(ReadNewestCheckpoint(out)) == 2);
  SetStoreOptions({.attempts = 2});
  const absl::Status failed = SaveRemote(out, 3, 3, [&] { server.Fault({{"PUT /", "status 503 SlowDown", 1000}}); });
  CHECK(failed.code() == absl::StatusCode::kInternal);  // Unavailable is a lost rank
  CHECK(IsOfDisk(failed));
  CHECK(absl::StrContains(failed.message(), out + "/checkpoint-3/"));
  server.Fault({});
  CHECK(ValueIn(ReadNewestCheckpoint(out)) == 2);
  CHECK(*FindNewestCheckpoint(out) == out + "/checkpoint-2");
  server.Fault({{"GET /", "status 503 SlowDown", 1000}});
  CHECK(ReadNewestCheckpoint(out).status().code() == absl::StatusCode::kUnavailable);  // and no older one is taken
  server.Fault({});
  SetStoreOptions({});
}

TEST_CASE("a model is published with config.json last; where S3 refuses it, it goes to the fallback") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string out = server.Bucket() + "/out";
  const auto write = [](const std::string& folder) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(WriteWholeFile(JoinPath(folder, "config.json"), "{}"));
    return WriteWholeFile(JoinPath(folder, "model.safetensors"), "weights");
  };
  server.Fault({});
  REQUIRE(PublishFiles(out, write) == absl::OkStatus());
  const std::vector<std::string> log = server.Log();
  const auto last_put =
      std::find_if(log.rbegin(), log.rend(), [](const auto& line) { return absl::StrContains(line, "PUT /"); });
  REQUIRE(last_put != log.rend());
  CHECK(absl::StrContains(*last_put, "PUT /" + out.substr(5) + "/config.json"));
  CHECK(*ListEntries(out) == Names{"config.json", "model.safetensors"});
  REQUIRE(WriteWholeFile(out + "/adapter_config.json", "{}") == absl::OkStatus());
  REQUIRE(PublishFiles(out, write) == absl::OkStatus());
  CHECK(*ListEntries(out) == Names{"config.json", "model.safetensors"});  // adapters of another model are gone
  const absl::Status empty = PublishFiles(out, [](const std::string&) { return absl::OkStatus(); });
  CHECK(absl::StrContains(empty.message(), "nothing was written for " + out));
  server.Fault({{"PUT /", "status 403 AccessDenied", 100}});
  const TempFolder folder;
  setenv("DISTILL_FALLBACK_DIR", folder.path().c_str(), 1);
  const CapturedStderr said;
  CHECK(PublishWithRetries(out, absl::ZeroDuration(), write, [] { return false; }) == absl::OkStatus());
  unsetenv("DISTILL_FALLBACK_DIR");
  CHECK(*ReadFile(absl::StrCat(folder.path(), "/out-", getpid(), "/model.safetensors")) == "weights");
  CHECK(absl::StrContains(said.Text(), "s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload"));
  CHECK(CheckSpace(out, {.model_bytes = int64_t{1} << 60}) == absl::OkStatus());
}

TEST_CASE("files by which an older model in S3 is found, and its weights, go before any file of the new one comes") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string out = server.Bucket() + "/out", place = out.substr(5);
  const auto write = [](const std::string& folder) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(WriteWholeFile(JoinPath(folder, "config.json"), "{}"));
    return WriteWholeFile(JoinPath(folder, "model-00001-of-00001.safetensors"), "weights");
  };
  {
    const CapturedStderr said;
    REQUIRE(PublishFiles(out, write) == absl::OkStatus());
    CHECK_FALSE(absl::StrContains(said.Text(), "weights of another model"));  // there is no folder yet
  }
  for (const char* name : {"adapter_config.json", "model.safetensors"}) {
    REQUIRE(WriteWholeFile(JoinPath(out, name), "old") == absl::OkStatus());
  }
  server.Fault({});
  REQUIRE(PublishFiles(out, write) == absl::OkStatus());
  const std::vector<std::string> log = server.Log();
  const auto at = [&](const std::string& request) {
    const auto found =
        std::find_if(log.begin(), log.end(), [&](const auto& line) { return absl::StrContains(line, request); });
    INFO(request);
    REQUIRE(found != log.end());
    return found - log.begin();
  };
  const auto first_put = at("PUT /" + place + "/");
  for (const char* name : {"config.json", "adapter_config.json", "model.safetensors"}) {
    CHECK(at("DELETE /" + place + "/" + name) < first_put);
  }
  CHECK(first_put < at("PUT /" + place + "/config.json"));
  CHECK(*ListEntries(out) == Names{"config.json", "model-00001-of-00001.safetensors"});
}

}  // namespace distill::testing
