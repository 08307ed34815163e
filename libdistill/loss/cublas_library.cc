#include "libdistill/loss/cublas_library.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace distill {

absl::StatusOr<void*> FindInCublasLt(int major, const char* function) {
  // Its name changes with the version of its interface.
  const std::string name = absl::StrCat("libcublasLt.so.", major);
  // As long as the process lives: LibTorch has it open, too.
  void* const library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return absl::UnimplementedError(dlerror());
  void* const found = dlsym(library, function);
  if (found == nullptr) return absl::UnimplementedError(absl::StrCat(name, " has no ", function));
  return found;
}

}  // namespace distill
