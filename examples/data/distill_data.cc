// Looks at data sets, and moves them between stores.
//
//   distill_data count s3://bucket/chats --split train
//   distill_data show train.parquet --rows 3
//   distill_data copy data/ s3://bucket/chats
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "examples/data/copy.h"
#include "examples/data/rows.h"
#include "libdistill/config/command_line.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/row_options.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

struct DataOptions {
  std::string split;
  int64_t rows = 5;
  bool verify = false;
  RowOptions reading;
  StoreOptions store;
};

template <class V>
void Describe(V& v, DataOptions& o) {
  v.Group("Options");
  v.Field("split", o.split, "of a folder: the files whose names start with it");
  v.Field("rows", o.rows, AtLeast(1), "how many rows to show");
  v.Field("verify", o.verify, "read what was copied back, and compare");
  Describe(v, o.reading);
  Describe(v, o.store);
}

absl::Status Run(int argc, char** argv) {
  DataOptions options;
  const Description description = DescriptionOf(options);
  const ProgramText program = {
      "distill_data",
      "Looks at data sets, and moves them between stores. Paths are local or of the form s3://BUCKET/KEY.",
      "count PATH | show PATH | copy FROM TO"};
  DISTILL_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(argc, argv, program, {}, description));
  if (!line.message.empty()) {
    std::printf("%s", line.message.c_str());
    return absl::OkStatus();
  }
  SetStoreOptions(options.store);
  const std::vector<std::string>& words = line.positional;
  if (words.size() == 2 && words[0] == "count") return CountRows(words[1], options.split, options.reading);
  if (words.size() == 2 && words[0] == "show") return PrintRows(words[1], options.split, options.rows, options.reading);
  if (words.size() == 3 && words[0] == "copy") return CopyFiles(words[1], words[2], options.verify);
  return absl::InvalidArgumentError("usage: distill_data count PATH | show PATH | copy FROM TO (distill_data --help)");
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  const absl::Status status = distill::Run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 2;
}
