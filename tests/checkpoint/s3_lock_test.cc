// The lease of an output_dir in a real S3 server.
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/output_lock.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/s3.h"

namespace distill::testing {

// It is renewed meanwhile, and may be so in the middle of being read.
static std::string LeaseText(const std::string& out) {
  absl::StatusOr<std::string> text = ReadFile(out + "/.lock");
  for (int reading = 1; absl::IsDataLoss(text.status()) && reading < 20; ++reading) text = ReadFile(out + "/.lock");
  INFO(text.status());
  REQUIRE(text.ok());
  return *text;
}

TEST_CASE("an output_dir in S3 has one run at a time, and one whose process ended is free at once") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string out = server.Bucket() + "/out";
  const OutputLockTimes quick = {.renewal = absl::Milliseconds(100), .patience = absl::Seconds(3)};
  {
    const auto lock = OutputLock::Take(out, quick);
    REQUIRE(lock.ok());
    const std::string first = LeaseText(out);
    const absl::Status refused = OutputLock::Take(out, quick).status();
    CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(absl::StrContains(refused.message(), absl::StrCat("in use by another run: process ", getpid(), " on ")));
    CHECK(LeaseText(out) != first);  // it is renewed
    CHECK((*lock)->Confirm() == absl::OkStatus());
    REQUIRE(WriteWholeFile(out + "/.lock", "lease 1\nhost far\npid 7\nsince then\ncounter 1\n") == absl::OkStatus());
    CHECK((*lock)->Confirm().code() == absl::StatusCode::kFailedPrecondition);
  }
  CHECK(absl::StrContains(LeaseText(out), "host far"));  // not given back by who has lost it
  {
    const CapturedStderr said;
    const auto lock = OutputLock::Take(out, quick);
    REQUIRE(lock.ok());
    CHECK(absl::StrContains(said.Text(), "is taken over: process 7 on far has not renewed its lease for 3s"));
  }
  CHECK_FALSE(FileExists(out + "/.lock"));
  const pid_t pid = fork();
  if (pid == 0) {
    const auto lock = OutputLock::Take(out, quick);
    _exit(lock.ok() ? 0 : 1);  // without giving it back
  }
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(FileExists(out + "/.lock"));
  const CapturedStderr said;
  CHECK(OutputLock::Take(out).ok());
  CHECK(said.Text().empty());  // nothing was waited for
}

TEST_CASE("where a server compares no versions the lease still tells two runs apart; a refusal names the policy") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string bucket = server.Bucket(), out = bucket + "/out";
  server.Fault({{"PUT /", "status 501 NotImplemented", 1}});
  const auto lock = OutputLock::Take(out);
  REQUIRE(lock.ok());
  CHECK((*lock)->Confirm() == absl::OkStatus());
  server.Fault({{"PUT /", "status 403 AccessDenied", 1}});
  const absl::Status refused = OutputLock::Take(bucket + "/other").status();
  CHECK(refused.code() == absl::StatusCode::kPermissionDenied);
  for (const std::string& part :
       {"output_dir: cannot write " + bucket + "/other/.lock: 403 AccessDenied",
        std::string("s3:PutObject, s3:DeleteObject"), absl::StrCat("arn:aws:s3:::", bucket.substr(5), "/*")}) {
    INFO(refused);
    CHECK(absl::StrContains(refused.message(), part));
  }
}

}  // namespace distill::testing
