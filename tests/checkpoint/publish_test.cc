// What is left of a save, and of the one before it, when the process that publishes it is killed at any moment.
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
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

const Names kBare = {"metrics.json", "model.safetensors", "model_options.yaml"};

// As distill_brain2text's best model: none of its files is one by which other programs find a model.
absl::Status PublishBare(const std::string& folder, const std::string& save) {
  return PublishFiles(folder, [&](const std::string& draft) -> absl::Status {
    for (const std::string& name : kBare) DISTILL_RETURN_IF_ERROR(WriteWholeFile(JoinPath(draft, name), save));
    return absl::OkStatus();
  });
}

std::string BareSaveIn(const std::string& folder) {
  std::set<std::string> texts;
  for (const std::string& name : kBare) texts.insert(ReadFile(JoinPath(folder, name)).value_or("none"));
  if (texts.size() == 1) return *texts.begin();
  return texts.size() == 2 && texts.count("none") > 0 ? "none" : "mixed";
}

// Kills the save before call `at` of those that change names or sync; false: it has fewer.
bool RunUntil(const std::function<absl::Status()>& save, int at) {
  int calls = 0;
  const TraceEnd end = Trace(save, [&](const TracedCall& call) {
    return (testing::ChangesNames(call) || call.number == SYS_fsync) && ++calls == at;
  });
  REQUIRE((end == TraceEnd::kKilled || end == TraceEnd::kFinished));
  return end == TraceEnd::kKilled;
}

bool PublishUntil(const std::string& folder, int shards, int at) {
  return RunUntil([&] { return Publish(folder, "two", shards); }, at);
}

// Leaves a save that stands, and waits in .model.new.
void LeaveStanding(const std::string& folder) {
  bool stands = false;
  for (int at = 1; !stands && PublishUntil(folder, 2, at); ++at) stands = EntryExists(JoinPath(folder, ".model.new"));
  REQUIRE(stands);
}

