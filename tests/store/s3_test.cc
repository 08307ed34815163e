// Against a real S3 server, which checks signatures, through a proxy that disturbs.
#include "tests/support/s3.h"

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "libdistill/store/aws_credentials.h"
#include "libdistill/store/byte_stream.h"
#include "libdistill/store/files.h"
#include "libdistill/store/line_index.h"
#include "libdistill/store/store.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill::testing {
namespace {

// No byte is as its neighbours, and no megabyte as another.
std::string Bytes(size_t size, uint64_t seed = 1) {
  std::string bytes(size, '\0');
  uint64_t state = seed;
  for (char& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(state >> 56);
  }
  return bytes;
}

absl::Status Write(const std::string& path, absl::string_view bytes) {
  absl::StatusOr<std::unique_ptr<FileWriter>> file = CreateFile(path);
  if (!file.ok()) return file.status();
  const absl::Status written = (*file)->Append(bytes);
  return written.ok() ? (*file)->Commit() : written;
}

std::string ReadStream(const std::string& path) {
  auto stream = StreamFile(*OpenFile(path));
  REQUIRE(stream.ok());
  std::string all, buffer(100'003, '\0');
  for (;;) {
    const absl::StatusOr<size_t> size = (*stream)->Read(absl::MakeSpan(buffer));
    REQUIRE(size.ok());
    if (*size == 0) return all;
    all.append(buffer, 0, *size);
    REQUIRE((*stream)->bytes_read() == static_cast<int64_t>(all.size()));
  }
}

// Of an error, whose text is shown where it is another one.
void CheckError(const absl::Status& status, absl::StatusCode code, const std::vector<std::string>& parts) {
  INFO(status);
  CHECK(status.code() == code);
  for (const std::string& part : parts) {
    INFO(part);
    CHECK(absl::StrContains(status.message(), part));
  }
}

TEST_CASE("what is written is read, whatever its size and its key") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string bucket = server.Bucket();
  for (const std::string key : {"a", "folder/b c+d", "f%20/ü/#?&=.jsonl", "x/'(y)*!~", "a/../b", "./c/.", "d//e"}) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}}) {
      const std::string path = absl::StrCat(bucket, "/", key, size), bytes = Bytes(size);
      INFO(path);
      REQUIRE(Write(path, bytes) == absl::OkStatus());
      CHECK(*ReadFile(path) == bytes);
      CHECK(FileExists(path));
      CHECK(!FolderExists(path));
    }
  }
}

