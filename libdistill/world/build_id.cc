#include "libdistill/world/build_id.h"

#include <elf.h>
#include <link.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/version.h"

namespace distill {
namespace {

std::string HexOf(const XXH128_hash_t& digest) {
  return absl::StrCat(absl::Hex(digest.high64, absl::kZeroPad16), absl::Hex(digest.low64, absl::kZeroPad16));
}

// Piece by piece: programs are tens of megabytes, and every rank asks.
std::string HashOfProgram() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<char> piece(1 << 20);
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  bool empty = true;
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0) {
    XXH3_128bits_update(&state, piece.data(), static_cast<size_t>(file.gcount()));
    empty = false;
  }
  return empty ? "unknown" : HexOf(XXH3_128bits_digest(&state));
}

// Of one loaded object (man 5 elf, "Notes"). LibTorch's wheels have none: then a hash of where its segments lie and how
// long they are, which reads nothing of a library of hundreds of megabytes.
std::string BuildIdOf(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const char* note = reinterpret_cast<const char*>(object.dlpi_addr + segment.p_vaddr);
    const char* const end = note + segment.p_memsz;
    while (note + sizeof(ElfW(Nhdr)) <= end) {
      const auto* head = reinterpret_cast<const ElfW(Nhdr)*>(note);
      const char* const name = note + sizeof(*head);
      const char* const value = name + (head->n_namesz + 3) / 4 * 4;
      if (head->n_type == NT_GNU_BUILD_ID && absl::string_view(name, head->n_namesz) == absl::string_view("GNU", 4)) {
        return absl::BytesToHexString(absl::string_view(value, head->n_descsz));
      }
      note = value + (head->n_descsz + 3) / 4 * 4;
    }
  }
  return HexOf(XXH3_128bits(object.dlpi_phdr, object.dlpi_phnum * sizeof(ElfW(Phdr))));
}

int NoteLibrary(dl_phdr_info* object, size_t, void* found) {
  const absl::string_view path = object->dlpi_name == nullptr ? "" : object->dlpi_name;
  const absl::string_view name = path.substr(path.rfind('/') + 1);
  if (!absl::StartsWith(name, "libtorch") && !absl::StartsWith(name, "libc10")) return 0;
  static_cast<std::vector<std::string>*>(found)->push_back(absl::StrCat(name, " ", BuildIdOf(*object)));
  return 0;
}

}  // namespace

std::string BuildId() {
  std::vector<std::string> parts;
  dl_iterate_phdr(&NoteLibrary, &parts);
  std::sort(parts.begin(), parts.end());
  parts.insert(parts.begin(), absl::StrCat(VersionLine(), ", program ", HashOfProgram()));
  return absl::StrJoin(parts, ", ");
}

}  // namespace distill
