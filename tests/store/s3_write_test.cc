// What writers of models, checkpoints and leases need, against a real S3 server.
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/store/staged_folder.h"
#include "libdistill/store/store.h"
#include "tests/support/catch.h"
#include "tests/support/s3.h"

namespace distill::testing {
namespace {

std::vector<std::string> NamesBelow(const std::string& folder, const std::string& prefix = "") {
  const auto names = (*StoreOf(folder))->ListAll(folder, prefix);
  REQUIRE(names.ok());
  return *names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("whole files and folders are written and removed in S3 as on a disk") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string folder = server.Bucket() + "/out";
  CHECK(ListEntries(folder).status().code() == absl::StatusCode::kNotFound);
  REQUIRE(MakeFolder(folder) == absl::OkStatus());
  for (const char* name : {"b", "a/x", "a/y/z", "outer"}) {
    REQUIRE(WriteWholeFile(JoinPath(folder, name), name) == absl::OkStatus());
    CHECK(Sync(JoinPath(folder, name)) == absl::OkStatus());
  }
  CHECK(*ListEntries(folder) == Names{"a", "b", "outer"});
  CHECK(NamesBelow(folder) == Names{"a/x", "a/y/z", "b", "outer"});
  CHECK(NamesBelow(folder, "a") == Names{"a/x", "a/y/z"});
  CHECK(Rename(folder + "/b", folder + "/c").code() == absl::StatusCode::kUnimplemented);
  REQUIRE(RemoveFolder(folder + "/a") == absl::OkStatus());
  CHECK(NamesBelow(folder) == Names{"b", "outer"});
  CHECK(RemoveFolder(folder + "/none") == absl::OkStatus());
}

TEST_CASE("a file is written where it is still the one that was read, and not where another one wrote it") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string path = server.Bucket() + "/.lock";
  const std::shared_ptr<Store> store = *StoreOf(path);
  const auto first = store->WriteIf(path, "one", "");
  REQUIRE(first.ok());
  CHECK((*OpenFile(path))->version() == *first);
  CHECK(store->WriteIf(path, "two", "").status().code() == absl::StatusCode::kAborted);
  const auto second = store->WriteIf(path, "three", *first);
  REQUIRE(second.ok());
  CHECK(store->WriteIf(path, "four", *first).status().code() == absl::StatusCode::kAborted);
  CHECK(*ReadFile(path) == "three");
  REQUIRE(store->Remove(path) == absl::OkStatus());
  CHECK(store->WriteIf(path, "five", *second).status().code() == absl::StatusCode::kAborted);
  server.Fault({{"PUT /", "status 501 NotImplemented", 1}});
  CHECK(store->WriteIf(path, "six", "").status().code() == absl::StatusCode::kUnimplemented);
}

TEST_CASE("staged files come into their folder together, with what was named last after the others") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string out = server.Bucket() + "/out";
  std::map<std::string, std::string> seen;
  struct Seen : FileFollower {
    explicit Seen(std::string& text) : text(text) { text.clear(); }
    void Add(absl::string_view bytes) override { absl::StrAppend(&text, bytes); }
    std::string& text;
  };
  const auto follow = [&](const std::string& name) { return std::make_shared<Seen>(seen[name]); };
  const std::string large(size_t{9} << 20, 'w');
  {
    StagedFolder staged(out + "/.model.tmp", out, follow);
    REQUIRE(WriteWholeFile(JoinPath(staged.folder(), "config.json"), "old") == absl::OkStatus());
    REQUIRE(WriteWholeFile(JoinPath(staged.folder(), "config.json"), "new") == absl::OkStatus());
    REQUIRE(WriteWholeFile(JoinPath(staged.folder(), "weights"), large) == absl::OkStatus());
    REQUIRE(WriteWholeFile(JoinPath(out, "metrics"), "not staged") == absl::OkStatus());
    const absl::Status inner = WriteWholeFile(JoinPath(staged.folder(), "a/b"), "x");
    CHECK(inner.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(inner.message(), "files only, no folders"));
    CHECK(NamesBelow(out) == Names{"metrics"});
    server.Fault({});
    REQUIRE(staged.Commit({"config.json"}) == absl::OkStatus());
    const std::vector<std::string> log = server.Log();
    REQUIRE(log.size() == 2);
    CHECK(absl::StrContains(log[0], "POST /" + out.substr(5) + "/weights?uploadId="));
    CHECK(absl::StrContains(log[1], "PUT /" + out.substr(5) + "/config.json"));
  }
  CHECK(NamesBelow(out) == Names{"config.json", "metrics", "weights"});
  CHECK(*ReadFile(out + "/config.json") == "new");
  CHECK(seen == std::map<std::string, std::string>{{"config.json", "new"}, {"weights", large}});
}

