#include "libdistill/world/handed_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "libdistill/world/process.h"

namespace distill {
namespace {

// The descriptor that the environment names, if it still is the socket that the launcher meant; else -1.
int NamedSocket() {
  const char* text = std::getenv(kRendezvousSocket);
  int fd = -1;
  unsigned long long inode = 0;
  if (text == nullptr || std::sscanf(text, "%d:%llu", &fd, &inode) != 2) return -1;
  struct stat about = {};
  const bool same = fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode) && about.st_ino == inode;
  return same ? fd : -1;
}

bool IsTcp(int fd) {
  int type = 0, domain = 0;
  socklen_t size = sizeof(int);
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
         getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_INET;
}

}  // namespace

absl::StatusOr<Socket> BindFreePort() {
  Socket made(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  if (made.open() && setsockopt(made.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
      bind(made.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    return made;
  }
  const int error = errno;
  return absl::UnavailableError(
      absl::StrCat("no free port on loopback: ", std::strerror(error), DescriptorRemedy(error)));
}

void HandOver(const Socket& socket) {
  struct stat about = {};
  if (fstat(socket.fd(), &about) != 0) return;
  fcntl(socket.fd(), F_SETFD, 0);
  setenv(kRendezvousSocket, absl::StrCat(socket.fd(), ":", about.st_ino).c_str(), 1);
}

Socket TakeHandedSocket(const HostPort& place) {
  const int inherited = NamedSocket();
  if (inherited < 0 || !IsTcp(inherited)) return Socket();
  Socket own(fcntl(inherited, F_DUPFD_CLOEXEC, 0));
  if (!own.open() || LocalPort(own) != place.port || !IsLoopback(place.host) || !IsLoopback(LocalAddress(own))) {
    return Socket();
  }
  if (listen(own.fd(), SOMAXCONN) != 0) return Socket();
  close(inherited);
  return own;
}

}  // namespace distill
