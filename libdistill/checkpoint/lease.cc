#include "libdistill/checkpoint/lease.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "libdistill/core/log.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

std::string ValueOf(const Lease& lease, const std::string& name) {
  const auto found = lease.find(name);
  return found == lease.end() ? "?" : found->second;
}

// Processes of two containers of a host may have the same number.
std::string NamespaceOfProcesses() {
  char name[PATH_MAX];
  const ssize_t size = readlink("/proc/self/ns/pid", name, sizeof(name));
  return size > 0 ? std::string(name, static_cast<size_t>(size)) : "?";
}

}  // namespace

Lease ParseLease(absl::string_view text) {
  Lease lease;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    lease.insert(absl::StrSplit(line, absl::MaxSplits(' ', 1)));
  }
  return lease;
}

std::string LeaseText(const Lease& own, int64_t counter) {
  std::string text = "lease 1\n";
  for (const auto& [name, value] : own) absl::StrAppend(&text, name, " ", value, "\n");
  absl::StrAppend(&text, "counter ", counter, "\n");
  return text;
}

Lease OwnLease() {
  char host[256] = "localhost";
  (void)gethostname(host, sizeof(host) - 1);
  const absl::StatusOr<std::string> boot = ReadFile("/proc/sys/kernel/random/boot_id");
  return {{"host", host},
          {"boot", boot.ok() ? std::string(absl::StripSuffix(*boot, "\n")) : host},
          {"pid", absl::StrCat(getpid())},
          {"since", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone())}};
}

Lease OwnLeaseWithoutLock() {
  Lease own = OwnLease();
  own["namespace"] = NamespaceOfProcesses();
  return own;
}

bool IsOfSameRun(Lease lease, const Lease& own) {
  return std::all_of(own.begin(), own.end(), [&](const auto& item) { return lease[item.first] == item.second; });
}

bool HasEndedHere(const Lease& lease, const Lease& own) {
  for (const char* name : {"boot", "namespace"}) {
    if (ValueOf(lease, name) != own.at(name)) return false;
  }
  int64_t pid = 0;
  return absl::SimpleAtoi(ValueOf(lease, "pid"), &pid) && kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

absl::Status InUse(const std::string& output_dir, Lease lease) {
  return absl::FailedPreconditionError(absl::StrCat(
      "output_dir ", output_dir, " is in use by another run: ",
      lease.empty() ? "it has not written who it is yet"
                    : absl::StrCat("process ", lease["pid"], " on ", lease["host"], ", since ", lease["since"]),
      "; give this run another output_dir, or end that one first"));
}

void SayWaits(const std::string& output_dir, const Lease& other, absl::Duration patience) {
  LogInfo(absl::StrCat("output_dir ", output_dir, " was last written by process ", ValueOf(other, "pid"), " on ",
                       ValueOf(other, "host"), "; waiting up to ", absl::FormatDuration(patience),
                       " to see whether it still runs"));
}

void SayTakesOver(const std::string& output_dir, const Lease& other, absl::Duration patience) {
  LogWarning(absl::StrCat("output_dir ", output_dir, " is taken over: process ", ValueOf(other, "pid"), " on ",
                          ValueOf(other, "host"), " has not renewed its lease for ", absl::FormatDuration(patience)));
}

}  // namespace distill