// Syncs and changes of names in `folder`, in their order, up to the end of .model.new: "sync .", "rename A B",
// "remove A". Syncs of one thing that follow one another are one.
Names StepsOf(const std::string& folder, const std::function<absl::Status()>& save) {
  Names steps;
  bool ended = false;
  const auto relative = [&](std::string path) {
    if (path == folder) return std::string(".");
    path = absl::StrReplaceAll(path, {{absl::StrCat(folder, "/"), ""}});
    const size_t draft = path.find(".model.tmp.");
    if (draft == 0) path.erase(10, path.find('/') == std::string::npos ? path.npos : path.find('/') - 10);
    return path;
  };
  const TraceEnd end = Trace(save, [&](const TracedCall& call) {
    Names paths = testing::PathsOf(call);
    const bool syncs = call.number == SYS_fsync;
    if (syncs) paths = {testing::FileOf(call)};
    if (ended || paths.empty()) return false;
    std::string step = syncs ? "sync" : paths.size() == 2 ? "rename" : "remove";
    for (const std::string& path : paths) absl::StrAppend(&step, " ", relative(path));
    ended = step == "rename .model.new .model.tmp";
    if (steps.empty() || steps.back() != step) steps.push_back(step);
    return false;
  });
  REQUIRE(end == TraceEnd::kFinished);
  return steps;
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

TEST_CASE("a save without config.json that is killed between any two steps leaves files of one save", "[traced]") {
  if (!MayTrace()) return;
  bool was_old = false, was_new = false;
  for (int at = 1;; ++at) {
    const TempFolder out;
    REQUIRE(PublishBare(out.path(), "one") == absl::OkStatus());
    const bool killed = RunUntil([&] { return PublishBare(out.path(), "two"); }, at);
    CAPTURE(at, ListEntries(out.path()).value());
    const std::string found = BareSaveIn(out.path());
    CHECK((found == "one" || found == "two" || found == "none"));
    REQUIRE(FinishPublishing(out.path()) == absl::OkStatus());
    const std::string completed = BareSaveIn(out.path());
    CHECK((completed == "one" || completed == "two"));
    CHECK_FALSE((was_new && completed == "one"));
    was_old = was_old || completed == "one";
    was_new = was_new || completed == "two";
    if (!killed) break;
  }
  CHECK(was_old);
  CHECK(was_new);
}

TEST_CASE("what a save does is on disk before its next step", "[traced]") {
  if (!MayTrace()) return;
  const TempFolder out;
  REQUIRE(Publish(out.path(), "one", 1) == absl::OkStatus());
  CHECK(StepsOf(out.path(), [&] { return Publish(out.path(), "two", 1); }) ==
        Names{"sync .", "sync .model.tmp/config.json", "sync .model.tmp/model.safetensors",
              "sync .model.tmp/tokenizer.json", "sync .model.tmp/.files", "sync .model.tmp",
              "rename .model.tmp .model.new", "sync .", "remove config.json", "sync .",
              "rename .model.new/model.safetensors model.safetensors",
              "rename .model.new/tokenizer.json tokenizer.json", "sync .", "rename .model.new/config.json config.json",
              "sync .", "rename .model.new .model.tmp"});
}

// The other one comes while the first stands before a step, and would do all that is left, were there no lock.
TEST_CASE("of two processes that complete a save one waits, and the new files stay", "[traced]") {
  if (!MayTrace()) return;
  for (int at = 0; at < 5; ++at) {
    const TempFolder out;
    const std::string& folder = out.path();
    REQUIRE(Publish(folder, "one", 1) == absl::OkStatus());
    LeaveStanding(folder);
    int calls = 0;
    pid_t other = -1;
    const TraceEnd end = Trace([&] { return FinishPublishing(folder); },
                               [&](const TracedCall& call) {
                                 if (testing::PathsOf(call).empty() || calls++ != at) return false;
                                 other = fork();
                                 if (other == 0) _exit(FinishPublishing(folder).ok() ? 0 : 1);
                                 // Time to come in between; more of it finds no less.
                                 for (int i = 0; i < 20 && EntryExists(folder + "/.model.new"); ++i) {
                                   absl::SleepFor(absl::Milliseconds(10));
                                 }
                                 return false;
                               });
    CAPTURE(at);
    CHECK(end == TraceEnd::kFinished);
    REQUIRE(other > 0);
    int status = 0;
    REQUIRE(waitpid(other, &status, 0) == other);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    CHECK(SaveIn(folder) == "two");
    CHECK(*ListEntries(folder) == Names{"config.json", Shards(2)[0], Shards(2)[1], kIndex, "tokenizer.json"});
  }
}

TEST_CASE("a folder in a save, or a name with a line's end, is refused before anything is replaced") {
  const TempFolder out;
  REQUIRE(Publish(out.path(), "one", 1) == absl::OkStatus());
  const auto add = [&](const std::string& name, bool is_folder) {
    return PublishFiles(out.path(), [&](const std::string& draft) -> absl::Status {
      const std::string path = JoinPath(draft, name);
      DISTILL_RETURN_IF_ERROR(is_folder ? MakeFolder(path) : WriteWholeFile(path, "two"));
      return WriteWholeFile(JoinPath(draft, "config.json"), "two");
    });
  };
  const absl::Status folder = add("parts", true), name = add("a\nb", false);
  CHECK(folder.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(folder.message(), "/parts: a model is saved as files only, without folders"));
  CHECK(name.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(name.message(), "a name with a line's end"));
  CHECK(SaveIn(out.path()) == "one");
  CHECK(ListEntries(out.path())->size() == 3);
  REQUIRE(Publish(out.path(), "two", 1) == absl::OkStatus());
  CHECK(SaveIn(out.path()) == "two");
}

TEST_CASE("a save that was interrupted is completed by the next checkpoint in its folder", "[traced]") {
  if (!MayTrace()) return;
  const TempFolder out;
  REQUIRE(Publish(out.path(), "one", 2) == absl::OkStatus());
  LeaveStanding(out.path());
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
  REQUIRE(WriteWholeFile(JoinPath(draft->folder(), "vocab.txt"), "one two") == absl::OkStatus());
  std::ofstream(JoinPath(draft->folder(), "config.json")) << "{\"other\": 1}";  // over it, unseen
  std::ofstream(JoinPath(draft->folder(), "vocab.txt")) << "two one";           // at the same length, and at once
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
