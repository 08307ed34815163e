#include "launcher/process_tree.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/deadline.h"

namespace distill {
namespace {

// The rest of the line of /proc/PID/status that begins so; empty when there is none.
std::string StatusLine(pid_t pid, const std::string& begin) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, begin)) return line.substr(line.find_first_not_of(" \t", begin.size()));
  }
  return "";
}

std::multimap<pid_t, pid_t> ChildrenByParent() {
  std::multimap<pid_t, pid_t> children;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return children;
  while (const dirent* entry = readdir(folder)) {
    pid_t pid = 0, parent = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid) || !absl::SimpleAtoi(StatusLine(pid, "PPid:"), &parent)) continue;
    children.emplace(parent, pid);
  }
  closedir(folder);
  return children;
}

}  // namespace

std::vector<pid_t> DescendantsOf(pid_t root) {
  const std::multimap<pid_t, pid_t> children = ChildrenByParent();
  std::vector<pid_t> found = {root};
  for (size_t i = 0; i < found.size(); ++i) {
    for (auto [child, end] = children.equal_range(found[i]); child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

std::vector<pid_t> WhoCatches(pid_t root, int signal) {
  std::vector<pid_t> processes = DescendantsOf(root);
  processes.insert(processes.begin(), root);
  std::vector<pid_t> catching;
  for (const pid_t pid : processes) {
    uint64_t caught = 0;
    if (absl::SimpleHexAtoi(StatusLine(pid, "SigCgt:"), &caught) && (caught >> (signal - 1) & 1)) {
      catching.push_back(pid);
    }
  }
  return catching;
}

// Again and again: what is ended may have just started something.
void KillDescendants(absl::Duration limit) {
  const Deadline deadline = Deadline::After(limit);
  while (!deadline.Passed()) {
    for (const pid_t pid : DescendantsOf(getpid())) kill(pid, SIGKILL);
    pid_t ended = 0;
    do {
      ended = waitpid(-1, nullptr, WNOHANG);
    } while (ended > 0);
    if (ended < 0 && errno == ECHILD) return;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

}  // namespace distill
