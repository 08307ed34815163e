// The options of Run (run/run.h).
#pragma once

#include "absl/status/status.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/describe.h"
#include "libdistill/store/store_options.h"

namespace distill {

// auto: this rank's GPU where there is one, else the CPU.
enum class DeviceChoice { kAuto, kCpu, kCuda };
constexpr EnumNames<DeviceChoice, 3> NamesOf(DeviceChoice) {
  return {{{"auto", DeviceChoice::kAuto}, {"cpu", DeviceChoice::kCpu}, {"cuda", DeviceChoice::kCuda}}};
}

struct RunOptions {
  DeviceChoice device = DeviceChoice::kAuto;
  // The same bits from run to run, on the same machines with the same number of ranks and threads; on GPUs some
  // operations are slower, and those that have no deterministic algorithm throw.
  bool deterministic = false;
  // Threads stay on this rank's own cores, with a GPU on those near it (run/device.h, UseOwnCores); the same on every
  // rank.
  bool pin_threads = true;
  CommunicatorOptions communicator = {};
  StoreOptions store = {};  // set for the whole process
  // For what this rank's command line or config file was refused, if so: `body` is then not called, and all ranks end
  // with this error, also those that found nothing wrong with theirs.
  absl::Status input = {};
};

template <class V>
void Describe(V& v, RunOptions& o) {
  v.Group("Run");
  v.Field("device", o.device, "where to compute")
      .AliasOf("use_cpu", {{"true", "cpu"}, {"false", "auto"}})
      .AliasOf("no_cuda", {{"true", "cpu"}, {"false", "auto"}})
      .Similar("accelerator");
  v.Field("deterministic", o.deterministic,
          "the same bits from run to run of as many ranks and threads; free on CPUs, slower on GPUs")
      .Alias("full_determinism");
  v.Field("pin_threads", o.pin_threads,
          "ranks of a host divide its cores (with GPUs: those near each one's), and each stays on its own, unless a "
          "launcher or the user has bound it");
  Describe(v, o.communicator);
  Describe(v, o.store);
}

}  // namespace distill
