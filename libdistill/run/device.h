// Which device a run computes on, and how many threads it may use: decided once.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <string>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/run/run_options.h"
#include "libdistill/world/world.h"

namespace distill {

// InvalidArgument: kCuda on a machine without a usable GPU.
[[nodiscard]] absl::StatusOr<c10::Device> ChooseDevice(DeviceChoice choice, const World& world);

// Warns of a type in which this device computes in software.
void WarnOfSlowType(c10::Device device, c10::ScalarType type);

// From now on this process computes the same bits whenever it does the same on the same kind of machine with the same
// number of threads: LibTorch's and cuDNN's deterministic algorithms, a fixed workspace for cuBLAS. An operation that
// has none throws. Before the first operation on a GPU.
void UseDeterministicAlgorithms();

// One thread pool a rank, of its share of the cores (world/cores.h); OMP_NUM_THREADS overrides it.
void UseShareOfCores(const World& world);

// Binds this thread, and with it those that it starts from now on (the pool, the gradients' communication, the thread
// that makes batches), to this rank's own cores (world/own_cores.h), and makes the pool as large as they are: to those
// near its GPU, of the PCI address `gpu`, which is empty where CPUs compute. Says in the log which they are. Threads
// that run already, the network's and the watchdogs, stay free. Nothing is bound where the user has bound threads
// (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY, KMP_AFFINITY are set) or a quota limits the time and not the cores.
// Every rank must call it; the error is the communicator's.
// `root`: a folder in front of /sys, for tests.
[[nodiscard]] absl::Status UseOwnCores(Communicator& comm, const World& world, bool binds, const std::string& gpu = "",
                                       const std::string& root = "");

}  // namespace distill
