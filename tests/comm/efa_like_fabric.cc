#include "tests/comm/efa_like_fabric.h"

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "tests/comm/watch_fabric.h"

namespace distill::testing {
namespace {

constexpr size_t kMostReceives = 12;  // of which one stands for the credits of each peer (comm/fabric_credits.h)
constexpr size_t kMostSends = 2;
constexpr int kHandshakePolls = 5;
constexpr uint64_t kDelay = 4, kLongDelay = 300;

struct Send {
  bool is_write;
  const void* data;
  size_t bytes;
  void* descriptor;
  fi_addr_t to;
  uint64_t tag_or_data, address, key;
  void* context;
  uint64_t due = 0;  // the poll from which on it moves
};

struct Completion {
  fi_cq_data_entry entry;
  uint64_t due;  // the poll from which on it is seen
};

// Of one domain, with its queue and its endpoint.
struct Rail {
  std::mt19937_64 random;
  fid_ep* endpoint = nullptr;
  std::vector<Send> sends;            // that nothing has been told of yet
  size_t sending = 0, receiving = 0;  // operations without a completion
  std::vector<Completion> done;       // that nobody has seen yet
  std::vector<fi_cq_err_entry> errors;
  std::map<fi_addr_t, int> handshakes;  // polls until it has been made, by peer
  uint64_t polls = 0;
  bool Chance(int of) { return random() % static_cast<uint64_t>(of) == 0; }
  // Most things take a few polls, some take long.
  uint64_t Due() { return polls + random() % (Chance(16) ? kLongDelay : kDelay); }
};

std::mutex mutex;  // for all below: registrations go on any thread
uint64_t next_seed = 0;
std::map<const void*, std::shared_ptr<Rail>> rails;  // by domain, queue and endpoint
struct Region {
  const char* begin;
  size_t bytes;
  void* descriptor;  // the provider's
};
std::map<const void*, Region> regions;  // by the descriptor that we give

std::atomic<int> polls_to_error{-1};
std::atomic<int64_t> refused{0}, overtaken{0}, held{0}, handshakes{0}, full{0};

// The provider's own functions, of the one kind of each object that there is here.
fi_ops_domain real_domain, domain_ops;
fi_ops_mr real_mr, mr_ops;
fi_ops real_region, region_ops;
fi_ops_cq real_queue, queue_ops;
fi_ops_tagged real_tagged, tagged_ops;
fi_ops_rma real_rma, rma_ops;

Rail& RailOf(const void* object) {
  const std::lock_guard<std::mutex> lock(mutex);
  return *rails.at(object);
}

// Whether the buffer is all in what this descriptor stands for; then the provider's descriptor of it.
bool FindDescriptor(const void* data, size_t bytes, void*& descriptor) {
  if (bytes == 0) return true;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto region = regions.find(descriptor);
  if (descriptor == nullptr || region == regions.end()) return false;
  const char* begin = static_cast<const char*>(data);
  descriptor = region->second.descriptor;
  return begin >= region->second.begin && begin + bytes <= region->second.begin + region->second.bytes;
}

bool Refuses(Rail& rail, size_t under_way, size_t most) {
  const bool is_full = under_way >= most;
  if (!is_full && !rail.Chance(4)) return false;
  ++(is_full ? full : refused);
  return true;
}

ssize_t Queue(Rail& rail, Send send) {
  if (!FindDescriptor(send.data, send.bytes, send.descriptor)) return -FI_EINVAL;
  if (Refuses(rail, rail.sending, kMostSends)) return -FI_EAGAIN;
  ++rail.sending;
  send.due = rail.Due();
  rail.sends.push_back(send);
  return 0;
}

ssize_t TaggedSend(fid_ep* endpoint, const void* data, size_t bytes, void* descriptor, fi_addr_t to, uint64_t tag,
                   void* context) {
  return Queue(RailOf(endpoint), {false, data, bytes, descriptor, to, tag, 0, 0, context});
}

ssize_t WriteWithData(fid_ep* endpoint, const void* data, size_t bytes, void* descriptor, uint64_t notice, fi_addr_t to,
                      uint64_t address, uint64_t key, void* context) {
  Rail& rail = RailOf(endpoint);
  if (notice >> 32 != 0) return -FI_EINVAL;
  const auto [handshake, is_first] = rail.handshakes.try_emplace(to, kHandshakePolls);
  handshakes += is_first ? 1 : 0;
  if (handshake->second > 0) return -FI_EAGAIN;
  return Queue(rail, {true, data, bytes, descriptor, to, notice, address, key, context});
}

ssize_t TaggedReceive(fid_ep* endpoint, void* data, size_t bytes, void* descriptor, fi_addr_t, uint64_t tag,
                      uint64_t ignore, void* context) {
  Rail& rail = RailOf(endpoint);
  if (!FindDescriptor(data, bytes, descriptor)) return -FI_EINVAL;
  if (Refuses(rail, rail.receiving, kMostReceives)) return -FI_EAGAIN;
  const ssize_t rc = real_tagged.recv(endpoint, data, bytes, descriptor, FI_ADDR_UNSPEC, tag, ignore, context);
  rail.receiving += rc == 0 ? 1 : 0;
  return rc;
}

ssize_t Start(Rail& rail, const Send& send) {
  if (send.is_write) {
    return real_rma.writedata(rail.endpoint, send.data, send.bytes, send.descriptor, send.tag_or_data, send.to,
                              send.address, send.key, send.context);
  }
  return real_tagged.send(rail.endpoint, send.data, send.bytes, send.descriptor, send.to, send.tag_or_data,
                          send.context);
}

// What is due, in any order.
void StartSends(Rail& rail) {
  std::shuffle(rail.sends.begin(), rail.sends.end(), rail.random);
  std::vector<Send> left;
  for (const Send& send : rail.sends) {
    const ssize_t rc = send.due > rail.polls ? -FI_EAGAIN : Start(rail, send);
    if (rc == -FI_EAGAIN) {
      left.push_back(send);
    } else if (rc != 0) {
      fi_cq_err_entry error = {};
      error.op_context = send.context;
      error.err = static_cast<int>(-rc);
      rail.errors.push_back(error);
    } else if (!left.empty()) {
      ++overtaken;
    }
  }
  rail.sends = std::move(left);
}

// What the provider has finished.
ssize_t Collect(fid_cq* queue, Rail& rail) {
  fi_cq_data_entry entries[16];
  const ssize_t count = real_queue.read(queue, entries, 16);
  for (ssize_t i = 0; i < count; ++i) rail.done.push_back({entries[i], rail.Due()});
  return count;
}

ssize_t Give(Rail& rail, fi_cq_data_entry* entries, size_t most) {
  std::shuffle(rail.done.begin(), rail.done.end(), rail.random);
  size_t count = 0;
  std::vector<Completion> left;
  for (const Completion& completion : rail.done) {
    if (count == most || completion.due > rail.polls) {
      left.push_back(completion);
      continue;
    }
    const fi_cq_data_entry& entry = entries[count++] = completion.entry;
    const bool of_peer = (entry.flags & FI_REMOTE_WRITE) != 0;
    if (!of_peer) --((entry.flags & FI_RECV) != 0 ? rail.receiving : rail.sending);
  }
  rail.done = std::move(left);
  held += static_cast<int64_t>(rail.done.size());
  return count == 0 ? -FI_EAGAIN : static_cast<ssize_t>(count);
}

bool FailsNow() {
  int left = polls_to_error;
  while (left > 0 && !polls_to_error.compare_exchange_weak(left, left - 1)) {
  }
  return left == 1;
}

ssize_t ReadQueue(fid_cq* queue, void* entries, size_t most) {
  Rail& rail = RailOf(queue);
  ++rail.polls;
  for (auto& [peer, polls] : rail.handshakes) polls -= polls > 0 ? 1 : 0;
  if (FailsNow()) {
    fi_cq_err_entry error = {};
    error.err = FI_EIO;
    rail.errors.push_back(error);
  }
  StartSends(rail);
  const ssize_t rc = Collect(queue, rail);
  if (!rail.errors.empty()) return -FI_EAVAIL;
  if (rc < 0 && rc != -FI_EAGAIN) return rc;
  return Give(rail, static_cast<fi_cq_data_entry*>(entries), most);
}

ssize_t ReadError(fid_cq* queue, fi_cq_err_entry* entry, uint64_t flags) {
  Rail& rail = RailOf(queue);
  if (rail.errors.empty()) return real_queue.readerr(queue, entry, flags);
  *entry = rail.errors.back();
  rail.errors.pop_back();
  return 1;
}

int OpenQueue(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue, void* context) {
  if (attributes->wait_obj != FI_WAIT_NONE) return -FI_ENOSYS;
  const int rc = real_domain.cq_open(domain, attributes, queue, context);
  if (rc != 0) return rc;
  real_queue = queue_ops = *(*queue)->ops;
  queue_ops.read = &ReadQueue;
  queue_ops.readerr = &ReadError;
  (*queue)->ops = &queue_ops;
  const std::lock_guard<std::mutex> lock(mutex);
  rails[*queue] = rails.at(domain);
  return 0;
}

int OpenEndpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
  const int rc = real_domain.endpoint(domain, info, endpoint, context);
  if (rc != 0) return rc;
  real_tagged = tagged_ops = *(*endpoint)->tagged;
  tagged_ops.send = &TaggedSend;
  tagged_ops.recv = &TaggedReceive;
  (*endpoint)->tagged = &tagged_ops;
  real_rma = rma_ops = *(*endpoint)->rma;
  rma_ops.writedata = &WriteWithData;
  (*endpoint)->rma = &rma_ops;
  const std::lock_guard<std::mutex> lock(mutex);
  const std::shared_ptr<Rail>& rail = rails[*endpoint] = rails.at(domain);
  rail->endpoint = *endpoint;
  return 0;
}

int CloseRegion(fid* object) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    regions.erase(object);
  }
  return real_region.close(object);
}