TEST_CASE("lines of an object are found as those of a file, by several threads") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string path = server.Bucket() + "/rows.jsonl";
  std::string text;
  for (int i = 0; i < 30'000; ++i) absl::StrAppend(&text, "{\"n\": ", i, "}\n", i % 7 == 0 ? "\n" : "");
  REQUIRE(Write(path, text) == absl::OkStatus());
  const auto file = *OpenFile(path);
  const auto lines = LineIndex::Open(*file, {.threads = 3, .part_bytes = 50'000});
  REQUIRE(lines.ok());
  REQUIRE((*lines)->size() == 30'000);
  for (const int64_t row : {29'999, 0, 17'000}) {
    const LineIndex::Line line = (*lines)->line(row);
    std::string bytes(static_cast<size_t>(line.bytes), '\0');
    REQUIRE(file->ReadAt(line.offset, absl::MakeSpan(bytes)) == absl::OkStatus());
    CHECK(absl::StartsWith(bytes, absl::StrCat("{\"n\": ", row, "}\n")));
    CHECK(line.number == row + 1 + (row + 6) / 7);
  }
}

TEST_CASE("a large object is written in parts and read by ranges") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  SetStoreOptions({.read_ahead = 3, .range_mib = 1});
  const std::string path = server.Bucket() + "/large", bytes = Bytes(21 << 20);
  REQUIRE(Write(path, bytes) == absl::OkStatus());
  const auto file = *OpenFile(path);
  REQUIRE(file->size() == static_cast<int64_t>(bytes.size()));
  for (const auto& [offset, size] :
       {std::pair<int64_t, size_t>{0, 7}, {(8 << 20) - 3, 100}, {(21 << 20) - 1, 1}, {5, 0}}) {
    std::string part(size, '\0');
    REQUIRE(file->ReadAt(offset, absl::MakeSpan(part)) == absl::OkStatus());
    CHECK(part == bytes.substr(offset, size));
  }
  std::string part(2, '\0');
  CHECK(absl::IsOutOfRange(file->ReadAt((21 << 20) - 1, absl::MakeSpan(part))));
  const int64_t read = CountersOfStores().bytes_read, requests = CountersOfStores().requests;
  CHECK(ReadStream(path) == bytes);
  CHECK(CountersOfStores().bytes_read - read == static_cast<int64_t>(bytes.size()));
  CHECK(CountersOfStores().requests - requests == 1 + 21);  // how large it is, and a range a megabyte
  SetStoreOptions({});
}

TEST_CASE("an object that is not committed does not appear, and one that is replaces the old at once") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string path = server.Bucket() + "/object";
  {
    auto file = *CreateFile(path);
    REQUIRE(file->Append(Bytes(20 << 20)) == absl::OkStatus());
  }
  CHECK(absl::IsNotFound(OpenFile(path).status()));
  const std::vector<std::string> log = server.Log();
  CHECK(absl::StartsWith(log[log.size() - 2], "DELETE "));  // the upload's parts are not left to be paid for
  REQUIRE(Write(path, "old") == absl::OkStatus());
  auto file = *CreateFile(path);
  REQUIRE(file->Append("new") == absl::OkStatus());
  CHECK(*ReadFile(path) == "old");
  REQUIRE(file->Commit() == absl::OkStatus());
  CHECK(*ReadFile(path) == "new");
}

TEST_CASE("folders are what keys begin with") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string bucket = server.Bucket();
  for (const char* key : {"data/b.jsonl", "data/a.jsonl", "data/more/c.jsonl", "database/d.jsonl", "data/"}) {
    REQUIRE((*StoreOf(bucket))->Create(bucket + "/" + key).value()->Commit() == absl::OkStatus());
  }
  CHECK(*ListFiles(bucket + "/data", "", ".jsonl") == std::vector<std::string>{"a.jsonl", "b.jsonl"});
  CHECK(*ListFiles(bucket + "/data/", "b", "") == std::vector<std::string>{"b.jsonl"});
  const auto store = *StoreOf(bucket);
  CHECK(store->List(bucket + "/data")->back().name == "more");
  CHECK(store->List(bucket + "/data")->back().is_folder);
  CHECK(*store->KindOf(bucket + "/data") == PathKind::kFolder);
  CHECK(*store->KindOf(bucket + "/dat") == PathKind::kNothing);
  CHECK(*store->KindOf(bucket) == PathKind::kFolder);
  CHECK(*store->KindOf(bucket + "/data/a.jsonl") == PathKind::kFile);
  CheckError(ListFiles(bucket + "/nothing", "", "").status(), absl::StatusCode::kNotFound,
             {"/nothing", "no object's key"});
  REQUIRE(store->Remove(bucket + "/data/a.jsonl") == absl::OkStatus());
  REQUIRE(store->Remove(bucket + "/data/a.jsonl") == absl::OkStatus());
  CHECK(!FileExists(bucket + "/data/a.jsonl"));
}

TEST_CASE("a listing of more than a page is whole") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string bucket = server.Bucket();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < 1205; i += 8) CHECK(Write(absl::StrCat(bucket, "/f/", i), "x") == absl::OkStatus());
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(ListFiles(bucket + "/f", "", "")->size() == 1205);
}

TEST_CASE("503 is tried again with pauses until the data are there, and given up at last") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  SetStoreOptions({.attempts = 4});
  const std::string path = server.Bucket() + "/a", bytes = Bytes(300'000);
  REQUIRE(Write(path, bytes) == absl::OkStatus());
  const int64_t retries = CountersOfStores().retries;
  server.Fault({{"HEAD /", "status 503 SlowDown", 1}, {"GET /", "status 500 InternalError", 3}});
  CHECK(*ReadFile(path) == bytes);
  CHECK(CountersOfStores().retries == retries + 4);
  server.Fault({{"GET /", "status 503 SlowDown", 100}});
  CheckError(ReadFile(path).status(), absl::StatusCode::kUnavailable,
             {"cannot read " + path, "503 SlowDown", "given up after 4 attempts"});
  server.Fault({{"PUT /", "status 503 SlowDown", 2}});
  CHECK(Write(path, "b") == absl::OkStatus());
  SetStoreOptions({});
}

