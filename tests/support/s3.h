// The S3 server that the fixture `s3_server` has started (s3_fixture.py), and the proxy in front of it.
//
//   if (!S3Server::IsThere()) return;       // it has printed why; CTest then calls the test skipped
//   const S3Server server;                  // the environment is as a user of that server would have it
//   server.Fault({{"GET /", "status 503 SlowDown", 2}});
//   CHECK(ReadFile(server.Bucket() + "/a").ok());
#pragma once

#include <map>
#include <string>
#include <vector>

namespace distill::testing {

struct S3Fault {
  std::string match;  // in "GET /bucket/key bytes=0-9"
  std::string what;   // "status 503 SlowDown", "short", "stall", "error_in_200", "other_range"
  int times = 1;
};

class S3Server {
 public:
  static bool IsThere();

  // Behind the proxy, where it can disturb.
  S3Server();
  ~S3Server();
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  const std::string& proxy() const { return proxy_; }
  // An environment variable, until this is gone; "" takes it away.
  void Set(const std::string& name, const std::string& value);
  // A bucket of this server's: "s3://distill-test-17". Made now.
  std::string Bucket();
  void Fault(const std::vector<S3Fault>& faults) const;
  std::vector<std::string> Log() const;  // since the last Fault

 private:
  std::string proxy_;
  std::map<std::string, std::string> before_;
};

}  // namespace distill::testing
