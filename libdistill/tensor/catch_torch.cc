#include "libdistill/tensor/catch_torch.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/out_of_memory.h"

namespace distill {

absl::Status CatchTorch(absl::FunctionRef<absl::Status()> body) {
  try {
    return body();
  } catch (const StatusError& error) {
    return error.status();
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(error.what_without_backtrace());
  } catch (const c10::ValueError& error) {
    return absl::InvalidArgumentError(error.what_without_backtrace());
  } catch (const c10::TypeError& error) {
    return absl::InvalidArgumentError(error.what_without_backtrace());
  } catch (const c10::NotImplementedError& error) {
    return absl::UnimplementedError(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    // What the CPU's allocator throws is of no type of its own.
    if (absl::StrContains(error.what_without_backtrace(), "can't allocate memory")) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kOutOfHostMemory, " (torch: ", error.what_without_backtrace(), ")"));
    }
    if (absl::StrContains(error.what_without_backtrace(), kNotInMemory)) {
      return absl::FailedPreconditionError(error.what_without_backtrace());
    }
    return absl::InternalError(absl::StrCat("torch: ", error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(kOutOfHostMemory);
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace distill