TEST_CASE("of staged files that are not committed nothing is left, and the older ones stay") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  SetStoreOptions({.attempts = 2});
  const std::string out = server.Bucket() + "/out", large(size_t{9} << 20, 'w');
  REQUIRE(WriteWholeFile(out + "/weights", "old") == absl::OkStatus());
  {
    const StagedFolder staged(out + "/.model.tmp", out);
    REQUIRE(WriteWholeFile(JoinPath(staged.folder(), "weights"), large) == absl::OkStatus());
  }
  CHECK(NamesBelow(out) == Names{"weights"});
  CHECK(*ReadFile(out + "/weights") == "old");
  StagedFolder staged(out + "/.model.tmp", out);
  server.Fault({{"PUT /", "status 503 SlowDown", 100}});
  REQUIRE(WriteWholeFile(JoinPath(staged.folder(), "config.json"), "new") == absl::OkStatus());
  const absl::Status failed = staged.Commit();
  CHECK(failed.code() == absl::StatusCode::kInternal);  // Unavailable is a lost rank
  CHECK(absl::StrContains(failed.message(), "503 SlowDown"));
  SetStoreOptions({});
}

TEST_CASE("parts that a killed writer has sent are removed") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string out = server.Bucket() + "/out", large(size_t{9} << 20, 'w');
  const std::shared_ptr<Store> store = *StoreOf(out);
  auto killed = CreateFile(out + "/checkpoint-1/weights"), other = CreateFile(out + "/model/weights");
  REQUIRE((*killed)->Append(large) == absl::OkStatus());
  REQUIRE((*other)->Append(large) == absl::OkStatus());
  REQUIRE(store->RemoveUnfinished(out + "/checkpoint-") == absl::OkStatus());
  CHECK_FALSE((*killed)->Commit().ok());
  CHECK((*other)->Commit() == absl::OkStatus());
  CHECK(NamesBelow(out) == Names{"model/weights"});
}

TEST_CASE("weights are written to S3 as they come, and read back by ranges") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  SetStoreOptions({.read_ahead = 3, .range_mib = 1});
  const std::string path = server.Bucket() + "/model.safetensors";
  std::vector<float> values(size_t{3} << 20);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  const std::map<std::string, TensorView> tensors = {
      {"a", {.dtype = DType::kFloat32, .shape = {3, 1 << 20}, .data = values.data(), .size_bytes = bytes}}};
  REQUIRE(WriteSafetensors(path, tensors, {{"format", "pt"}}) == absl::OkStatus());
  const auto file = SafetensorsFile::Open(path);
  REQUIRE(file.ok());
  server.Fault({});
  const auto loaded = file->Load("a");
  REQUIRE(loaded.ok());
  CHECK(std::equal(values.begin(), values.end(), static_cast<const float*>(loaded->data)));
  CHECK(server.Log().size() == 12);  // 12 MiB, by ranges of one
  std::vector<float> small(1000, 0.5f);
  const auto few = static_cast<int64_t>(small.size() * sizeof(float));
  std::map<std::string, TensorView> many;
  for (int i = 0; i < 50; ++i) {
    many[absl::StrCat("t", i)] = {.dtype = DType::kFloat32, .shape = {1000}, .data = small.data(), .size_bytes = few};
  }
  REQUIRE(WriteSafetensors(path + "2", many, {}) == absl::OkStatus());
  server.Fault({});
  const auto second = SafetensorsFile::Open(path + "2");
  REQUIRE(second.ok());
  for (const auto& [name, view] : many) {
    const auto tensor = second->Load(name);
    REQUIRE(tensor.ok());
    CHECK(std::equal(small.begin(), small.end(), static_cast<const float*>(tensor->data)));
  }
  CHECK(server.Log().size() == 2);  // its size, and all of it
  server.Fault({{"GET /", "status 403 AccessDenied", 1}});
  CHECK(file->Load("a").status().code() == absl::StatusCode::kPermissionDenied);
  SetStoreOptions({});
}

TEST_CASE("the folder and the name of paths of any store") {
  CHECK(ParentFolder("s3://bucket/out/checkpoint-5/") == "s3://bucket/out");
  CHECK(ParentFolder("s3://bucket/out") == "s3://bucket");
  CHECK(ParentFolder("/a/b") == "/a");
  CHECK(ParentFolder("/a") == "/");
  CHECK(ParentFolder("a") == "");
  CHECK(LastName("s3://bucket/out/checkpoint-5//") == "checkpoint-5");
  CHECK(LastName("a") == "a");
  CHECK(CanonicalPath("s3://bucket/out/") == "s3://bucket/out");
  CHECK(LiesIn("s3://bucket/out/", "s3://bucket/out/model"));
  CHECK_FALSE(LiesIn("s3://bucket/out", "s3://bucket/outer"));
}

}  // namespace distill::testing
