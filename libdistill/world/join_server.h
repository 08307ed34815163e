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
    bool dismissed = false;
  };

  // `max_guests`: how many connections that have not proved themselves may be open at one time, beside one for each
  // rank.
  JoinServer(Socket listener, int world_size, std::string secret, size_t max_guests);
  // Nobody listens at the port any more, whoever else inherited it.
  ~JoinServer();

  // There will be no meeting: Run tells each rank that comes this error, and returns it once all have heard it.
  void Refuse(absl::Status error);

  // Blocks until ranks 1 to world_size - 1 have joined. Strangers are dropped: on the first wrong byte, after a few
  // seconds of silence, and the oldest ones when others wait. DeadlineExceeded lists the ranks that never came;
  // InvalidArgument: a process that knows the secret has a rank twice or another world size; ResourceExhausted: no more
  // connections can be open here, which every rank is told.
  absl::Status Run(const Deadline& deadline);

  // Entry r is rank r; 0 stays empty.
  std::vector<Member>& members() { return members_; }

 private:
  struct Guest {
    Socket socket;
    Deadline deadline;
    // From when on it may be dropped for another guest.
    Deadline must_have_greeted;
    Deadline must_have_proved;
    std::string buffer;
    bool greeted = false;
    Nonces nonces;
  };
  enum class Step { kWait, kDrop };

  size_t Places() const;
  bool MakeRoom();
  void WaitForEvents(const Deadline& deadline);
  void AcceptWaiting();
  void LackDescriptors(int error);
  absl::Status ServeGuests();
  absl::StatusOr<Step> Serve(Guest& guest);
  Step Greet(Guest& guest);
  absl::StatusOr<Step> Judge(Guest& guest);
  bool Taken(uint32_t rank) const;
  void Dismiss(Member& member) const;
  absl::Status TimeOut(const Deadline& deadline) const;

  Socket listener_;
  Socket spare_;  // a descriptor that is given up when there are no others, so that ranks can be told
  const int world_size_;
  const std::string secret_;
  const size_t max_guests_;
  int joined_ = 0;  // or told why they cannot
  int refused_ = 0;
  int accept_error_ = 0;  // why no connection could be accepted just now (errno), and none is asked for in this round
  absl::Status refusal_;
  std::list<Guest> guests_;
  std::vector<Member> members_;
};

// "rank 3" or "ranks 1, 3 and 5 more".
std::string DescribeRanks(const std::vector<int>& ranks);

}  // namespace distill
