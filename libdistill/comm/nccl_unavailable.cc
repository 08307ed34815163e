#include "libdistill/comm/setup.h"

namespace distill {

MadeCommunicator CreateNcclCommunicator(Setup) {
  return absl::InvalidArgumentError(
      "comm_backend nccl needs a libdistill that was built with CUDA (an nvcc at configure time); this one is for "
      "CPUs");
}

}  // namespace distill
