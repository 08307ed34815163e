// One rail of the fabric like efa (efa_like_fabric.h): an endpoint of libfabric's with its queue, and what chance does
// to its operations. Several threads may use one.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace distill::testing {

// The provider's own functions: of the one kind of each object that there is here.
struct RealFunctions {
  fi_ops_tagged tagged;
  fi_ops_rma rma;
  fi_ops_ep endpoint;
  fi_ops_cq queue;
};

// As EfaLikeFabric::Counts.
struct EfaLikeCounters {
  std::atomic<int64_t> refused{0}, full_sends{0}, full_receives{0}, refused_writes{0}, handshakes{0}, overtaken{0},
      held{0}, anybody{0}, truncated{0}, invalid{0}, cancelled{0}, slow{0}, failed{0};
  std::atomic<uint32_t> rails{0};  // a bit each
};

struct EfaLikeSend {
  bool is_write;
  const void* data;
  size_t bytes;
  void* descriptor;
  fi_addr_t to;
  uint64_t tag_or_data, address, key;
  void* context;
};

class EfaLikeRail {
 public:
  static inline RealFunctions real;
  static inline EfaLikeCounters counters;
  // Of the rail with this number (of any, where it is below 0) the poll that is so many from now on fails; below 0:
  // none.
  static inline std::atomic<int> failing_rail{-1}, polls_to_error{-1};

  EfaLikeRail(uint64_t seed, int number, bool slow) : random_(seed), number_(number), slow_(slow) {}

  void Open(fid_ep* endpoint);
  // What was not handed to the provider is gone, as what a network card has not sent is.
  void Close();

  // The descriptors are the provider's. -FI_EAGAIN: refused.
  ssize_t Send(const EfaLikeSend& send);
  ssize_t Write(const EfaLikeSend& write);
  ssize_t Receive(void* data, size_t bytes, uint64_t tag, uint64_t ignore, void* context);
  // A receive that the provider has not begun, or a send that it has not been handed, ends with FI_ECANCELED.
  ssize_t Cancel(void* context);

  ssize_t Read(fid_cq* queue, fi_cq_data_entry* entries, size_t most);
  ssize_t ReadError(fid_cq* queue, fi_cq_err_entry* entry, uint64_t flags);

 private:
  using Clock = std::chrono::steady_clock;
  // Where a message lands: tcp ends its connection when one is longer than its buffer, which efa does not.
  struct Landing {
    void* data;  // the receiver's
    size_t bytes;
    std::unique_ptr<char[]> memory;
  };
  // From this poll or this time on something is seen. The time is for whoever polls ever more rarely.
  struct Due {
    uint64_t poll;
    Clock::time_point time;
  };
  struct Completion {
    fi_cq_data_entry entry;
    Due due;
  };
  struct HeldSend {
    EfaLikeSend send;
    Due due;
  };

  bool Chance(int of) { return random_() % static_cast<uint64_t>(of) == 0; }
  Due Draw();
  bool IsDue(const Due& due) const { return due.poll <= polls_ || due.time <= now_; }
  bool Refuses(size_t under_way, size_t most, std::atomic<int64_t>& full);
  ssize_t Queue(const EfaLikeSend& send);
  ssize_t Start(const EfaLikeSend& send);
  void StartSends();
  void Fail(void* context, int error);
  // The message that has landed; false: it was too long.
  bool Land(void* context, size_t bytes);
  bool FailsNow() const;
  ssize_t Collect(fid_cq* queue);
  ssize_t Give(fi_cq_data_entry* entries, size_t most);
  void Begin(void* context, bool receiving);
  void End(void* context);

  std::mutex mutex_;  // for all below
  std::mt19937_64 random_;
  const int number_;
  const bool slow_;
  fid_ep* endpoint_ = nullptr;       // null: not yet, or no more
  std::map<void*, bool> under_way_;  // operations that nobody has seen the end of, by context: whether it is a receive
  size_t sending_ = 0, receiving_ = 0;  // of them
  std::map<void*, Landing> landings_;   // of receives, by context
  std::vector<HeldSend> sends_;         // that the provider has not been handed
  std::vector<Completion> done_;        // that nobody has seen
  std::vector<fi_cq_err_entry> errors_;
  std::map<fi_addr_t, int> handshakes_;  // polls until it has been made, by peer
  uint64_t polls_ = 0;
  Clock::time_point now_ = Clock::now();  // of the last poll
};

}  // namespace distill::testing
