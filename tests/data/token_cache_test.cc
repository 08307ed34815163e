// Tokens that are made once: the same samples as in memory, found again by the next start and by other processes, made
// anew where anything that they come from is another, and gone on with where their making was interrupted.
#include "libdistill/data/token_cache.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/data/chat_samples.h"
#include "libdistill/data/token_builder.h"
#include "tests/data/chat_files.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

std::string Rows(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, ChatRow(std::string(static_cast<size_t>(1 + i * 37 % 800), 'q'), absl::StrCat("a", i)));
  }
  return text;
}

ChatDatasetOptions Cached(const std::string& cache, int64_t max_length = 1000) {
  ChatDatasetOptions options;
  options.max_length = max_length;
  options.num_threads = 2;
  options.keep_conversations = false;
  options.cache.folder = cache;
  return options;
}

// Summary, fingerprint, and every token.
std::string Contents(const ChatDataset& data) {
  std::string all = absl::StrCat(data.summary, "\n", *data.tokens->Fingerprint(), "\n");
  for (int64_t i = 0; i < data.tokens->size(); ++i) {
    const TokenSample sample = TokensOf(*data.tokens, i);
    REQUIRE(*data.tokens->Length(i) == static_cast<int64_t>(sample.ids.size()));
    for (const int32_t id : sample.ids) absl::StrAppend(&all, id, " ");
    for (const uint8_t mark : sample.is_target) absl::StrAppend(&all, mark);
  }
  return all;
}

std::string Load(const std::string& path, const ChatDatasetOptions& options, const std::string& chat = "chatml") {
  const auto data = LoadChat(path, options, chat);
  return data.ok() ? Contents(*data) : data.status().ToString();
}

// Complete entries of the cache.
std::vector<std::string> Entries(const std::string& cache) {
  std::vector<std::string> entries;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) {
    if (entry.is_directory() && IsTokenFolder(entry.path().string())) entries.push_back(entry.path().string());
  }
  return entries;
}

// A number is used again once its file is gone, a time is not.
std::string WhenWritten(const std::string& path) {
  struct stat about = {};
  REQUIRE(stat(path.c_str(), &about) == 0);
  return absl::StrCat(about.st_mtim.tv_sec, ".", about.st_mtim.tv_nsec);
}

TEST_CASE("cached tokens are those of memory, word for word, and are not made again") {
  const TempFolder folder;
  folder.Write("train.jsonl", Rows(3000));
  const std::string path = folder / "train.jsonl", cache = folder / "deep/cache";
  const std::string in_memory = Load(path, Cached(""));
  REQUIRE(absl::StrContains(in_memory, "used"));
  CHECK(Load(path, Cached(cache)) == in_memory);
  REQUIRE(Entries(cache).size() == 1);
  const std::string index = Entries(cache)[0] + "/tokens.json";
  const std::string made = WhenWritten(index);
  CHECK(Load(path, Cached(cache)) == in_memory);
  CHECK(WhenWritten(index) == made);
  ChatDatasetOptions anew = Cached(cache);
  anew.cache.rebuild_before = absl::Now() + absl::Seconds(1);
  CHECK(Load(path, anew) == in_memory);
  CHECK(WhenWritten(index) != made);
}

TEST_CASE("each thing that tokens come from has an entry of its own") {
  const TempFolder folder;
  folder.Write("train.jsonl", Rows(20));
  const std::string path = folder / "train.jsonl", cache = folder / "cache";
  std::vector<ChatDatasetOptions> all(5, Cached(cache));
  all[1].max_length = 400;
  all[2].num_samples = 10;
  all[3].train_on = TrainOn::kLast;
  all[4].rows.bad_rows = BadRows::kSkip;
  for (size_t i = 0; i < all.size(); ++i) {
    ChatDatasetOptions plain = all[i];
    plain.cache = {};
    CHECK(Load(path, all[i]) == Load(path, plain));
    CHECK(Entries(cache).size() == i + 1);
  }
  CHECK(Load(path, Cached(cache), "llama3") == Load(path, Cached(""), "llama3"));
  CHECK(Entries(cache).size() == 6);
  folder.Write("train.jsonl", Rows(21));  // another version of the file
  CHECK(Load(path, Cached(cache)) == Load(path, Cached("")));
  CHECK(Entries(cache).size() == 7);
}

