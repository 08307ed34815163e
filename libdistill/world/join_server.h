// Rank 0's side of the meeting: lets the other ranks in, and nobody else.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/core/deadline.h"
#include "libdistill/world/handshake.h"
#include "libdistill/world/socket.h"

namespace distill {

class JoinServer {
 public:
  struct Member {
    Socket socket;  // not open: this rank has not come
    std::string host;
    FrameKeys keys;
  };

  JoinServer(Socket listener, int world_size, std::string secret);

  // Blocks until ranks 1 to world_size - 1 have joined. Strangers are dropped: on the first wrong byte, after a few
  // seconds of silence, and the oldest ones when too many wait. DeadlineExceeded lists the ranks that never came;
  // InvalidArgument: a process that knows the secret has a rank twice or another world size; ResourceExhausted: no more
  // connections can be open here.
  absl::Status Run(const Deadline& deadline);

  // Entry r is rank r; 0 stays empty.
  std::vector<Member>& members() { return members_; }

 private:
  struct Guest {
    Socket socket;
    Deadline deadline;
    std::string buffer;
    bool greeted = false;
    Nonces nonces;
  };
  enum class Step { kWait, kDrop };

  void WaitForEvents(const Deadline& deadline);
  absl::Status AcceptWaiting();
  absl::Status ServeGuests();
  absl::StatusOr<Step> Serve(Guest& guest);
  Step Greet(Guest& guest);
  absl::StatusOr<Step> Judge(Guest& guest);
  bool Taken(uint32_t rank) const;

  Socket listener_;
  const int world_size_;
  const std::string secret_;
  const size_t max_guests_;
  int joined_ = 0;
  int refused_ = 0;
  bool lacks_descriptors_ = false;
  std::list<Guest> guests_;
  std::vector<Member> members_;
};

// "rank 3" or "ranks 1, 3 and 5 more".
std::string DescribeRanks(const std::vector<int>& ranks);

}  // namespace distill
