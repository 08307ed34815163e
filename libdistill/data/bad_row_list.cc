#include "libdistill/data/bad_row_list.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "libdistill/core/identity.h"
#include "libdistill/core/log.h"

namespace distill {
namespace {

constexpr int64_t kRowsNamed = 10;
// Nobody mends as many by hand, and a file of another kind has no others.
constexpr int64_t kRowsCounted = 10000;
constexpr size_t kBytesOfReason = 400;  // it may hold a text of the row

// One line of whole UTF-8 characters.
std::string Shortened(absl::string_view text) {
  size_t size = text.size();
  if (size > kBytesOfReason) {
    size = kBytesOfReason;
    while (size > 0 && (static_cast<uint8_t>(text[size]) & 0xC0) == 0x80) --size;
  }
  return absl::StrCat(absl::StrReplaceAll(text.substr(0, size), {{"\n", "\\n"}, {"\r", "\\r"}}),
                      size < text.size() ? "..." : "");
}

}  // namespace

void BadRowList::Add(const absl::Status& error) {
  if (++bad_.count <= kRowsNamed) bad_.first.push_back(Shortened(error.message()));
}

bool BadRowList::is_full() const { return are_refused() && bad_.count >= kRowsCounted; }

std::string BadRowList::Count(int64_t rows) const {
  return absl::StrCat(bad_.count, bad_.count == 1 ? " bad row among " : " bad rows among ",
                      is_full() ? "the first " : "", rows);
}

std::string BadRowList::Advice(int64_t rows) const {
  if (bad_.count == rows) return ", and no other: mend them, or name another file";
  if (options_.bad_rows == BadRows::kRefuse) return ": mend or remove them, or leave them out (bad_rows: skip)";
  if (are_refused()) {
    return absl::StrCat(", more than max_bad_rows, ", options_.max_bad_rows, ": mend or remove them, or raise it");
  }
  return "";
}

absl::Status BadRowList::Finish(int64_t rows) const {
  if (bad_.count == 0) return absl::OkStatus();
  const std::string advice = Advice(rows);
  const auto unnamed = bad_.count - static_cast<int64_t>(bad_.first.size());
  const std::string list = absl::StrCat("\n  ", absl::StrJoin(bad_.first, "\n  "),
                                        unnamed == 0 ? "" : absl::StrCat("\n  and ", unnamed, " more"));
  if (!advice.empty()) return absl::InvalidArgumentError(absl::StrCat(path_, " has ", Count(rows), advice, list));
  if (GetIdentity().rank == 0) {  // the other ranks read the same
    LogWarning(absl::StrCat(path_, " has ", Count(rows), ", which are left out (bad_rows: skip):", list));
  }
  return absl::OkStatus();
}

}  // namespace distill
