// Rows that several threads encode: what comes out is what one thread gives.
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/data/rows.h"
#include "tests/data/chat_files.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

constexpr int kThreads[] = {1, 2, 3, 8};

// Some megabytes, so that there are more chunks than threads; every hundredth row is bad.
std::string ManyRows(int rows, bool with_bad) {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    if (with_bad && i % 100 == 7) {
      absl::StrAppend(&text, "{\"question\": \"", i, "\"}\n");
    } else {
      absl::StrAppend(&text, "{\"question\": \"", i, " ", std::string(static_cast<size_t>(200 + i % 700), 'q'),
                      "\", \"answer\": \"", i % 13, "\", \"extra", i % 3, "\": 1}\n");
    }
  }
  return text;
}

// All that a data set says, as one text.
std::string Describe(const absl::StatusOr<ChatDataset>& data) {
  if (!data.ok()) return data.status().ToString();
  std::string first = absl::StrCat(data->summary, "\n", *data->tokens->Fingerprint());
  for (const Conversation& conversation : data->conversations)
    absl::StrAppend(&first, conversation.messages.back().content, ",");
  return first;
}

TEST_CASE("any number of threads loads the same chat data set, with the same words about it") {
  const TempFolder folder;
  folder.Write("train-0.jsonl", ManyRows(4000, /*with_bad=*/true));
  folder.Write("train-1.jsonl", ManyRows(2000, /*with_bad=*/false));
  for (const int64_t num_samples : {int64_t{0}, int64_t{1234}, int64_t{5500}}) {
    for (const BadRows bad_rows : {BadRows::kSkip, BadRows::kRefuse}) {
      std::string one;
      for (const int threads : kThreads) {
        ChatDatasetOptions options;
        options.num_samples = num_samples;
        options.max_length = 600;
        options.num_threads = threads;
        options.rows = {.bad_rows = bad_rows, .max_bad_rows = 1000};
        testing::CapturedStderr said;
        const std::string all = absl::StrCat(Describe(LoadChat(folder.path(), options)), "\n", said.Text());
        if (threads == 1) one = all;
        INFO("threads " << threads << ", samples " << num_samples);
        CHECK((all == one));
      }
      if (bad_rows == BadRows::kRefuse && num_samples == 0) CHECK(absl::StrContains(one, "40 bad rows among 6000"));
      if (bad_rows == BadRows::kSkip && num_samples == 0) CHECK(absl::StrContains(one, "rows 5960, used "));
    }
  }
}

TEST_CASE("rows are encoded by several threads at a time, and taken in order by one") {
  const TempFolder folder;
  const std::string path = folder.Write("a.jsonl", ManyRows(20'000, false));
  std::mutex mutex;
  std::set<std::thread::id> encoders;
  std::atomic<int> at_work{0}, most{0};
  const auto encode = [&](JsonValue& row) -> absl::StatusOr<MadeOfRow> {
    const int now = ++at_work;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    {
      const std::lock_guard lock(mutex);
      encoders.insert(std::this_thread::get_id());
    }
    std::this_thread::yield();
    --at_work;
    return std::make_shared<JsonValue>(std::move(row));
  };
  int64_t next = 0;
  const std::thread::id me = std::this_thread::get_id();
  REQUIRE(ForEachEncodedRow(path, "", {}, 4, encode,
                            [&](const MadeOfRow& made, const std::string& place) -> absl::StatusOr<bool> {
                              REQUIRE(std::this_thread::get_id() == me);
                              REQUIRE(place == absl::StrCat("a.jsonl:", next + 1));
                              REQUIRE(absl::StartsWith(static_cast<JsonValue*>(made.get())->Find("question")->text,
                                                       absl::StrCat(next++, " ")));
                              return true;
                            }) == absl::OkStatus());
  CHECK(next == 20'000);
  CHECK(encoders.size() > 1);
  CHECK(most > 1);
}

TEST_CASE("an error that is no bad row ends it at its row, whatever was encoded beyond") {
  const TempFolder folder;
  const std::string path = folder.Write("a.jsonl", ManyRows(20'000, false));
  for (const int threads : kThreads) {
    int64_t taken = 0;
    const auto encode = [&](JsonValue& row) -> absl::StatusOr<MadeOfRow> {
      if (absl::StartsWith(row.Find("question")->text, "7000 ")) return absl::InternalError("broken");
      return std::make_shared<JsonValue>(std::move(row));
    };
    const auto take = [&](const MadeOfRow&, const std::string&) -> absl::StatusOr<bool> { return ++taken > 0; };
    const absl::Status status = ForEachEncodedRow(path, "", {}, threads, encode, take);
    CHECK(status.code() == absl::StatusCode::kInternal);
    CHECK(status.message() == absl::StrCat(path, ":7001: broken"));
    CHECK(taken == 7000);
  }
}

TEST_CASE("files beyond the last row that is wanted are not opened") {
  const TempFolder folder;
  folder.Write("train-0.jsonl", ManyRows(10, false));
  folder.Write("train-1.jsonl",
               "\xfd"
               "7zXZ");
  for (const int threads : kThreads) {
    ChatDatasetOptions options;
    options.num_samples = 10;
    options.num_threads = threads;
    CHECK(LoadChat(folder.path(), options).ok());
    options.num_samples = 11;
    CHECK(absl::StrContains(LoadChat(folder.path(), options).status().message(), "train-1.jsonl is compressed by xz"));
  }
}

}  // namespace
}  // namespace distill
