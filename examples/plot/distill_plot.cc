// Draws the curves of runs, out of their records.
//
//   distill_plot runs/mine                                          # runs/mine/curves.png
//   distill_plot runs/first runs/second --output compared.png       # both in each diagram
//   distill_plot s3://bucket/run --metrics loss,accuracy --output /tmp/run.png
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "examples/plot/options.h"
#include "libdistill/config/command_line.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/metrics/curve.h"
#include "libdistill/metrics/draw_figure.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

constexpr size_t kMostRuns = 8;  // as many colours as can be told apart

// Runs have the name of their folder, or where two have the same one, their path.
absl::StatusOr<std::vector<RunCurves>> ReadRuns(const std::vector<std::string>& paths) {
  std::vector<RunCurves> runs;
  std::set<std::string> names;
  for (const std::string& path : paths) {
    DISTILL_ASSIGN_OR_RETURN(runs.emplace_back(), ReadRun(path));
    names.insert(runs.back().name);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    if (names.size() < runs.size() || runs[i].name.empty()) runs[i].name = paths[i];
  }
  return runs;
}

absl::Status Write(const std::string& path, const std::string& bytes) {
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> file, CreateFile(path));
  DISTILL_RETURN_IF_ERROR(file->Append(bytes));
  return file->Commit();
}

absl::Status Plot(const std::vector<std::string>& paths, const PlotOptions& options) {
  if (paths.empty() || paths.size() > kMostRuns) {
    return absl::InvalidArgumentError(
        absl::StrCat("usage: distill_plot RUN [RUN...], with up to ", kMostRuns, " runs (distill_plot --help)"));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<RunCurves> runs, ReadRuns(paths));
  FigureOptions wanted{.title = options.title.empty() ? absl::StrJoin(paths, ", ") : options.title,
                       .smooth = options.smooth};
  for (const absl::string_view name : absl::StrSplit(options.metrics, ',', absl::SkipWhitespace())) {
    wanted.metrics.emplace_back(absl::StripAsciiWhitespace(name));
  }
  DISTILL_ASSIGN_OR_RETURN(const Figure figure, FigureOf(runs, wanted));
  DISTILL_ASSIGN_OR_RETURN(const std::string png, DrawPng(figure));
  std::string output = options.output;
  if (output.empty()) output = paths.size() == 1 ? JoinPath(FolderOfRun(paths[0]), "curves.png") : "curves.png";
  DISTILL_RETURN_IF_ERROR(Write(output, png));
  std::printf("%s\n", output.c_str());
  return absl::OkStatus();
}

absl::Status Run(int argc, char** argv) {
  PlotOptions options;
  const Description description = DescriptionOf(options);
  const ProgramText program = {
      "distill_plot",
      "Draws curves of training and evaluation, of one run or of several in the same diagrams. RUN is an output_dir, "
      "or its metrics.jsonl or metrics.csv, local or of the form s3://BUCKET/KEY; the run need not have ended.",
      "RUN [RUN...]"};
  DISTILL_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(argc, argv, program, {}, description));
  if (!line.message.empty()) {
    std::printf("%s", line.message.c_str());
    return absl::OkStatus();
  }
  DISTILL_RETURN_IF_ERROR(description.Check());
  SetStoreOptions(options.store);
  return Plot(line.positional, options);
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  const absl::Status status = distill::Run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 2;
}
