// Looks at data sets, and moves them between stores.
//
//   distill_data count s3://bucket/chats --split train
//   distill_data show train.parquet --rows 3
//   distill_data tokenize train.parquet s3://bucket/tokens --tokenizer models/teacher
//   distill_data verify s3://bucket/data_train.hdf5
//   distill_data copy data/ s3://bucket/chats
//   distill_data fetch org/name --repo_type dataset
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "examples/data/copy.h"
#include "examples/data/fetch.h"
#include "examples/data/options.h"
#include "examples/data/recordings.h"
#include "examples/data/rows.h"
#include "examples/data/sample.h"
#include "examples/data/tokens.h"
#include "libdistill/config/command_line.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/token_folder.h"
#include "libdistill/store/hub_path.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

struct Command {
  const char* name;
  const char* arguments;
  const char* about;
  bool takes_tokenizer = false;
};

constexpr Command kCommands[] = {
    {"count", "PATH", "rows and columns of each file; trials of HDF5; samples of a folder of tokens"},
    {"show", "PATH", "the first rows as JSON, or with --tokenizer as tokens; what is in HDF5", true},
    {"stats", "PATH", "how long samples are, and how much of a batch is padding (--tokenizer)", true},
    {"verify", "PATH", "reads all of it, and says what is damaged"},
    {"sample", "PATH FILE.jsonl", "rows drawn at random (--rows, --label, --seed)"},
    {"tokenize", "PATH FOLDER", "a folder of tokens, which distill_llm takes as dataset_name (--tokenizer)", true},
    {"copy", "FROM TO", "a file or a folder, between disks and S3 (--verify)"},
    {"fetch", "NAME", "a model of the hub, or a data set (--repo_type dataset): downloads it, and prints its folder"}};

std::string CallOf(const Command& command) { return absl::StrCat(command.name, " ", command.arguments); }

std::string CommandsAsHelp() {
  std::string help;
  for (const Command& command : kCommands) absl::StrAppendFormat(&help, "  %-24s%s\n", CallOf(command), command.about);
  return help;
}

// Before anything is read or downloaded.
absl::StatusOr<Command> CheckCall(const std::vector<std::string>& words, const DataOptions& options) {
  const auto* const found = std::find_if(std::begin(kCommands), std::end(kCommands), [&](const Command& command) {
    return !words.empty() && words[0] == command.name;
  });
  if (found == std::end(kCommands)) {
    const auto name = [](std::string* out, const Command& command) { out->append(command.name); };
    return absl::InvalidArgumentError(
        absl::StrCat(words.empty() ? "a command is missing" : absl::StrCat("there is no command '", words[0], "'"),
                     "; commands are ", absl::StrJoin(kCommands, ", ", name), " (distill_data --help)"));
  }
  const std::vector<std::string> arguments = absl::StrSplit(found->arguments, ' ');
  if (words.size() != arguments.size() + 1) {
    return absl::InvalidArgumentError(absl::StrCat("usage: distill_data ", CallOf(*found), " (distill_data --help)"));
  }
  if (words[0] == "sample") DISTILL_RETURN_IF_ERROR(CheckSampleName(words[2]));
  if (words[0] == "tokenize") DISTILL_RETURN_IF_ERROR(CheckHasTokenizer(options));
  return *found;
}

absl::Status IsForRows(const std::string& path, const std::string& what, const std::string& command) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, " is ", what, ": count, show, stats, verify and copy are for it, and ", command, " is for rows"));
}

absl::Status DispatchRecordings(const std::string& command, const std::string& path, const DataOptions& options) {
  if (command == "count") return CountTrials(path, options);
  if (command == "show") return PrintTrials(path, options);
  if (command == "stats") return PrintTrialStats(path, options);
  if (command == "verify") return VerifyTrials(path, options);
  return IsForRows(path, "HDF5", command);
}

absl::Status DispatchTokens(const std::string& command, const std::string& path, const DataOptions& options) {
  if (command == "count") return CountTokens(path);
  if (command == "show") return PrintTokens(path, options);
  if (command == "stats") return PrintStats(path, options);
  if (command == "verify") return VerifyTokens(path);
  return IsForRows(path, "a folder of tokens", command);
}

absl::Status DispatchRows(const std::vector<std::string>& words, const std::string& path, const DataOptions& options) {
  const std::string& command = words[0];
  if (command == "count") return CountRows(path, options.split, options.reading);
  if (command == "show" && !options.tokenizer.empty()) return PrintTokens(path, options);
  if (command == "show") return PrintRows(path, options.split, options.rows, options.reading);
  if (command == "stats") return PrintStats(path, options);
  if (command == "verify") return VerifyRows(path, options.split, options.reading);
  if (command == "sample") return SampleRows(path, words[2], options);
  return Tokenize(path, words[2], options);
}

absl::Status Dispatch(const std::vector<std::string>& words, const DataOptions& options) {
  const std::string& command = words[0];
  if (command == "fetch") return FetchRepository(words[1], options);
  DISTILL_ASSIGN_OR_RETURN(const std::string path, LocalData(words[1], options));
  if (command == "copy") return CopyFiles(path, words[2], options.verify);
  DISTILL_ASSIGN_OR_RETURN(const bool has_recordings, HasRecordings(path, options.split));
  if (has_recordings) return DispatchRecordings(command, path, options);
  if (IsTokenFolder(path)) return DispatchTokens(command, path, options);
  return DispatchRows(words, path, options);
}

absl::Status Run(int argc, char** argv) {
  DataOptions options;
  const Description description = DescriptionOf(options);
  const std::string commands = CommandsAsHelp();
  const ProgramText program = {
      "distill_data",
      "Looks at data sets, makes others of them, and moves them between stores. Paths are "
      "local or of the form s3://BUCKET/KEY; data may also be data sets of the hub (org/name).",
      "COMMAND PATH...", commands.c_str()};
  DISTILL_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(argc, argv, program, {}, description));
  if (!line.message.empty()) {
    std::printf("%s", line.message.c_str());
    return absl::OkStatus();
  }
  DISTILL_ASSIGN_OR_RETURN(const Command command, CheckCall(line.positional, options));
  SetStoreOptions(options.store);
  if (command.takes_tokenizer && !options.tokenizer.empty()) {
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
