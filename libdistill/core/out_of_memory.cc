#include "libdistill/core/out_of_memory.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "libdistill/core/identity.h"

namespace distill {
namespace {

std::terminate_handler default_terminate = &std::abort;

[[noreturn]] void Terminate() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    const Identity& own = GetIdentity();
    std::fprintf(stderr, "error: rank %d%s%s: %s\n", own.rank, own.host.empty() ? "" : " on ", own.host.c_str(),
                 kOutOfHostMemory);
    _exit(1);
  } catch (...) {
    default_terminate();  // says what it is
  }
  default_terminate();
  std::abort();
}

}  // namespace

void HandleUncaughtOutOfMemory() {
  if (std::get_terminate() != &Terminate) default_terminate = std::set_terminate(&Terminate);
}

}  // namespace distill
