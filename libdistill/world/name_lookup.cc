#include "libdistill/world/name_lookup.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"

namespace distill {
namespace {

addrinfo Hints(int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  return hints;
}

absl::StatusOr<NameLookup::Addresses> Result(int rc, addrinfo* found, const std::string& host) {
  if (rc == 0)
    return NameLookup::Addresses(found, [](const addrinfo* list) { freeaddrinfo(const_cast<addrinfo*>(list)); });
  return absl::UnavailableError(absl::StrCat("cannot resolve ", host, ": ", gai_strerror(rc)));
}

}  // namespace

// What the thread of a lookup and who waits for it share; the last of them frees it.
struct NameLookup::Pending {
  std::mutex mutex;
  std::condition_variable changed;
  absl::StatusOr<Addresses> result = Addresses();  // null: not yet
};

absl::StatusOr<NameLookup::Addresses> NameLookup::Find(const std::string& host, const std::string& port,
                                                       const Deadline& deadline) {
  addrinfo* found = nullptr;
  const addrinfo numeric = Hints(AI_NUMERICHOST);
  if (getaddrinfo(host.c_str(), port.c_str(), &numeric, &found) == 0) return Result(0, found, host);

  const std::string key = absl::StrCat(host, " ", port);
  std::shared_ptr<Pending>& pending = pending_[key];
  if (pending == nullptr) {
    auto started = std::make_shared<Pending>();
    DISTILL_ASSIGN_OR_RETURN(std::thread thread,
                             StartThread("the lookup of a host's name", [started, host, port, resolve = resolve_] {
                               const addrinfo hints = Hints(0);
                               addrinfo* list = nullptr;
                               const int rc = resolve(host.c_str(), port.c_str(), &hints, &list);
                               const std::lock_guard<std::mutex> lock(started->mutex);
                               started->result = Result(rc, list, host);
                               started->changed.notify_all();
                             }));
    thread.detach();
    pending = std::move(started);
  }
  const std::shared_ptr<Pending> mine = pending;
  std::unique_lock<std::mutex> lock(mine->mutex);
  while (mine->result.ok() && *mine->result == nullptr) {
    if (deadline.Passed()) {
      return deadline.Error(absl::StrCat("looking up the address of ", host,
                                         " (do the name servers in /etc/resolv.conf of this host answer?)"));
    }
    mine->changed.wait_for(lock, absl::ToChronoNanoseconds(std::min(deadline.Left(), absl::Seconds(1))));
  }
  pending_.erase(key);
  return mine->result;
}

}  // namespace distill
