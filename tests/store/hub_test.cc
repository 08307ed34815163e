// Names, listings and selections of the hub, without a server; tests/store/hub_fetch.py has one.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "libdistill/store/growing_file_hash.h"
#include "libdistill/store/hub_cache.h"
#include "libdistill/store/hub_client.h"
#include "libdistill/store/hub_configs.h"
#include "libdistill/store/hub_download.h"
#include "libdistill/store/hub_listing.h"
#include "libdistill/store/hub_name.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

HubFile FileOf(const std::string& path) {
  return {.path = path, .size = 1, .git_oid = std::string(40, 'a'), .sha256 = "", .xet_hash = ""};
}

std::vector<HubFile> Listed(absl::string_view paths) {
  std::vector<HubFile> files;
  for (const absl::string_view path : absl::StrSplit(paths, ' ')) files.push_back(FileOf(std::string(path)));
  return files;
}

// The paths that are selected of these, sorted; or the error.
std::string Selected(absl::string_view paths, HubContents contents, const std::string& split = "",
                     const std::string& folder = "") {
  const absl::StatusOr<HubChoice> selected = SelectHubFiles(Listed(paths), {contents, split, folder});
  if (!selected.ok()) return std::string(selected.status().message());
  return absl::StrJoin(selected->files, " ", [](std::string* out, const HubFile& file) { out->append(file.path); });
}

// The configs of a card of a data set.
HubConfigs Configs(const std::string& yaml) {
  const auto configs = ConfigsOfCard("---\nlicense: mit\nconfigs:\n" + yaml + "---\n# The data\n");
  INFO(configs.status());
  REQUIRE(configs.ok());
  return *configs;
}

// What is read of the data set, and the files.
std::string Chosen(const std::string& files, const std::string& yaml, const std::string& split,
                   const std::string& folder = "") {
  const auto choice = SelectHubFiles(Listed(files), {HubContents::kRows, split, folder}, Configs(yaml));
  if (!choice.ok()) return std::string(choice.status().message());
  std::string text = choice->rows + ":";
  for (const HubFile& file : choice->files) absl::StrAppend(&text, " ", file.path);
  return text;
}

const char kTwoConfigs[] =
    "- config_name: en\n  data_files:\n  - split: train\n    path: en/train-*\n  - split: test\n    path: "
    "[en/t.jsonl]\n"
    "- config_name: de\n  default: true\n  data_files:\n  - split: train\n    path: \"de/*.jsonl\"\n";

}  // namespace

TEST_CASE("a name of the hub has two parts, and may have a revision") {
  const absl::StatusOr<HubName> plain = ParseHubName("Qwen/Qwen2.5-0.5B", HubKind::kModel);
  REQUIRE(plain.ok());
  CHECK(plain->repository.name == "Qwen/Qwen2.5-0.5B");
  CHECK(plain->repository.revision == "main");
  CHECK_FALSE(plain->has_revision);
  CHECK(TextOf(*plain, "abc") == "Qwen/Qwen2.5-0.5B@abc");

  const absl::StatusOr<HubName> pinned = ParseHubName("hf://datasets/org/rows@refs/convert/parquet", HubKind::kDataset);
  REQUIRE(pinned.ok());
  CHECK(pinned->repository.name == "org/rows");
  CHECK(pinned->repository.revision == "refs/convert/parquet");
  CHECK(pinned->is_url);
  CHECK(TextOf(*pinned, "abc") == "hf://org/rows@abc");
}

TEST_CASE("names that are older than organisations get theirs") {
  const absl::StatusOr<HubName> old = ParseHubName("bert-large-uncased-whole-word-masking@main", HubKind::kModel);
  REQUIRE(old.ok());
  CHECK(old->repository.name == "google-bert/bert-large-uncased-whole-word-masking");
  CHECK(TextOf(*old, "abc") == "google-bert/bert-large-uncased-whole-word-masking@abc");
  CHECK(ParseHubName("amazon_polarity", HubKind::kDataset)->repository.name == "fancyzhx/amazon_polarity");
  CHECK(ParseHubName("hf://datasets/squad", HubKind::kDataset)->repository.name == "rajpurkar/squad");
  CHECK(absl::IsInvalidArgument(ParseHubName("squad", HubKind::kModel).status()));
}

