// Looks at data sets, and moves them between stores.
//
//   distill_data count s3://bucket/chats --split train
//   distill_data show train.parquet --rows 3
//   distill_data tokenize train.parquet s3://bucket/tokens --tokenizer models/teacher
//   distill_data verify s3://bucket/data_train.hdf5
//   distill_data copy data/ s3://bucket/chats
//   distill_data fetch org/name --repo_type dataset
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "examples/data/copy.h"
#include "examples/data/fetch.h"
#include "examples/data/options.h"
#include "examples/data/recordings.h"
#include "examples/data/rows.h"
#include "examples/data/sample.h"
#include "examples/data/tokens.h"
#include "libdistill/config/command_line.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hub_path.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

constexpr char kCommands[] =
    "count PATH | show PATH | stats PATH | verify PATH | sample PATH FILE | tokenize PATH FOLDER | copy FROM TO | "
    "fetch NAME";

absl::Status DispatchRecordings(const std::string& command, const std::string& path, const DataOptions& options) {
  if (command == "count") return CountTrials(path, options);
  if (command == "show") return PrintTrials(path, options);
  if (command == "stats") return PrintTrialStats(path, options);
  if (command == "verify") return VerifyTrials(path, options);
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is HDF5: count, show, stats, verify and copy are for it, and ", command, " is for rows"));
}

absl::Status Dispatch(const std::vector<std::string>& words, const DataOptions& options) {
  const std::string command = words.empty() ? "" : words[0];
  if (words.size() == 2 && command == "fetch") return FetchRepository(words[1], options);
  if (words.size() == 2) {
    DISTILL_ASSIGN_OR_RETURN(const std::string path, LocalData(words[1], options));
    if (HasRecordings(path)) return DispatchRecordings(command, path, options);
    if (command == "count") return CountRows(path, options.split, options.reading);
    if (command == "show" && !options.tokenizer.empty()) return PrintTokens(path, options);
    if (command == "show") return PrintRows(path, options.split, options.rows, options.reading);
    if (command == "stats") return PrintStats(path, options);
    if (command == "verify") return VerifyData(path, options);
  }
  if (words.size() == 3) {
    DISTILL_ASSIGN_OR_RETURN(const std::string path, LocalData(words[1], options));
    if (command == "copy") return CopyFiles(path, words[2], options.verify);
    if (command == "tokenize") return Tokenize(path, words[2], options);
    if (command == "sample") return SampleRows(path, words[2], options);
  }
  return absl::InvalidArgumentError(absl::StrCat("usage: distill_data ", kCommands, " (distill_data --help)"));
}

absl::Status Run(int argc, char** argv) {
  DataOptions options;
  const Description description = DescriptionOf(options);
  const ProgramText program = {
      "distill_data",
      "Looks at data sets, makes others of them, and moves them between stores. Paths are "
      "local or of the form s3://BUCKET/KEY; data may also be data sets of the hub (org/name). "
      "fetch downloads what is needed of a model or a data set of the hub, and prints its "
      "folder.",
      kCommands};
  DISTILL_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(argc, argv, program, {}, description));
  if (!line.message.empty()) {
    std::printf("%s", line.message.c_str());
    return absl::OkStatus();
  }
  SetStoreOptions(options.store);
  if (!options.tokenizer.empty()) {
    DISTILL_ASSIGN_OR_RETURN(options.tokenizer,
                             LocalPath(options.tokenizer, {HubKind::kModel, {HubContents::kTokenizer}}));
  }
  return Dispatch(line.positional, options);
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  const absl::Status status = distill::Run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 2;
}