TEST_CASE("what is refused is not tried again, and the message says what to do") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string bucket = server.Bucket(), path = bucket + "/a", name = bucket.substr(5);
  REQUIRE(Write(path, "x") == absl::OkStatus());
  const int64_t retries = CountersOfStores().retries;
  server.Set("AWS_SECRET_ACCESS_KEY", "wrong");
  CheckError(ReadFile(path).status(), absl::StatusCode::kPermissionDenied,
             {path, "403 SignatureDoesNotMatch", "check AWS_SECRET_ACCESS_KEY"});
  server.Set("AWS_SECRET_ACCESS_KEY", "distill-test-secret");
  server.Set("AWS_ACCESS_KEY_ID", "NOBODY");
  CheckError(ReadFile(path).status(), absl::StatusCode::kPermissionDenied,
             {"InvalidAccessKeyId", "check AWS_ACCESS_KEY_ID"});
  server.Set("AWS_ACCESS_KEY_ID", "");
  CheckError(ReadFile(path).status(), absl::StatusCode::kPermissionDenied,
             {"there are no AWS credentials", "AWS_NO_SIGN_REQUEST"});
  server.Set("AWS_NO_SIGN_REQUEST", "1");
  CheckError(
      ReadFile(path).status(), absl::StatusCode::kPermissionDenied,
      {path, "403 AccessDenied",
       absl::StrCat("Allow s3:GetObject, s3:ListBucket on arn:aws:s3:::", name, " and arn:aws:s3:::", name, "/*")});
  server.Set("AWS_NO_SIGN_REQUEST", "");
  server.Set("AWS_ACCESS_KEY_ID", "DISTILLTEST");
  server.Fault({{"GET /", "status 403 RequestTimeTooSkewed", 1}, {"HEAD /", "status 403 RequestTimeTooSkewed", 1}});
  CheckError(ReadFile(path).status(), absl::StatusCode::kPermissionDenied,
             {"RequestTimeTooSkewed", "set this machine's clock", "Thu, 01 Jan 2099"});
  server.Fault({{"/", "status 403 ExpiredToken", 100}});
  CheckError(ReadFile(path).status(), absl::StatusCode::kPermissionDenied, {"ExpiredToken", "has expired"});
  CheckError(ReadFile("s3://no-such-bucket-here/a").status(), absl::StatusCode::kPermissionDenied, {"ExpiredToken"});
  CheckError(ListFiles(bucket + "/more", "", "").status(), absl::StatusCode::kPermissionDenied, {bucket + "/more"});
  server.Fault({});
  CheckError(ReadFile(bucket + "/b").status(), absl::StatusCode::kNotFound, {bucket + "/b", "no such object"});
  CheckError(ListFiles("s3://no-such-bucket-here/a", "", "").status(), absl::StatusCode::kNotFound,
             {"there is no bucket 'no-such-bucket-here'"});
  CHECK(CountersOfStores().retries == retries);
}

TEST_CASE("credentials that expired are fetched again, once") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string path = server.Bucket() + "/a";
  REQUIRE(Write(path, "x") == absl::OkStatus());
  server.Fault({{"HEAD /", "status 400 ExpiredToken", 1}, {"GET /", "status 400 ExpiredToken", 1}});
  CHECK(*ReadFile(path) == "x");
}

TEST_CASE("short bodies, errors inside a 200 and answers of another range are never taken for data") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string path = server.Bucket() + "/a", bytes = Bytes(300'000);
  REQUIRE(Write(path, bytes) == absl::OkStatus());
  for (const char* fault : {"short", "error_in_200", "other_range"}) {
    INFO(fault);
    const int64_t retries = CountersOfStores().retries;
    server.Fault({{"GET /", fault, 2}});
    CHECK(*ReadFile(path) == bytes);
    CHECK(CountersOfStores().retries == retries + 2);
  }
  server.Fault({{"uploadId=", "error_in_200", 2}, {"POST /", "error_in_200", 1}});
  CHECK(Write(path, Bytes(9 << 20)) == absl::OkStatus());
}

TEST_CASE("an answer that stalls is cut, counted and asked for again") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  SetStoreOptions({.stall_seconds = 1});
  const std::string path = server.Bucket() + "/a", bytes = Bytes(300'000);
  REQUIRE(Write(path, bytes) == absl::OkStatus());
  const int64_t stalls = CountersOfStores().stalls;
  server.Fault({{"GET /", "stall", 1}});
  const absl::Time start = absl::Now();
  CHECK(*ReadFile(path) == bytes);
  CHECK(absl::Now() - start < absl::Seconds(20));  // the deadline is the feature; the proxy would take 30 s
  CHECK(CountersOfStores().stalls == stalls + 1);
  SetStoreOptions({});
}