TEST_CASE("a folder of a data set stands behind its name") {
  const auto parts = [](const char* text) {
    const absl::StatusOr<HubName> name = ParseHubName(text, HubKind::kDataset);
    return name.ok() ? absl::StrCat(name->repository.name, " ", name->repository.revision, " ", name->folder)
                     : std::string(name.status().message());
  };
  CHECK(parts("hf://openai/gsm8k/main") == "openai/gsm8k main main");
  CHECK(parts("hf://datasets/openai/gsm8k@v1/a/b") == "openai/gsm8k v1 a/b");
  CHECK(parts("hf://org/rows@refs/convert/parquet/default/train") == "org/rows refs/convert/parquet default/train");
  CHECK(parts("hf://org/rows@refs/pr/1") == "org/rows refs/pr/1 ");
  CHECK(parts("org/rows@refs/pr/1/x") == "org/rows refs/pr/1/x ");
  CHECK(parts("hf://org/rows/../x") == "'../x' is no folder");
  CHECK(parts("hf://org/rows@v1/a//b") == "'a//b' is no folder");
  CHECK(absl::IsInvalidArgument(ParseHubName("hf://org/model/sub", HubKind::kModel).status()));
  const absl::StatusOr<HubName> name = ParseHubName("hf://datasets/openai/gsm8k/main", HubKind::kDataset);
  REQUIRE(name.ok());
  CHECK(TextOf(*name, "abc") == "hf://openai/gsm8k@abc/main");
}

TEST_CASE("what can only be a path is no name of the hub") {
  for (const char* path : {"",
                           "name",
                           "a/b/c",
                           "./a/b",
                           "../b",
                           "/a/b",
                           "~/b",
                           "a/",
                           "/b",
                           "a/..",
                           "a/.b",
                           "a/b-",
                           "a b/c",
                           "org/na--me",
                           "org/name.git",
                           "data/train.jsonl",
                           "data/train.parquet",
                           "a/b.yaml",
                           "org/name@",
                           "org/name@../x",
                           "org/name@/x",
                           "org/name@a b",
                           "s3://a/b"}) {
    INFO(path);
    CHECK(absl::IsInvalidArgument(ParseHubName(path, HubKind::kModel).status()));
  }
  CHECK(ParseHubName("hf://org/train.csv", HubKind::kDataset).ok());
  CHECK(absl::IsInvalidArgument(ParseHubName("org/" + std::string(97, 'x'), HubKind::kModel).status()));
}

TEST_CASE("a path that is given for a name of the hub is called one") {
  for (const char* path : {"./a.jsonl", "../b", "/a/b", "~/b", "."}) {
    INFO(path);
    CHECK(absl::StrContains(ParseHubName(path, HubKind::kModel).status().message(), "it is a path; names of the hub"));
  }
}

TEST_CASE("a snapshot of the cache tells the name of its repository") {
  const std::string commit(40, 'a');
  CHECK(NameOfSnapshot("/c/hub/datasets--org--na-me/snapshots/" + commit + "/data") == "org--na-me");
  CHECK(NameOfSnapshot("models--org--name/snapshots/" + commit) == "org--name");
  for (const std::string& path :
       {std::string(""), "/snapshots/" + commit, std::string("/c/datasets--org--name/snapshots/main"),
        "/c/rows/snapshots/" + commit, "/c/datasets--org--name/" + commit}) {
    INFO(path);
    CHECK(NameOfSnapshot(path) == "");
  }
}

TEST_CASE("a path of the server lies in its folder, or is refused") {
  for (const char* path : {"a", "a/b.txt", "a b/c", "..a", "a../b", ".gitattributes", "\xc3\xa9/x"}) {
    INFO(path);
    CHECK(IsSafeHubPath(path));
  }
  for (const std::string& path : {std::string(""), std::string("/a"), std::string("a/../b"), std::string(".."),
                                  std::string("a//b"), std::string("a/"), std::string("./a"), std::string("a\\b"),
                                  std::string("a\nb"), std::string("a\0b", 3), std::string(300, 'x')}) {
    INFO(absl::CEscape(path));
    CHECK_FALSE(IsSafeHubPath(path));
  }
}

TEST_CASE("a listing is kept as huggingface_hub keeps it") {
  HubFile small = FileOf("config.json"), large = FileOf(
                                             "sub/m\xc3\xb6"
                                             "del.safetensors");
  large.sha256 = std::string(64, 'b');
  large.size = int64_t{1} << 40;
  large.xet_hash = std::string(64, 'c');
  const std::string json = HubListingToJson({small, large});
  CHECK(json.substr(0, 50) == "{\n \"format_version\": 1,\n \"files\": {\n  \"config.json");
  CHECK(json.find("m\\u00f6del") != std::string::npos);
  const absl::StatusOr<std::vector<HubFile>> files = HubListingFromJson(json);
  REQUIRE(files.ok());
  REQUIRE(files->size() == 2);
  CHECK(files->at(0).etag() == small.git_oid);
  CHECK(files->at(1).path == large.path);
  CHECK(files->at(1).size == large.size);
  CHECK(files->at(1).etag() == large.sha256);
  CHECK(files->at(1).xet_hash == large.xet_hash);
}

