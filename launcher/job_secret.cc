#include "launcher/job_secret.h"

#include <openssl/rand.h>

#include <cstdlib>

#include "absl/strings/escaping.h"
#include "libdistill/core/check.h"

namespace distill {

std::string MakeJobSecret() {
  unsigned char bytes[32];
  DISTILL_CHECK(RAND_bytes(bytes, sizeof(bytes)) == 1, "no random bytes for a job secret");
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes), sizeof(bytes)));
}

void ExportJobSecret() {
  if (std::getenv("DISTILL_JOB_SECRET") != nullptr || std::getenv("DISTILL_JOB_SECRET_FILE") != nullptr) return;
  setenv("DISTILL_JOB_SECRET", MakeJobSecret().c_str(), 1);
}

}  // namespace distill
