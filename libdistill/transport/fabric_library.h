// libfabric itself, opened when a fabric is wanted and not before: loading it takes 0.2 s where it was built with PSM,
// as Debian's is (constructors of libinfinipath and libpsm2 measure the CPU's clock), and a job on one host needs none
// of it. Most of libfabric's functions are inline and go through the objects' own tables; here are the others, as
// <rdma/fabric.h> declares them. Internal to transport/.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

struct fi_fabric_attr;
struct fi_info;
struct fid_fabric;

namespace distill {

struct FabricLibrary {
  uint32_t (*version)();  // of the library that was loaded, which may be newer or older than the headers
  int (*getinfo)(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
                 fi_info** found);
  void (*freeinfo)(fi_info* info);
  fi_info* (*dupinfo)(const fi_info* info);
  int (*fabric)(fi_fabric_attr* attributes, fid_fabric** fabric, void* context);
  const char* (*strerror)(int code);
};

// Loads it on the first call in this process, which also sets what libfabric reads from the environment and the user
// has not set (FI_OFI_RXM_EAGER_LIMIT, FI_OFI_RXM_BUFFER_SIZE, and FI_OFI_RXM_MSG_RX_SIZE unless
// DISTILL_FABRIC_PROVIDER names verbs): no other thread should be reading the environment then.
// It stays loaded, since its own threads and handlers may outlive any object of ours. Unavailable says why there is
// none. Any thread may call it.
[[nodiscard]] absl::StatusOr<const FabricLibrary*> LoadFabricLibrary();

}  // namespace distill
