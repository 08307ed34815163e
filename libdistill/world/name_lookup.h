// Addresses of a host's name, within a deadline: getaddrinfo(3) has none, and waits for name servers as long as it
// likes.
#pragma once

#include <netdb.h>

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/core/deadline.h"

namespace distill {

// For one thread: Find must not be called by two at a time. What it has begun belongs to nobody: a lookup that has not
// ended runs on a detached thread, which outlives this object, keeps what it needs itself, and may still be inside
// getaddrinfo when the process ends.
class NameLookup {
 public:
  using Function = int (*)(const char* host, const char* port, const addrinfo* hints, addrinfo** found);
  using Addresses = std::shared_ptr<const addrinfo>;

  // `resolve` is getaddrinfo but for tests.
  explicit NameLookup(Function resolve = &getaddrinfo) : resolve_(resolve) {}

  // Blocks until the name is resolved, or the deadline. Numeric addresses need no name server and no thread. A lookup
  // that takes longer continues on its own thread, and asking for the same name again waits for that one.
  // DeadlineExceeded and Unavailable name the host; ResourceExhausted: there is no thread for it.
  [[nodiscard]] absl::StatusOr<Addresses> Find(const std::string& host, const std::string& port,
                                               const Deadline& deadline);

 private:
  struct Pending;

  const Function resolve_;
  std::map<std::string, std::shared_ptr<Pending>> pending_;  // by host and port
};

}  // namespace distill
