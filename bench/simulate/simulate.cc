// Collectives on clusters that are not there, in virtual time (libdistill/simulate/): a line for each cluster, number
// of hosts, operation and size. Nothing here is measured. `bench/run simulate` starts it.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/arguments.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/simulate/cluster.h"

namespace distill {
namespace {

struct Grid {
  std::vector<std::string> clusters = {"p4d", "p5"};
  std::vector<int> hosts = {2, 8, 64, 512};
  std::vector<std::string> operations = {"all-reduce"};
  std::vector<int64_t> sizes;
  std::string algorithm = "auto";
  double handshake = 0;
};

absl::StatusOr<CommOperation> OperationOf(const std::string& name) {
  for (const CommOperation operation : {CommOperation::kAllReduce, CommOperation::kReduceScatter,
                                        CommOperation::kAllGather, CommOperation::kBroadcast, CommOperation::kReduce}) {
    if (name == NameOf(operation)) return operation;
  }
  return absl::InvalidArgumentError(absl::StrCat("no operation '", name, "' in virtual time"));
}

absl::StatusOr<AlgorithmPreference> AlgorithmOf(const std::string& name) {
  if (name == "auto") return AlgorithmPreference::kAuto;
  for (const CommAlgorithm algorithm :
       {CommAlgorithm::kRecursiveDoubling, CommAlgorithm::kDirectExchange, CommAlgorithm::kRabenseifner,
        CommAlgorithm::kBinomialTree, CommAlgorithm::kBinaryTree, CommAlgorithm::kRing}) {
    if (name == NameOf(algorithm)) return PreferenceFor(algorithm);
  }
  return absl::InvalidArgumentError(absl::StrCat("no algorithm '", name, "' between hosts"));
}

absl::Status Bench(const Grid& grid) {
  DISTILL_ASSIGN_OR_RETURN(const AlgorithmPreference preference, AlgorithmOf(grid.algorithm));
  std::printf("# predicted in virtual time, not measured: microseconds; share of a host's cards; dependent steps\n");
  for (const std::string& name : grid.clusters) {
    Cluster cluster = name == "p4d" ? P4d() : P5();
    if (grid.handshake > 0) {
      cluster.eager_bytes = 64 << 10;
      cluster.handshake = grid.handshake;
    }
    for (const std::string& operation : grid.operations) {
      DISTILL_ASSIGN_OR_RETURN(const CommOperation which, OperationOf(operation));
      for (const int hosts : grid.hosts) {
        for (const int64_t bytes : grid.sizes) {
          const SimulatedCall call = {.hosts = hosts, .operation = which, .bytes = bytes, .preference = preference};
          DISTILL_ASSIGN_OR_RETURN(const SimulatedTime time, Simulate(cluster, call));
          DISTILL_ASSIGN_OR_RETURN(const int64_t steps, CountDependentSteps(cluster, call));
          std::printf("%-4s %4d x %d %-14s %11lld %10.1f us  %5.3f %6lld\n", name.c_str(), hosts,
                      cluster.ranks_per_host, operation.c_str(), static_cast<long long>(bytes), time.microseconds,
                      time.share_of_network, static_cast<long long>(steps));
          std::printf(
              "JSON {\"cluster\": \"%s\", \"hosts\": %d, \"per_host\": %d, \"operation\": \"%s\", \"bytes\": %lld, "
              "\"us\": %.3f, \"share\": %.9f, \"bus\": %.4f, \"steps\": %lld}\n",
              name.c_str(), hosts, cluster.ranks_per_host, operation.c_str(), static_cast<long long>(bytes),
              time.microseconds, time.share_of_network, time.bus_gigabytes_per_second, static_cast<long long>(steps));
          std::fflush(stdout);
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Grid grid;
  distill::Arguments arguments("collectives on clusters that are not there, in virtual time");
  arguments.Add("--clusters", grid.clusters, "p4d, p5").OneOf({"p4d", "p5"});
  arguments.Add("--hosts", grid.hosts, "of 8 ranks each");
  arguments.Add("--operations", grid.operations);
  arguments.Add("--sizes", grid.sizes, "bytes, of the result of all ranks").Required();
  arguments.Add("--algorithm", grid.algorithm, "between the hosts");
  arguments.Add("--handshake", grid.handshake, "latencies more for messages above 64 KiB");
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  const absl::Status status = distill::Bench(grid);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
