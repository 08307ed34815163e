#include "libdistill/transport/fabric_library.h"

#include <dlfcn.h>
#include <rdma/fabric.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/crash_signals.h"

namespace distill {
namespace {

constexpr char kName[] = "libfabric.so.1";

// Over tcp, rxm sends messages up to this size at once, into the receiver's buffer where that is posted already; longer
// ones wait for the receiver to ask. Its default is 16 KiB; a chunk of the ring is 256 KiB.
constexpr char kEagerLimit[] = "FI_OFI_RXM_EAGER_LIMIT";
constexpr char kEagerBytes[] = "262144";

// rxm's bounce buffers, 2,048 of them and more, which it clears when an endpoint is opened: of the default, 16 KiB,
// they take 80 MB and 0.06 s a rank. Longer messages go straight from the sender's memory, and are no slower over tcp.
// Over verbs they may be cut into pieces of this length.
constexpr char kBounceBuffer[] = "FI_OFI_RXM_BUFFER_SIZE";
constexpr char kBounceBytes[] = "2048";
constexpr char kVerbsBounceBytes[] = "4096";

// How many of them wait for messages over tcp, of all connections together: with the default, 4096, an endpoint takes
// 9 MB more, and a rank in two levels has two for each communicator. One that is taken is replaced at once, by a new
// one where the message has to wait. Over verbs each connection has so many; its default, 128, stays.
constexpr char kPostedBuffers[] = "FI_OFI_RXM_MSG_RX_SIZE";
constexpr char kPostedCount[] = "512";

absl::Status NoFabric(const std::string& why) {
  return absl::UnavailableError(absl::StrCat("no fabric: ", why,
                                             " (install libfabric where ldconfig or LD_LIBRARY_PATH finds it; ranks of "
                                             "one host need none)"));
}

// The function of the version whose structures the headers have: the one that linking would have recorded. `Function`:
// as libfabric declares it, so that a change of that is an error of the compiler's.
template <typename Function>
absl::Status Find(void* library, const char* name, const char* version, Function*& function) {
  function = reinterpret_cast<Function*>(*version == '\0' ? dlsym(library, name) : dlvsym(library, name, version));
  if (function != nullptr) return absl::OkStatus();
  return NoFabric(absl::StrCat(kName, " has no ", name, " of version ", version,
                               ": it is older than the one that libdistill was built with"));
}

absl::StatusOr<FabricLibrary> Open() {
  // Once: other threads may be reading the environment later on.
  setenv(kEagerLimit, kEagerBytes, /*overwrite=*/0);
  const char* const provider = std::getenv("DISTILL_FABRIC_PROVIDER");
  const bool verbs = provider != nullptr && absl::StartsWith(provider, "verbs");
  setenv(kBounceBuffer, verbs ? kVerbsBounceBytes : kBounceBytes, /*overwrite=*/0);
  if (!verbs) setenv(kPostedBuffers, kPostedCount, /*overwrite=*/0);
  const KeepCrashSignals keep;
  void* library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NoFabric(dlerror());
  FabricLibrary functions = {};
  DISTILL_RETURN_IF_ERROR(Find<decltype(fi_version)>(library, "fi_version", DISTILL_FI_VERSION, functions.version));
  DISTILL_RETURN_IF_ERROR(Find<decltype(fi_getinfo)>(library, "fi_getinfo", DISTILL_FI_GETINFO, functions.getinfo));
  DISTILL_RETURN_IF_ERROR(Find<decltype(fi_freeinfo)>(library, "fi_freeinfo", DISTILL_FI_FREEINFO, functions.freeinfo));
  DISTILL_RETURN_IF_ERROR(Find<decltype(fi_dupinfo)>(library, "fi_dupinfo", DISTILL_FI_DUPINFO, functions.dupinfo));
  DISTILL_RETURN_IF_ERROR(Find<decltype(fi_fabric)>(library, "fi_fabric", DISTILL_FI_FABRIC, functions.fabric));
  DISTILL_RETURN_IF_ERROR(Find<decltype(fi_strerror)>(library, "fi_strerror", DISTILL_FI_STRERROR, functions.strerror));
  return functions;
}

}  // namespace

absl::StatusOr<const FabricLibrary*> LoadFabricLibrary() {
  static const auto* const library = new absl::StatusOr<FabricLibrary>(Open());
  if (!library->ok()) return library->status();
  return &**library;
}

}  // namespace distill
