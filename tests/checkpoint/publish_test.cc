// What is left of a save, and of the one before it, when the process that publishes it is killed at any moment.
#include <sys/syscall.h>

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/files.h"
#include "tests/checkpoint/saved.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/traced.h"

namespace distill {
namespace {

using testing::TempFolder;
using testing::Trace;
using testing::TracedCall;
using testing::TraceEnd;
using Names = std::vector<std::string>;

constexpr char kIndex[] = "model.safetensors.index.json";

Names Shards(int count) {
  Names names;
  for (int i = 1; i <= count; ++i) names.push_back(absl::StrCat("model-0000", i, "-of-0000", count, ".safetensors"));
  return names;
}

// Every file of a save says which one it is of; the index names the shards as well.
absl::Status Publish(const std::string& folder, const std::string& save, int shards) {
  return PublishFiles(folder, [&](const std::string& draft) -> absl::Status {
    const auto write = [&](const std::string& name, const std::string& more) {
      return WriteWholeFile(JoinPath(draft, name), save + more);
    };
    std::string index;
    for (const std::string& name : shards == 1 ? Names{"model.safetensors"} : Shards(shards)) {
      DISTILL_RETURN_IF_ERROR(write(name, ""));
      absl::StrAppend(&index, " ", name);
    }
    if (shards > 1) DISTILL_RETURN_IF_ERROR(write(kIndex, index));
    DISTILL_RETURN_IF_ERROR(write("tokenizer.json", ""));
    return write("config.json", "");
  });
}

// Which save transformers would read there: "none" where it finds no model, "mixed" where it would take files of two.
std::string SaveIn(const std::string& folder) {
  const auto config = ReadFile(JoinPath(folder, "config.json"));
  if (!config.ok()) return "none";
  Names weights = {"model.safetensors"};
  if (!FileExists(JoinPath(folder, weights[0]))) {
    const auto index = ReadFile(JoinPath(folder, kIndex));
    if (!index.ok()) return "none";
    weights = absl::StrSplit(*index, ' ');
    if (weights[0] != *config) return "mixed";
    weights.erase(weights.begin());
  }
  weights.push_back("tokenizer.json");
  for (const std::string& name : weights) {
    const auto text = ReadFile(JoinPath(folder, name));
    if (!text.ok() || *text != *config) return "mixed";
  }
  return *config;
}

// Kills the second save before call `at` of those that change names or sync; false: it has fewer.
bool PublishUntil(const std::string& folder, int shards, int at) {
  int calls = 0;
  const TraceEnd end = Trace([&] { return Publish(folder, "two", shards); },
                             [&](const TracedCall& call) {
                               return (testing::ChangesNames(call) || call.number == SYS_fsync) && ++calls == at;
                             });
  REQUIRE((end == TraceEnd::kKilled || end == TraceEnd::kFinished));
  return end == TraceEnd::kKilled;
}

bool MayTrace() {
  const bool may =
      Trace([] { return absl::OkStatus(); }, [](const TracedCall&) { return false; }) != TraceEnd::kRefused;
  if (!may) WARN("skipped: this system lets no process trace another one");
  return may;
}

}  // namespace

TEST_CASE("a process that is killed between any two steps of publishing leaves files of one save", "[traced]") {
  if (!MayTrace()) return;
  struct Saves {
    int first, second;  // shards
  };
  for (const auto [first, second] : {Saves{2, 2}, Saves{2, 3}, Saves{3, 1}, Saves{1, 2}, Saves{1, 1}}) {
    bool was_old = false, was_new = false;
    for (int at = 1;; ++at) {
      const TempFolder out;
      const std::string& folder = out.path();
      out.Write("README.md", "a person's");
      REQUIRE(Publish(folder, "one", first) == absl::OkStatus());
      const bool killed = PublishUntil(folder, second, at);
      CAPTURE(first, second, at, ListEntries(folder).value());
      const std::string found = SaveIn(folder);
      CHECK((found == "one" || found == "two" || found == "none"));
      // What a run does first in its folder.
      REQUIRE(PublishFiles(folder, [](const std::string& draft) {
                return WriteWholeFile(JoinPath(draft, "run.yaml"), "seed: 1");
              }) == absl::OkStatus());
      const std::string completed = SaveIn(folder);
      CHECK((completed == "one" || completed == "two"));
      CHECK_FALSE((found == "two" && completed == "one"));
      CHECK_FALSE((was_new && completed == "one"));  // what stands once is not given up
      was_old = was_old || completed == "one";
      was_new = was_new || completed == "two";
      const auto weights = static_cast<size_t>(completed == "one" ? first : second);
      const size_t others = 4 + (weights > 1 ? 1 : 0);  // config.json, tokenizer.json, run.yaml, README.md, the index
      CHECK(ListEntries(folder)->size() == weights + others);
      if (!killed) break;
    }
    CHECK(was_old);
    CHECK(was_new);
  }
}

TEST_CASE("a save that was interrupted is completed by the next checkpoint in its folder", "[traced]") {
  if (!MayTrace()) return;
  const TempFolder out;
  REQUIRE(Publish(out.path(), "one", 2) == absl::OkStatus());
  bool stands = false;
  for (int at = 1; !stands && PublishUntil(out.path(), 2, at); ++at) stands = EntryExists(out / ".model.new");
  REQUIRE(stands);
  REQUIRE(testing::Save(out.path(), 3) == absl::OkStatus());
  CHECK(SaveIn(out.path()) == "two");
  CHECK_FALSE(EntryExists(out / ".model.new"));
}

TEST_CASE("a checkpoint's checksums are of the bytes as they were written: no file is read back", "[traced]") {
  if (!MayTrace()) return;
  const TempFolder out;
  Names read;
  const auto save = [&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(CheckpointDraft draft, CheckpointDraft::Begin(out.path(), 7));
    DISTILL_RETURN_IF_ERROR(WriteWholeFile(JoinPath(draft.folder(), "config.json"), "{}"));
    DISTILL_ASSIGN_OR_RETURN(const auto file, CreateFile(JoinPath(draft.folder(), "vocab.txt")));
    for (const char* word : {"one\n", "two\n"}) DISTILL_RETURN_IF_ERROR(file->Append(word));
    DISTILL_RETURN_IF_ERROR(file->Commit());
    const std::string values(80, 'v');
    DISTILL_RETURN_IF_ERROR(draft.WriteTensors({{"a", {.dtype = DType::kFloat32, .shape = {20}, .size_bytes = 80}}},
                                               [&](const std::string&, ByteSink sink) { return sink(values); }));
    return draft.Commit(testing::StateOf(7));
  };
  const TraceEnd end = Trace(save, [&](const TracedCall& call) {
    const bool reads = call.number == SYS_read || call.number == SYS_pread64 || call.number == SYS_preadv;
    if (reads && absl::StartsWith(testing::FileOf(call), out.path())) read.push_back(testing::FileOf(call));
    return false;
  });
  REQUIRE(end == TraceEnd::kFinished);
  CHECK(read == Names{});
  const auto checkpoint = ReadCheckpoint(CheckpointFolder(out.path(), 7));  // compares every checksum
  REQUIRE(checkpoint.status() == absl::OkStatus());
  CHECK(checkpoint->state.step == 7);
}

TEST_CASE("a file that something else wrote into a checkpoint has its checksum, too") {
  const TempFolder out;
  auto draft = CheckpointDraft::Begin(out.path(), 7);
  REQUIRE(draft.ok());
  REQUIRE(WriteWholeFile(JoinPath(draft->folder(), "config.json"), "{}") == absl::OkStatus());
  std::ofstream(JoinPath(draft->folder(), "config.json")) << "{\"other\": 1}";  // over it, unseen
  std::ofstream(JoinPath(draft->folder(), "notes.txt")) << "unseen";
  REQUIRE(draft->WriteTensors({}, testing::WriteNoTensor) == absl::OkStatus());
  REQUIRE(draft->Commit(testing::StateOf(7)) == absl::OkStatus());
  CHECK(ReadCheckpoint(CheckpointFolder(out.path(), 7)).status() == absl::OkStatus());
}

TEST_CASE("each new folder on the way to an output_dir is synced into its parent", "[traced]") {
  if (!MayTrace()) return;
  const TempFolder root;
  Names synced;
  const TraceEnd end = Trace([&] { return MakeFolder(root / "a/b/c"); },
                             [&](const TracedCall& call) {
                               if (call.number == SYS_fsync) synced.push_back(testing::FileOf(call));
                               return false;
                             });
  REQUIRE(end == TraceEnd::kFinished);
  CHECK(synced == Names{root.path(), root / "a", root / "a/b"});
  CHECK(FolderExists(root / "a/b/c"));
  CHECK(MakeFolder(root / "a/b/c") == absl::OkStatus());
  CHECK(MakeFolder(root / "a/b/d/") == absl::OkStatus());
  CHECK(FolderExists(root / "a/b/d"));
  root.Write("file", "no folder");
  CHECK(absl::StrContains(MakeFolder(root / "file/x").message(), root / "file"));
}

}  // namespace distill