TEST_CASE("bad rows are told of by whoever uses the tokens, and refused rows leave nothing in the cache") {
  const TempFolder folder;
  folder.Write("train.jsonl", Rows(20) + "{\"broken\n" + Rows(3));
  ChatDatasetOptions options = Cached(folder / "cache");
  options.rows.bad_rows = BadRows::kSkip;
  for (int time = 0; time < 2; ++time) {
    testing::CapturedStderr said;
    CHECK(absl::StrContains(Load(folder / "train.jsonl", options), "rows 23, used 23"));
    CHECK(absl::StrContains(said.Text(), "1 bad row among 24, which are left out"));
  }
  options.rows.bad_rows = BadRows::kRefuse;
  for (int time = 0; time < 2; ++time) {
    CHECK(absl::StrContains(Load(folder / "train.jsonl", options), "train.jsonl:21"));
  }
  CHECK(Entries(folder / "cache").size() == 1);
}

TEST_CASE("a damaged entry is made again") {
  const TempFolder folder;
  folder.Write("train.jsonl", Rows(50));
  const std::string cache = folder / "cache";
  const std::string expected = Load(folder / "train.jsonl", Cached(cache));
  const std::string entry = Entries(cache)[0];
  for (const char* file : {"00000.tokens", "tokens.json"}) {
    for (const char* damage : {"gone", "cut", "other"}) {
      const std::string path = absl::StrCat(entry, "/", file);
      if (damage == std::string("gone")) {
        std::filesystem::remove(path);
      } else if (damage == std::string("cut")) {
        std::filesystem::resize_file(path, 10);
      } else {
        std::ofstream(path) << "{\"version\": 1}";
      }
      INFO(file << " is " << damage);
      CHECK(Load(folder / "train.jsonl", Cached(cache)) == expected);
    }
  }
}

TEST_CASE("a cache that cannot be written fails where it was asked for, and else is done without") {
  const TempFolder folder;
  folder.Write("train.jsonl", Rows(50));
  ChatDatasetOptions options = Cached(folder / "train.jsonl/cache");
  CHECK(absl::StrContains(Load(folder / "train.jsonl", options), "train.jsonl/cache"));
  options.cache.is_required = false;
  testing::CapturedStderr said;
  CHECK(Load(folder / "train.jsonl", options) == Load(folder / "train.jsonl", Cached("")));
  CHECK(absl::StrContains(said.Text(), "tokens are not kept, and each rank makes its own"));
}

TEST_CASE("the rows of a pipe are read once, into memory") {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  std::thread writer([&] { std::ofstream(pipe) << Rows(10); });
  const std::string found = Load(pipe, Cached(folder / "cache"));
  writer.join();
  CHECK(absl::StrContains(found, "rows 10, used 10"));
  CHECK(!std::filesystem::exists(folder / "cache"));
}

// A folder of tokens as it is when all goes well, with shards of a few chunks.
class Interrupted {
 public:
  explicit Interrupted(const TempFolder& folder) : folder_(folder) {
    folder.Write("a.jsonl", Rows(4000));
    folder.Write("b.jsonl", Rows(5000));
    Build("whole");
  }
  void Build(const std::string& name) const {
    std::filesystem::create_directories(folder_ / name);
    const Tokenizer tokenizer = ByteTokenizer();
    const auto chat = ChatTemplate::Create("chatml", tokenizer);
    const auto source = ChatSource(folder_.path(), tokenizer, *chat, Cached(""));
    const auto index = BuildTokenFolder(folder_ / name, *source, "made of", {.shard_bytes = 1 << 20});
    INFO(index.status());
    REQUIRE(index.ok());
    REQUIRE(index->shards >= 4);
  }
  bool IsLikeWhole(const std::string& name) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "whole")) {
      const std::string file = entry.path().filename().string();
      if (folder_.Read("whole/" + file) != folder_.Read(name + "/" + file)) return false;
    }
    return true;
  }

 private:
  const TempFolder& folder_;
};

