// The process's identity, the one piece of global state: set once by Run, read by errors, checks and log lines.
#pragma once

#include <string>

namespace distill {

struct Identity {
  int rank = 0;
  int world_size = 1;
  std::string host;
};

// Call once, before other threads read it. A second call replaces the first (tests that fork use this).
void SetIdentity(Identity identity);
const Identity& GetIdentity();

// "rank 3 on p4d-17", or "rank 0" where the host is not known yet.
std::string DescribeIdentity();

}  // namespace distill