TEST_CASE("a damaged listing is refused") {
  const std::string good = HubListingToJson({FileOf("a")});
  REQUIRE(HubListingFromJson(good).ok());
  const std::string oid(40, 'a');
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"\"a\"", "\"../a\""},
                                                                                 {oid, oid + "a"},
                                                                                 {oid, "../" + oid.substr(3)},
                                                                                 {"\"size\": 1", "\"size\": -1"},
                                                                                 {"\"size\": 1", "\"size\": \"1\""},
                                                                                 {"version\": 1", "version\": 2"},
                                                                                 {"}", ""}}) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    INFO(bad);
    CHECK(absl::IsDataLoss(HubListingFromJson(bad).status()));
  }
}

TEST_CASE("of a model come config, tokenizer and the weights of one format") {
  CHECK(
      Selected(
          "config.json model.safetensors pytorch_model.bin tokenizer.json README.md flax_model.msgpack onnx/README.md",
          HubContents::kModel) == "config.json model.safetensors tokenizer.json README.md");
  CHECK(Selected("config.json pytorch_model.bin.index.json pytorch_model-00001-of-00001.bin training_args.bin",
                 HubContents::kModel) == "config.json pytorch_model.bin.index.json pytorch_model-00001-of-00001.bin");
  CHECK(Selected("config.json model.safetensors model.safetensors.index.json model-1.safetensors x/model.safetensors",
                 HubContents::kModel) == "config.json model.safetensors");
  CHECK(Selected("config.json vocab.json merges.txt model.safetensors", HubContents::kTokenizer) ==
        "config.json vocab.json merges.txt");
  CHECK(Selected("config.json vocab.json model.safetensors", HubContents::kConfig) == "config.json");
  CHECK(Selected("README.md", HubContents::kModel) ==
        "it has no config.json, so it is no model of transformers; it holds README.md");
  CHECK_THAT(Selected("README.md model-Q4_K_M.gguf model-Q8_0.gguf", HubContents::kModel),
             Catch::Contains("download one into a folder of its own") && Catch::Contains("model-Q8_0.gguf"));
}

TEST_CASE("of a data set come the Parquet files of the split, or its other rows") {
  CHECK(Selected("data/train-0.parquet data/test-0.parquet train.csv", HubContents::kRows, "train") ==
        "data/train-0.parquet");
  CHECK(Selected("train.jsonl.gz README.md", HubContents::kRows, "train") == "train.jsonl.gz");
  CHECK(Selected("train.jsonl data/train.jsonl en/train.jsonl", HubContents::kRows) == "train.jsonl");
  CHECK(Selected("en/train.jsonl", HubContents::kRows) == "en/train.jsonl");
  CHECK(Selected("train.jsonl en/train.jsonl de/train.jsonl", HubContents::kRows, "train", "de") == "de/train.jsonl");
  CHECK(Selected("en/train.jsonl", HubContents::kRows, "train", "fr").substr(0, 47) ==
        "no file of rows in it is called fr/train*.parqu");
  CHECK(Selected("en/train.jsonl de/train.jsonl", HubContents::kRows).substr(0, 39) ==
        "it has rows in the folders de, en, whic");
}

// What the datasets library (5.2.0) reads of these repositories.
TEST_CASE("the card of a data set says which files are a config's and a split's") {
  const std::string files = "de/a.jsonl de/train.jsonl en/t.jsonl en/train-0.jsonl en/train-1.jsonl train.jsonl";
  CHECK(Chosen(files, kTwoConfigs, "train", "en") == "en: en/train-0.jsonl en/train-1.jsonl");
  CHECK(Chosen(files, kTwoConfigs, "test", "en") == "en/t.jsonl: en/t.jsonl");
  CHECK(Chosen(files, kTwoConfigs, "", "en") == "en: en/t.jsonl en/train-0.jsonl en/train-1.jsonl");
  CHECK(Chosen(files, kTwoConfigs, "") == "de: de/a.jsonl de/train.jsonl");
  CHECK(Chosen("questions.jsonl train.jsonl", "- config_name: default\n  data_files: questions.jsonl\n", "train") ==
        "questions.jsonl: questions.jsonl");
  const char folders[] =
      "- config_name: main\n  data_dir: main\n- data_dir: ./other/\n  config_name: x\n  data_files: '*'\n";
  CHECK(Chosen("main/test.csv main/train.csv other/z.csv", folders, "train", "main") == "main: main/train.csv");
  CHECK(Chosen("main/test.csv main/train.csv other/z.csv", folders, "train", "x") == "other/z.csv: other/z.csv");
}

