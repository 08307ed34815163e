#include "libdistill/metrics/record_file.h"

#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <optional>

#include "absl/strings/match.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

namespace fs = std::filesystem;

using testing::CapturedStderr;
using testing::TempFolder;

// Files of this process end at so many bytes while the object lives, as on a full disk.
class FullAt {
 public:
  explicit FullAt(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FullAt() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  sighandler_t handler_;
};

}  // namespace

TEST_CASE("records wait for a disk that is full, none is cut, and all are written when there is space") {
  const TempFolder folder;
  const std::string path = folder / "m";
  auto file = RecordFile::Create(path, "head\n");
  REQUIRE(file.ok());
  (*file)->Append("one\n");
  std::string said;
  {
    const CapturedStderr captured;
    const FullAt full(11);
    for (const char* record : {"two\n", "three\n"}) {
      (*file)->Append(record);
      CHECK(folder.Read("m") == "head\none\n");
    }
    said = captured.Text();
  }
  CHECK(absl::StrContains(said, "cannot write " + path + ": File too large (wanted 4 bytes, "));
  CHECK(absl::StrContains(said, "training continues, and what is not written is kept"));
  CHECK(said.find("cannot write") == said.rfind("cannot write"));
  const CapturedStderr captured;
  (*file)->Append("four\n");
  CHECK(folder.Read("m") == "head\none\ntwo\nthree\nfour\n");
  CHECK(absl::StrContains(captured.Text(), path + " is written again; 0 of its records are lost"));
}

TEST_CASE("what waits is bounded, the oldest go first, and what is lost is counted") {
  const TempFolder folder;
  const std::string record = std::string((size_t{1} << 20) - 1, 'x') + "\n";
  const CapturedStderr captured;
  auto file = RecordFile::Create(folder / "m", "");
  REQUIRE(file.ok());
  {
    const FullAt full(0);
    for (int i = 0; i < 11; ++i) (*file)->Append(record);
    SECTION("until the end") {
      file->reset();
      CHECK(absl::StrContains(captured.Text(), (folder / "m") + " lacks 11 records, which could not be written"));
    }
  }
  if (*file == nullptr) return;
  (*file)->Append("last\n");
  CHECK(fs::file_size(folder / "m") == 8 * record.size() + 5);
  CHECK(absl::StrContains(captured.Text(), "is written again; 3 of its records are lost"));
}

TEST_CASE("a file that was removed, moved or lost with its folder is made anew, and that is said") {
  const TempFolder folder;
  const std::string path = folder / "run/m";
  fs::create_directory(folder / "run");
  auto file = RecordFile::Create(path, "head\n");
  REQUIRE(file.ok());
  (*file)->Append("one\n");
  const auto vanish = [&](int how) {
    if (how == 0) fs::remove(path);
    if (how == 1) fs::rename(path, folder / "moved");
    if (how == 2) fs::remove_all(folder / "run");
  };
  for (const int how : {0, 1, 2}) {
    CAPTURE(how);
    vanish(how);
    const CapturedStderr captured;
    (*file)->Append("two\n");
    CHECK(folder.Read("run/m") == "head\ntwo\n");
    CHECK(absl::StrContains(captured.Text(), path + " was removed or moved while this run writes it"));
  }
}

TEST_CASE("a line of the last step that a resumed run makes again is not written twice") {
  const TempFolder folder;
  folder.Write("m", "1 loss\n2 loss\n2 eval\n3 loss\n");
  const auto step_of = [](absl::string_view line) -> std::optional<int64_t> {
    return line.empty() ? std::nullopt : std::optional<int64_t>(line[0] - '0');
  };
  const auto file = RecordFile::Open(folder / "m", 2, step_of);
  REQUIRE(file.ok());
  for (const char* record : {"2 eval\n", "2 eval, of other ranks\n", "3 loss\n", "1 loss\n"}) (*file)->Append(record);
  CHECK(folder.Read("m") == "1 loss\n2 loss\n2 eval\n2 eval, of other ranks\n3 loss\n1 loss\n");
}

}  // namespace distill