TEST_CASE("an interrupted making goes on, and ends with the same bytes") {
  const TempFolder folder;
  const Interrupted tokens(folder);
  for (const int kept : {0, 1, 3}) {
    const std::string name = absl::StrCat("part", kept);
    std::filesystem::create_directories(folder / name);
    for (int i = 0; i < kept; ++i) {
      const std::string shard = TokenShardName(i);
      std::filesystem::copy_file(folder / ("whole/" + shard), folder / (name + "/" + shard));
    }
    testing::CapturedStderr said;
    tokens.Build(name);
    CHECK(tokens.IsLikeWhole(name));
    CHECK(absl::StrContains(said.Text(), "resumes behind") == (kept > 0));
  }
  folder.Write("other/made_of.txt", "something else");
  const Tokenizer tokenizer = ByteTokenizer();
  const auto chat = ChatTemplate::Create("chatml", tokenizer);
  const auto other =
      BuildTokenFolder(folder / "other", *ChatSource(folder.path(), tokenizer, *chat, Cached("")), "made of");
  CHECK(absl::StrContains(other.status().message(), "holds tokens of other data"));
  // One that is damaged, and those behind it, are made again.
  std::filesystem::copy(folder / "whole", folder / "damaged");
  std::filesystem::remove(folder / "damaged/tokens.json");
  std::filesystem::resize_file(folder / ("damaged/" + TokenShardName(1)), 1000);
  tokens.Build("damaged");
  CHECK(tokens.IsLikeWhole("damaged"));
}

TEST_CASE("who makes tokens may be killed at any time, and the next one goes on") {
  const TempFolder folder;
  const Interrupted tokens(folder);
  for (int milliseconds = 5; milliseconds < 300; milliseconds *= 2) {
    const pid_t child = fork();
    if (child == 0) {
      tokens.Build("killed");
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    kill(child, SIGKILL);
    int how = 0;
    REQUIRE(waitpid(child, &how, 0) == child);
  }
  tokens.Build("killed");
  CHECK(tokens.IsLikeWhole("killed"));
}

TEST_CASE("of several processes one makes the tokens, and all read the same") {
  const TempFolder folder;
  folder.Write("train.jsonl", Rows(3000));
  const std::string path = folder / "train.jsonl", cache = folder / "cache";
  const std::string expected = Load(path, Cached(""));
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const bool is_same = Load(path, Cached(cache)) == expected;
      const std::vector<std::string> entries = Entries(cache);
      std::ofstream(folder / absl::StrCat("written", i)) << WhenWritten(entries.at(0) + "/tokens.json");
      _exit(is_same ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int how = 0;
    REQUIRE(waitpid(child, &how, 0) == child);
    CHECK(how == 0);
  }
  for (int i = 0; i < 4; ++i) {
    CHECK(folder.Read(absl::StrCat("written", i)) == WhenWritten(Entries(cache).at(0) + "/tokens.json"));
  }
}

TEST_CASE("a folder of tokens is a data set, for who would make the same ones") {
  const TempFolder folder;
  folder.Write("train.jsonl", Rows(30));
  const std::string path = folder / "train.jsonl";
  CHECK(absl::StrContains(Load(path, Cached(folder / "cache")), "used 30"));
  const std::string tokens = Entries(folder / "cache")[0];
  CHECK(Load(tokens, Cached("")) == Load(path, Cached("")));
  ChatDatasetOptions first = Cached("");
  first.num_samples = 7;
  const auto few = LoadChat(tokens, first);
  REQUIRE(few.ok());
  CHECK(few->tokens->size() == 7);
  CHECK(few->summary == "the first 7 of 30 samples that were tokenized");
  CHECK(absl::StrContains(Load(tokens, Cached("", 400)), "made with max_length 1000, not 400: set max_length to it"));
  CHECK(absl::StrContains(Load(tokens, Cached(""), "llama3"), "chat_template"));
  ChatDatasetOptions last = Cached("");
  last.train_on = TrainOn::kLast;
  CHECK(absl::StrContains(Load(tokens, last), "made with train_on all, not last"));
  CHECK(absl::StrContains(LoadChat(tokens, {}).status().message(), "holds tokens alone"));
}

}  // namespace
}  // namespace distill
