// Gloo's all-reduce (float32 sum) from C++, without PyTorch around it: each of N processes runs
//
//   RANK=R WORLD_SIZE=N GLOO_STORE=FOLDER GLOO_SOCKET_IFNAME=lo build/bin/peer_gloo_allreduce
//
// FOLDER is an empty one that all of them see; the ranks meet through files there.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <exception>
#include <memory>

#include "bench/peers/timed_allreduce.h"

namespace {

std::string Need(const char* name) {
  const char* value = std::getenv(name);
  if (value != nullptr) return value;
  std::fprintf(stderr, "error: %s is not set\n", name);
  std::exit(2);
}

template <typename T>
void AllReduce(const std::shared_ptr<gloo::Context>& context, T* data, int64_t count,
               void (*reduce)(void*, const void*, const void*, size_t)) {
  gloo::AllreduceOptions options(context);
  options.setOutput(data, static_cast<size_t>(count));
  options.setReduceFunction(reduce);
  gloo::allreduce(options);
}

void Run() {
  distill::PeerRanks peer;
  peer.rank = std::stoi(Need("RANK"));
  peer.ranks = std::stoi(Need("WORLD_SIZE"));
  gloo::transport::tcp::attr attributes;
  attributes.iface = Need("GLOO_SOCKET_IFNAME");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(Need("GLOO_STORE"));
  auto context = std::make_shared<gloo::rendezvous::Context>(peer.rank, peer.ranks);
  context->connectFullMesh(store, device);
  peer.barrier = [&] {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  };
  peer.sum = [&](float* data, int64_t count) { AllReduce(context, data, count, &gloo::sum<float>); };
  peer.greatest = [&](double* data, int64_t count) { AllReduce(context, data, count, &gloo::max<double>); };
  distill::TimeAllReduce(peer);
  peer.barrier();  // nobody closes its connections while another one still uses them
}

}  // namespace

int main() {
  try {
    Run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
