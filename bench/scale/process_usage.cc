#include "bench/scale/process_usage.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace distill {
namespace {

// The numbers of a file with lines like "Pss:   1234 kB".
std::map<std::string, int64_t> NumbersIn(const char* path) {
  std::map<std::string, int64_t> numbers;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos) numbers[line.substr(0, colon)] = std::atoll(line.c_str() + colon + 1);
  }
  return numbers;
}

// Of the socket's own end or the other one; 0: it is none of TCP's.
int PortOf(int fd, int (*end)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (end(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port) : 0;
}

void AddTraffic(int fd, ConnectionTraffic& traffic) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  traffic.bytes_sent += static_cast<int64_t>(info.tcpi_bytes_sent);
  traffic.bytes_received += static_cast<int64_t>(info.tcpi_bytes_received);
  traffic.segments_sent += info.tcpi_data_segs_out;
  traffic.segments_received += info.tcpi_data_segs_in;
}

void CountSocket(int fd, int port, ProcessUsage& usage) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  const int own = PortOf(fd, &getsockname);
  if (own == 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0) return;
  const int other = PortOf(fd, &getpeername);
  if (listens != 0) {
    ++usage.listeners;
  } else if (own == port || other == port) {
    ++usage.at_meeting;
    AddTraffic(fd, usage.meeting);
  } else if (other != 0) {
    ++usage.connections;
  }
}

void CountDescriptors(int port, ProcessUsage& usage) {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] == '.' || fd == dirfd(folder)) continue;
    ++usage.descriptors;
    char target[256] = {};
    const std::string link = absl::StrCat("/proc/self/fd/", fd);
    if (readlink(link.c_str(), target, sizeof(target) - 1) <= 0) continue;
    if (absl::StartsWith(target, "socket:")) CountSocket(fd, port, usage);
    usage.processes += absl::StrContains(target, "[pidfd]");
    usage.memories += absl::StrContains(target, "memfd:");
  }
  closedir(folder);
}

}  // namespace

absl::StatusOr<ProcessUsage> LookAtProcess(int port) {
  std::map<std::string, int64_t> memory = NumbersIn("/proc/self/smaps_rollup");
  if (memory.count("Pss") == 0)
    return absl::UnavailableError("no /proc/self/smaps_rollup: this kernel does not say what a process takes");
  ProcessUsage usage;
  usage.memory_bytes = memory["Pss"] << 10;
  usage.private_bytes = (memory["Private_Clean"] + memory["Private_Dirty"]) << 10;
  usage.threads = NumbersIn("/proc/self/status")["Threads"];
  CountDescriptors(port, usage);
  return usage;
}

}  // namespace distill