TEST_CASE("where a card's configs cannot be taken the message says what may be named") {
  const std::string files = "de/a.jsonl de/train.jsonl en/train-0.jsonl";
  CHECK(absl::StartsWith(Chosen(files, kTwoConfigs, "train"),
                         "its card says that the split 'train' of the config de are the files de/a.jsonl, "
                         "de/train.jsonl, which are not those of one folder whose names begin with the split"));
  CHECK(absl::StrContains(Chosen(files, kTwoConfigs, "dev", "en"),
                          "by its card the config en has the splits train, test"));
  CHECK(absl::StrContains(Chosen(files, kTwoConfigs, "train", "fr"), "it has the configs en, de: name one of them"));
  CHECK(Chosen("data/train.csv", "- config_name: a\n  data_files: x.csv\n- config_name: b\n  data_files: y.csv\n",
               "") == "it has the configs a, b: name one of them (hf://ORG/NAME/CONFIG)");
  // A part of a split, and a folder that the card does not call a config, are taken by their names.
  CHECK(Chosen(files, kTwoConfigs, "train-0", "en") == "en: en/train-0.jsonl");
  CHECK(Chosen(files + " more/train.jsonl", kTwoConfigs, "train", "more") == "more: more/train.jsonl");
}

TEST_CASE("a card without configs has none, and a broken one is refused with its line") {
  for (const char* card : {"", "# Only a title\n", "---\nlicense: mit\n---\n", "---\nconfigs:\n- config_name: a\n---\n",
                           "---\nno end", "---\nconfigs:\n---\n"}) {
    INFO(card);
    const auto configs = ConfigsOfCard(card);
    REQUIRE(configs.ok());
    CHECK(configs->all.empty());
  }
  const auto refused = [](const std::string& yaml) {
    const absl::Status status = ConfigsOfCard("---\n" + yaml + "\n---\n").status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(absl::StartsWith(refused("a: [1\nb: }"), "its card is not valid YAML: "));
  CHECK(refused("license: mit\nconfigs: en") == "line 3 of its card: a list is expected (configs)");
  CHECK(absl::StartsWith(refused("configs:\n- en"), "line 3 of its card: a config with config_name"));
  CHECK(absl::StartsWith(refused("configs:\n- data_files:\n    train: a"), "line 4 of its card: a path, or a list of"));
  CHECK(absl::StartsWith(refused("configs:\n- data_files:\n  - split: a"), "line 4 of its card: split and path are"));
  CHECK_FALSE(refused("configs: " + std::string(100'000, '[')).empty());
}

TEST_CASE("patterns of paths mean what they mean to the datasets library") {
  const auto all = [](const std::string& pattern) {
    std::string matched;
    for (const char* path : {"a.jsonl", "b.jsonl", "t1.jsonl", "ta.jsonl", "d/c.jsonl", "d/e/f.jsonl"}) {
      if (MatchesPath(pattern, path)) absl::StrAppend(&matched, path, " ");
    }
    return matched;
  };
  CHECK(all("a.jsonl") == "a.jsonl ");
  CHECK(all("*.jsonl") == "a.jsonl b.jsonl t1.jsonl ta.jsonl ");
  CHECK(all("?.jsonl") == "a.jsonl b.jsonl ");
  CHECK(all("t[0-9].jsonl") == "t1.jsonl ");
  CHECK(all("t[!0-9]*") == "ta.jsonl ");
  CHECK(all("d/**") == "d/c.jsonl d/e/f.jsonl ");
  CHECK(all("**/*.jsonl") == "a.jsonl b.jsonl t1.jsonl ta.jsonl d/c.jsonl d/e/f.jsonl ");
  CHECK(all("**/e/*") == "d/e/f.jsonl ");
  CHECK(all("t[0-9.jsonl") == "");
  CHECK(MatchesPath("a[b", "a[b"));
  CHECK(MatchesPath("x*y*z", "xaybyczz"));
  CHECK_FALSE(MatchesPath("", "a"));
  // In no time, whatever a stranger writes.
  CHECK_FALSE(MatchesPath(std::string(2000, '*') + "b", std::string(4000, 'a')));
  std::string stars;
  for (int i = 0; i < 500; ++i) stars += "*a";
  CHECK_FALSE(MatchesPath(stars + "b", std::string(4000, 'a')));
}

TEST_CASE("what breaks late is tried again where only attempts are counted") {
  StoreCounters counters;
  const auto attempts_within = [&](absl::Duration total) {
    int attempts = 0;
    const RetryPolicy policy{.attempts = 3, .first_pause = absl::Milliseconds(1), .total = total};
    CHECK(absl::IsUnavailable(Retry(policy, counters, "send", [&] {
      absl::SleepFor(absl::Milliseconds(5));
      return absl::UnavailableError(absl::StrCat("attempt ", ++attempts));
    })));
    return attempts;
  };
  CHECK(attempts_within(absl::Milliseconds(2)) == 1);
  CHECK(attempts_within(absl::InfiniteDuration()) == 3);

  StoreOptions options;
  options.attempts = 5;
  const HubClient hub(HubSettings{}, options, counters);
  HubRequest request{.action = "send"};
  CHECK(hub.RetryOf(request).total == RetryPolicy().total);
  request.open_body = []() -> absl::StatusOr<std::unique_ptr<ByteStream>> { return absl::UnknownError("not opened"); };
  CHECK(hub.RetryOf(request).total == absl::InfiniteDuration());
  CHECK(hub.RetryOf(request).attempts == 5);
}

TEST_CASE("who fails together does not come back together") {
  StoreCounters counters;
  const RetryPolicy policy{.attempts = 2, .first_pause = absl::Milliseconds(100)};
  std::mutex mutex;
  std::vector<absl::Duration> pauses;
  std::vector<std::thread> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back([&] {
      absl::Time failed;
      const absl::Status sent = Retry(policy, counters, "send", [&] {
        if (failed == absl::Time()) {
          failed = absl::Now();
          return absl::UnavailableError("busy");
        }
        const std::lock_guard lock(mutex);
        pauses.push_back(absl::Now() - failed);
        return absl::OkStatus();
      });
      const std::lock_guard lock(mutex);
      CHECK(sent.ok());
    });
  }
  for (std::thread& client : clients) client.join();
  REQUIRE(pauses.size() == 20);
  std::sort(pauses.begin(), pauses.end());
  CHECK(pauses.front() < absl::Milliseconds(60));  // 20 draws up to 100 ms: all above 60 in one of 90 million runs
  CHECK(pauses.back() - pauses.front() > absl::Milliseconds(20));
  CHECK(counters.retries == 20);
}

TEST_CASE("how far a download is stands in the log") {
  const testing::CapturedStderr said;
  HubProgress progress("org/name", 10'000'000, absl::ZeroDuration());
  progress.Found(2'000'000);
  progress.Came(3'000'000);
  CHECK(absl::StrContains(said.Text(), "downloading org/name: 50 % of 10.0 MB, "));
  HubProgress quiet("org/other", 10'000'000);
  quiet.Came(3'000'000);
  CHECK_FALSE(absl::StrContains(said.Text(), "org/other"));
}

TEST_CASE("the hash of a file that grows is that of what it became") {
  std::string bytes(20'000'001, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7919 >> 5);
  const testing::TempFolder folder;
  const std::string path = folder / "grows";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  REQUIRE(fd >= 0);
  const auto start = [&](ShaKind kind, absl::string_view prefix) {
    return *GrowingFileHash::Start(kind, prefix, fd, path);
  };
  CHECK(*start(ShaKind::kSha1, "")->Hex() == "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  const auto hash = start(ShaKind::kSha256, "before");
  for (size_t begin = 0, size = 1; begin < bytes.size(); begin += size, size = size * 3 % 1'500'007) {
    const absl::string_view more = absl::string_view(bytes).substr(begin, size);
    REQUIRE(write(fd, more.data(), more.size()) == static_cast<ssize_t>(more.size()));
    hash->GrownTo(static_cast<int64_t>(begin + more.size()));
  }
  CHECK(*hash->Hex() == ShaHash(ShaKind::kSha256).Add("before").Add(bytes).Hex());

  const auto unread = start(ShaKind::kSha256, "");
  unread->GrownTo(static_cast<int64_t>(bytes.size()) + 1);
  const absl::Status status = unread->Hex().status();
  CHECK_FALSE(status.ok());
  CHECK(absl::StrContains(status.message(), path));
  start(ShaKind::kSha1, "")->GrownTo(20'000'000);  // and ends without being asked
  close(fd);
}

}  // namespace distill
