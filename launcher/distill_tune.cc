// One rank of distillrun --tune: measures what communication costs here, and writes it down for later runs.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "launcher/measure_costs.h"
#include "libdistill/comm/tuning_file.h"
#include "libdistill/core/identity.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/process.h"

namespace distill {
namespace {

absl::StatusOr<std::string> DefaultPath() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (config != nullptr && *config != '\0') return absl::StrCat(config, "/libdistill/tuning.yaml");
  if (home != nullptr && *home != '\0') return absl::StrCat(home, "/.config/libdistill/tuning.yaml");
  return absl::InvalidArgumentError(
      "neither XDG_CONFIG_HOME nor HOME is set; give a file: distillrun -np N --tune FILE");
}

// Whole, or not at all.
absl::Status WriteTable(const std::string& path, const CostTable& table) {
  std::error_code error;
  const std::filesystem::path place(path);
  if (place.has_parent_path()) std::filesystem::create_directories(place.parent_path(), error);
  const std::string beside = path + ".new";
  std::ofstream file(beside);
  file << TuningFileText(table);
  file.close();
  if (file) std::filesystem::rename(beside, place, error);
  if (file && !error) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path, error ? ": " + error.message() : ""));
}

// Where ranks share hosts a call runs in two levels, with this algorithm between the hosts, or flat.
void PrintChoices(const MeasuredCosts& measured) {
  const CommTuning tuning(measured.table, AlgorithmPreference::kAuto);
  const CommLayout& all = measured.layout;
  const bool levels = CanRun(CommAlgorithm::kHierarchical, CommOperation::kAllReduce, all);
  const CommLayout across = {all.hosts, all.hosts, 1};
  constexpr CommOperation kShown = CommOperation::kAllReduce;
  std::printf("all-reduce over the fabric, %d ranks on %d host(s):\n%12s  %-34s %12s\n", all.ranks, all.hosts, "bytes",
              "algorithm", "expected us");
  for (int64_t bytes = 4; bytes <= int64_t{256} << 20; bytes *= 4) {
    const bool two_levels = levels && tuning.TakesLevels(kShown, bytes, all);
    const CommAlgorithm flat = tuning.Choose(kShown, bytes, two_levels ? across : all, /*flat_only=*/true);
    const CommAlgorithm whole = two_levels ? CommAlgorithm::kHierarchical : flat;
    const std::string name = two_levels ? absl::StrCat(NameOf(whole), ", ", NameOf(flat)) : NameOf(flat);
    std::printf("%12lld  %-34s %12.1f\n", static_cast<long long>(bytes), name.c_str(),
                PredictMicroseconds(whole, kShown, bytes, all, measured.table));
  }
}

absl::Status Tune(const std::string& path_wanted) {
  DISTILL_ASSIGN_OR_RETURN(const World world, ReadWorld());
  SetIdentity({.rank = world.rank, .world_size = world.world_size, .host = world.host});
  std::string path = path_wanted;
  if (path.empty() && world.rank == 0) {
    DISTILL_ASSIGN_OR_RETURN(path, DefaultPath());
  }
  DISTILL_ASSIGN_OR_RETURN(const MeasuredCosts measured, MeasureCosts(world));
  if (world.rank != 0) return absl::OkStatus();
  std::fputs(TuningFileText(measured.table).c_str(), stdout);
  PrintChoices(measured);
  DISTILL_RETURN_IF_ERROR(WriteTable(path, measured.table));
  std::printf("written to %s; runs read it with comm_tuning_file or DISTILL_COMM_TUNING_FILE\n", path.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  if (argc > 2) return std::fputs("usage: distillrun -np N --tune [FILE]\n", stderr), 2;
  distill::PrepareProcess();
  const absl::Status status = distill::Tune(argc == 2 ? argv[1] : "");
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}
