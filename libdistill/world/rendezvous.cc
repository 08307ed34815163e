#include "libdistill/world/rendezvous.h"

#include "libdistill/world/mpi_rendezvous.h"
#include "libdistill/world/tcp_rendezvous.h"

namespace distill {
namespace {

class LocalRendezvous : public Rendezvous {
 public:
  absl::string_view kind() const override { return "local"; }
  absl::StatusOr<std::vector<std::string>> AllGather(const std::string& blob, const Deadline&) override {
    return std::vector<std::string>{blob};
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Rendezvous>> CreateRendezvous(const World& world, const Deadline& deadline) {
  if (world.world_size == 1) return std::make_unique<LocalRendezvous>();
  if (world.rendezvous.empty()) return CreateMpiRendezvous(world, deadline);
  return CreateTcpRendezvous(world, deadline);
}

}  // namespace distill
