#include "libdistill/world/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/process.h"

namespace distill {
namespace {

absl::Status Lost(absl::string_view what) {
  const int error = errno;
  const std::string text = absl::StrCat(what, ": ", std::strerror(error), DescriptorRemedy(error));
  // Trying again helps against the one, and not against the other.
  return error == EMFILE || error == ENFILE ? absl::ResourceExhaustedError(text) : absl::UnavailableError(text);
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// The host, but for the one name whose address everybody knows: neither side asks a name server for it, nor do two
// sides get different answers.
std::string KnownAddress(const std::string& host) { return host == "localhost" ? "127.0.0.1" : host; }

// Where this host can listen: no name server is asked.
absl::StatusOr<Addresses> OwnAddresses(const HostPort& place) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV | AI_NUMERICHOST;
  addrinfo* found = nullptr;
  const std::string host = KnownAddress(place.host);
  const int rc = getaddrinfo(IsLoopback(host) ? host.c_str() : nullptr, place.port.c_str(), &hints, &found);
  if (rc == 0) return Addresses(found, &freeaddrinfo);
  return absl::UnavailableError(absl::StrCat("cannot listen on ", place.host, ":", place.port, ": ", gai_strerror(rc)));
}

Socket Open(const addrinfo& address) {
  return Socket(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void SetOptions(const Socket& socket) {
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

absl::Status WaitFor(const Socket& socket, short events, const Deadline& deadline, absl::string_view what) {
  for (;;) {
    pollfd entry = {socket.fd(), events, 0};
    const int ready = poll(&entry, 1, deadline.PollMilliseconds());
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return Lost(what);
    if (deadline.Passed()) return deadline.Error(what);
  }
}

absl::StatusOr<Socket> ConnectTo(const addrinfo& address, const Deadline& deadline) {
  Socket made = Open(address);
  if (!made.open()) return Lost("socket");
  if (connect(made.fd(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return Lost("connect");
    DISTILL_RETURN_IF_ERROR(WaitFor(made, POLLOUT, deadline, "connecting"));
    socklen_t size = sizeof(errno);
    int error = 0;
    getsockopt(made.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    if (error != 0) return Lost("connect");
  }
  SetOptions(made);
  return made;
}

// One end's address and port as numbers, as `ask` (getsockname, getpeername) has them; both empty where it has none.
HostPort Numeric(const Socket& socket, decltype(&getsockname) ask) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (ask(socket.fd(), name, &size) != 0 ||
      getnameinfo(name, size, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  // A listener on every interface sees IPv4 peers as mapped IPv6 addresses.
  return {std::string(absl::StripPrefix(host, "::ffff:")), port};
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<HostPort> ParseHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  HostPort place;
  if (colon != std::string::npos) {
    place = {text.substr(0, colon), text.substr(colon + 1)};
    if (place.host.size() > 2 && place.host.front() == '[' && place.host.back() == ']') {
      place.host = place.host.substr(1, place.host.size() - 2);
    }
  }
  const bool digits = place.port.find_first_not_of("0123456789") == std::string::npos;
  if (place.host.empty() || place.port.empty() || !digits || place.port.size() > 5 || std::stoi(place.port) < 1 ||
      std::stoi(place.port) > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no meeting place: HOST:PORT is expected"));
  }
  return place;
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

absl::StatusOr<Socket> Listen(const HostPort& place) {
  DISTILL_ASSIGN_OR_RETURN(const Addresses found, OwnAddresses(place));
  absl::Status error = absl::UnavailableError("no address to listen on");
  // IPv6 first: its wildcard takes IPv4 connections as well.
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
      if (address->ai_family != family) continue;
      Socket made = Open(*address);
      const int on = 1;
      const int off = 0;
      if (made.open() && family == AF_INET6) setsockopt(made.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
      if (made.open() && setsockopt(made.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
          bind(made.fd(), address->ai_addr, address->ai_addrlen) == 0 && listen(made.fd(), SOMAXCONN) == 0) {
        return made;
      }
      error = Lost(absl::StrCat("cannot listen on ", place.host, ":", place.port));
      if (errno == EADDRINUSE) return error;
    }
  }
  return error;
}

Socket AcceptOne(const Socket& listener) {
  Socket accepted(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted.open()) SetOptions(accepted);
  return accepted;
}

absl::StatusOr<Socket> Connect(const HostPort& place, const Deadline& deadline, NameLookup& names) {
  DISTILL_ASSIGN_OR_RETURN(const NameLookup::Addresses found,
                           names.Find(KnownAddress(place.host), place.port, deadline));
  absl::Status error;
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    absl::StatusOr<Socket> made = ConnectTo(*address, deadline);
    if (made.ok()) return made;
    error = made.status();
  }
  return error;
}

absl::StatusOr<size_t> SendBoth(const Socket& socket, absl::string_view first, absl::string_view second) {
  iovec parts[2] = {{const_cast<char*>(first.data()), first.size()}, {const_cast<char*>(second.data()), second.size()}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  for (;;) {
    const ssize_t sent = sendmsg(socket.fd(), &message, MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return Lost("sending");
  }
}

absl::Status SendAll(const Socket& socket, absl::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    DISTILL_ASSIGN_OR_RETURN(const size_t sent, SendBoth(socket, bytes, ""));
    bytes.remove_prefix(sent);
    if (sent == 0) DISTILL_RETURN_IF_ERROR(WaitFor(socket, POLLOUT, deadline, "sending"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReceiveSome(const Socket& socket, size_t limit) {
  constexpr size_t kAtOnce = 1 << 16;
  std::string bytes(std::min(limit, kAtOnce), '\0');
  const ssize_t received = recv(socket.fd(), bytes.data(), bytes.size(), 0);
  if (received == 0) return absl::UnavailableError("the other side closed the connection");
  if (received < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return std::string();
    return Lost("the connection is lost");
  }
  bytes.resize(static_cast<size_t>(received));
  return bytes;
}

absl::StatusOr<std::string> ReceiveAll(const Socket& socket, size_t count, const Deadline& deadline) {
  std::string bytes;
  while (bytes.size() < count) {
    DISTILL_RETURN_IF_ERROR(WaitFor(socket, POLLIN, deadline, "receiving"));
    DISTILL_ASSIGN_OR_RETURN(const std::string some, ReceiveSome(socket, count - bytes.size()));
    bytes += some;
  }
  return bytes;
}

bool StillOpen(const Socket& socket) {
  char byte;
  const ssize_t peeked = recv(socket.fd(), &byte, 1, MSG_PEEK);
  return peeked > 0 || (peeked < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

std::string LocalAddress(const Socket& socket) { return Numeric(socket, &getsockname).host; }

std::string LocalPort(const Socket& socket) { return Numeric(socket, &getsockname).port; }

std::string RemoteAddress(const Socket& socket) {
  const HostPort place = Numeric(socket, &getpeername);
  return place.host.empty() ? "a lost connection" : absl::StrCat(place.host, ":", place.port);
}

}  // namespace distill
