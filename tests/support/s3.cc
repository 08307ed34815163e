#include "tests/support/s3.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "libdistill/store/aws_signature.h"
#include "libdistill/store/http.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"

namespace distill::testing {
namespace {

std::string FieldOf(const std::string& name) {
  std::ifstream file(BuildFolder() + "/s3_server.txt");
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, absl::StrCat(name, " "))) return line.substr(name.size() + 1);
    if (absl::StartsWith(line, "skipped: ")) std::printf("%s\n", line.c_str());
  }
  return "";
}

std::string Ask(const std::string& method, const std::string& url, const std::string& body) {
  HttpClient client(HttpOptions{});
  const absl::StatusOr<HttpResponse> response = client.Send({.method = method, .url = url, .body = body});
  REQUIRE(response.ok());
  REQUIRE(response->status == 200);
  return response->body;
}

}  // namespace

bool S3Server::IsThere() { return !FieldOf("server").empty(); }

S3Server::S3Server() : proxy_(FieldOf("proxy")) {
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_NO_SIGN_REQUEST",
                           "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                           "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_DEFAULT_REGION", "http_proxy", "HTTP_PROXY"}) {
    Set(name, "");
  }
  Set("AWS_CONFIG_FILE", "/nonexistent/config");
  Set("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials");
  Set("AWS_EC2_METADATA_DISABLED", "true");
  Set("AWS_ENDPOINT_URL", proxy_);
  Set("AWS_ACCESS_KEY_ID", "DISTILLTEST");
  Set("AWS_SECRET_ACCESS_KEY", "distill-test-secret");
  Set("AWS_REGION", "us-east-1");
  Fault({});
}

S3Server::~S3Server() {
  for (const auto& [name, value] : before_) {
    if (value.empty()) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
}

void S3Server::Set(const std::string& name, const std::string& value) {
  const char* old = getenv(name.c_str());
  before_.emplace(name, old == nullptr ? "" : old);
  if (value.empty()) {
    unsetenv(name.c_str());
  } else {
    setenv(name.c_str(), value.c_str(), 1);
  }
}

std::string S3Server::Bucket() {
  static int count = 0;
  const std::string bucket = absl::StrCat("distill-test-", getpid(), "-", ++count);
  const std::string host = proxy_.substr(proxy_.find("://") + 3);
  const AwsRequest request{.method = "PUT", .host = host, .path = absl::StrCat("/", bucket)};
  HttpClient client(HttpOptions{});
  const absl::StatusOr<HttpResponse> made = client.Send(
      {.method = "PUT",
       .url = absl::StrCat(proxy_, request.path),
       .headers = SignedHeaders(request, {"DISTILLTEST", "distill-test-secret", ""}, "us-east-1", "s3", absl::Now())});
  REQUIRE(made.ok());
  INFO(made->body);
  REQUIRE(made->status == 200);
  return absl::StrCat("s3://", bucket);
}

void S3Server::Fault(const std::vector<S3Fault>& faults) const {
  const std::string list = absl::StrJoin(faults, ", ", [](std::string* out, const S3Fault& fault) {
    absl::StrAppend(out, R"({"match": ")", fault.match, R"(", "do": ")", fault.what, R"(", "times": )", fault.times,
                    "}");
  });
  Ask("POST", absl::StrCat(proxy_, "/-/faults"), absl::StrCat("[", list, "]"));
}

std::vector<std::string> S3Server::Log() const {
  return absl::StrSplit(Ask("GET", absl::StrCat(proxy_, "/-/log"), ""), '\n', absl::SkipEmpty());
}

}  // namespace distill::testing
