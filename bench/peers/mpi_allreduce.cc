// Open MPI's all-reduce (float32 sum) from C++: mpirun -n N build/bin/peer_mpi_allreduce
#define OMPI_SKIP_MPICXX 1  // its old C++ classes would need another library
#include <mpi.h>

#include "bench/peers/timed_allreduce.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  distill::PeerRanks peer;
  MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &peer.ranks);
  peer.barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
  peer.sum = [](float* data, int64_t count) {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  peer.greatest = [](double* data, int64_t count) {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  };
  distill::TimeAllReduce(peer);
  MPI_Finalize();
}
