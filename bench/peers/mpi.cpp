// A rank of Open MPI or MPICH, as given by mpicxx.   mpirun -np N peer_mpi FOLDER
#include <mpi.h>

#include "mpi_main.hpp"
#include "play.hpp"

namespace {

using peers::Collective;
using peers::Shape;

class MpiPeer {
 public:
  MpiPeer() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  static float* allocate(size_t count) { return peers::plain_memory(count); }
  static void release(float* memory) { std::free(memory); }
  static void inputs_change(bool) {}
  static void barrier() { MPI_Barrier(MPI_COMM_WORLD); }

  float* prepare(const Shape& shape, float* in, float* out) {
    what_ = shape.what;
    in_ = in;
    out_ = out;
    count_ = static_cast<int>(shape.count);
    block_ = static_cast<int>(shape.block());
    return what_ == Collective::Broadcast ? in : out;
  }

  void call() {
    switch (what_) {
      case Collective::AllReduce:
        MPI_Allreduce(in_, out_, count_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return;
      case Collective::AllGather:
        MPI_Allgather(in_, block_, MPI_FLOAT, out_, block_, MPI_FLOAT, MPI_COMM_WORLD);
        return;
      case Collective::ReduceScatter:
        MPI_Reduce_scatter_block(in_, out_, block_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return;
      case Collective::AllToAll:
        MPI_Alltoall(in_, block_, MPI_FLOAT, out_, block_, MPI_FLOAT, MPI_COMM_WORLD);
        return;
      case Collective::Broadcast:
        MPI_Bcast(in_, count_, MPI_FLOAT, 0, MPI_COMM_WORLD);
        return;
      case Collective::Reduce:
        MPI_Reduce(in_, out_, count_, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
        return;
      case Collective::Gather:
        MPI_Gather(in_, block_, MPI_FLOAT, out_, block_, MPI_FLOAT, 0, MPI_COMM_WORLD);
        return;
      case Collective::Scatter:
        MPI_Scatter(in_, block_, MPI_FLOAT, out_, block_, MPI_FLOAT, 0, MPI_COMM_WORLD);
        return;
      case Collective::Barrier:
        MPI_Barrier(MPI_COMM_WORLD);
        return;
    }
  }

 private:
  Collective what_ = Collective::Barrier;
  int rank_ = 0, ranks_ = 1, count_ = 0, block_ = 0;
  float *in_ = nullptr, *out_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  return peers::mpi_main(argc, argv, "peer_mpi", [](const char* folder) {
    MpiPeer peer;
    peers::Play<MpiPeer>(peer, folder).run();
  });
}