int Register(fid* domain, const fi_mr_attr* attributes, uint64_t flags, fid_mr** region) {
  const int rc = real_mr.regattr(domain, attributes, flags, region);
  if (rc != 0) return rc;
  const std::lock_guard<std::mutex> lock(mutex);
  regions[*region] = {static_cast<const char*>(attributes->mr_iov->iov_base), attributes->mr_iov->iov_len,
                      (*region)->mem_desc};
  (*region)->mem_desc = *region;
  real_region = region_ops = *(*region)->fid.ops;
  region_ops.close = &CloseRegion;
  (*region)->fid.ops = &region_ops;
  return 0;
}

void WatchDomain(fid_domain& domain) {
  real_domain = domain_ops = *domain.ops;
  domain_ops.cq_open = &OpenQueue;
  domain_ops.endpoint = &OpenEndpoint;
  domain.ops = &domain_ops;
  real_mr = mr_ops = *domain.mr;
  mr_ops.regattr = &Register;
  domain.mr = &mr_ops;
  const std::lock_guard<std::mutex> lock(mutex);
  rails[&domain] = std::make_shared<Rail>();
  rails[&domain]->random.seed(next_seed++);
}

int GetInfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** found) {
  const int rc = WatchedFabric::real.getinfo(version, node, service, flags, hints, found);
  for (fi_info* info = rc == 0 ? *found : nullptr; info != nullptr; info = info->next) {
    info->domain_attr->mr_mode |= FI_MR_LOCAL;
    info->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    info->domain_attr->cq_data_size = 4;
  }
  return rc;
}

}  // namespace

absl::Status EfaLikeFabric::Install(uint64_t seed) {
  next_seed = 1000 * seed;
  return WatchedFabric::Watch({.on_domain = &WatchDomain}, &GetInfo);
}

void EfaLikeFabric::FailSoon(int polls) { polls_to_error = polls; }

EfaLikeFabric::Counts EfaLikeFabric::counts() { return {refused, overtaken, held, handshakes, full}; }

}  // namespace distill::testing