TEST_CASE("an object that is replaced between two ranges fails") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string path = server.Bucket() + "/a";
  REQUIRE(Write(path, Bytes(100'000, 1)) == absl::OkStatus());
  const auto file = *OpenFile(path);
  std::string part(1000, '\0');
  REQUIRE(file->ReadAt(0, absl::MakeSpan(part)) == absl::OkStatus());
  REQUIRE(Write(path, Bytes(100'000, 2)) == absl::OkStatus());
  CheckError(file->ReadAt(1000, absl::MakeSpan(part)), absl::StatusCode::kDataLoss, {path, "was replaced"});
  REQUIRE(Write(path, "short") == absl::OkStatus());
  CheckError(file->ReadAt(1000, absl::MakeSpan(part)), absl::StatusCode::kDataLoss, {path, "replaced"});
}

TEST_CASE("with a cache folder an object's bytes come over the network once") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const TempFolder folder;
  SetStoreOptions({.range_mib = 1, .cache_folder = folder / "cache"});
  const std::string path = server.Bucket() + "/a", bytes = Bytes(3'000'000);
  REQUIRE(Write(path, bytes) == absl::OkStatus());
  CHECK(*ReadFile(path) == bytes);
  server.Fault({});
  CHECK(*ReadFile(path) == bytes);
  CHECK(server.Log().size() == 1);  // HEAD: is it the same object still?
  REQUIRE(Write(path, Bytes(3'000'000, 2)) == absl::OkStatus());
  CHECK(*ReadFile(path) == Bytes(3'000'000, 2));
  SetStoreOptions({});
}

TEST_CASE("a server that does not answer is named") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  SetStoreOptions({.attempts = 2});
  server.Set("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
  CheckError(ReadFile("s3://bucket/a").status(), absl::StatusCode::kUnavailable,
             {"s3://bucket/a", "127.0.0.1", "2 attempts"});
  server.Set("AWS_ENDPOINT_URL", "127.0.0.1:1");
  CheckError(ReadFile("s3://bucket/a").status(), absl::StatusCode::kInvalidArgument, {"AWS_ENDPOINT_URL", "http://"});
  SetStoreOptions({});
}

TEST_CASE("credentials are found where the AWS tools find them") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const TempFolder folder;
  const std::string path = server.Bucket() + "/a";
  REQUIRE(Write(path, "x") == absl::OkStatus());
  const std::string keys = "aws_access_key_id = DISTILLTEST\naws_secret_access_key = distill-test-secret\n";
  const auto reads = [&] {
    SetStoreOptions({});  // a new client
    const absl::StatusOr<std::string> text = ReadFile(path);
    INFO(text.status());
    CHECK(text.ok());
  };
  server.Set("AWS_ACCESS_KEY_ID", "");
  SECTION("a profile's keys, and its endpoint") {
    server.Set("AWS_SHARED_CREDENTIALS_FILE", folder.Write("credentials", "[default]\n" + keys));
    reads();
    server.Set("AWS_PROFILE", "other");
    SetStoreOptions({});
    CheckError(ReadFile(path).status(), absl::StatusCode::kInvalidArgument, {"no AWS profile 'other'"});
    server.Set("AWS_CONFIG_FILE",
               folder.Write("config", "[profile other]\n" + keys + "endpoint_url = " + server.proxy() + "\n"));
    server.Set("AWS_ENDPOINT_URL", "");
    reads();
  }
  SECTION("a process") {
    const std::string script = folder.Write(
        "keys.sh", R"(echo '{"Version": 1, "AccessKeyId": "DISTILLTEST", "SecretAccessKey": "distill-test-secret"}')");
    server.Set("AWS_CONFIG_FILE", folder.Write("config", "[default]\ncredential_process = sh " + script + "\n"));
    reads();
    folder.Write("keys.sh", "exit 3");
    SetStoreOptions({});
    CheckError(ReadFile(path).status(), absl::StatusCode::kPermissionDenied,
               {"AWS profile 'default'", "credential_process", "failed"});
  }
  SECTION("a role that is assumed") {
    server.Set("AWS_ENDPOINT_URL_STS", server.proxy());
    server.Set("AWS_SHARED_CREDENTIALS_FILE", folder.Write("credentials", "[base]\n" + keys));
    server.Set("AWS_CONFIG_FILE",
               folder.Write("config", "[default]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n"));
    reads();
    CHECK(absl::StrContains(absl::StrJoin(server.Log(), "\n"), "Action=AssumeRole&RoleArn=arn%3Aaws%3Aiam"));
  }
  SECTION("a web identity") {
    server.Set("AWS_ENDPOINT_URL_STS", server.proxy());
    server.Set("AWS_WEB_IDENTITY_TOKEN_FILE", folder.Write("token", "who I am\n"));
    server.Set("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
    reads();
    CHECK(absl::StrContains(absl::StrJoin(server.Log(), "\n"), "WebIdentityToken=who%20I%20am"));
  }
  SECTION("a container") {
    server.Set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.proxy() + "/-/container");
    SetStoreOptions({});
    CheckError(ReadFile(path).status(), absl::StatusCode::kPermissionDenied, {"the container's credentials", "401"});
    server.Set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "let me in");
    reads();
  }
  SECTION("an instance") {
    server.Set("AWS_EC2_METADATA_DISABLED", "");
    server.Set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.proxy());
    reads();
  }
  SECTION("those of SSO are not read, and the message says what to do") {
    server.Set("AWS_CONFIG_FILE", folder.Write("config", "[default]\nsso_session = mine\n"));
    SetStoreOptions({});
    CheckError(ReadFile(path).status(), absl::StatusCode::kUnimplemented, {"export-credentials"});
  }
}

}  // namespace
}  // namespace distill::testing
