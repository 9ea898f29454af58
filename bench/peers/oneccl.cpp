// Ranks of oneCCL on this host, over its shared memory.   peer_oneccl FOLDER RANKS
//
// It is oneCCL's library for processors alone, without MPI: libfabric connects its ranks. gather and scatter it lacks.
#include <oneapi/ccl.hpp>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "play.hpp"

// What the static library expects of Intel's compiler, and of a profiler, of which there is none.
extern "C" {
void* _intel_fast_memcpy(void* to, const void* from, size_t bytes) { return std::memcpy(to, from, bytes); }
void* _intel_fast_memset(void* to, int value, size_t bytes) { return std::memset(to, value, bytes); }
void* __itt_domain_create_ptr__3_0 = nullptr;
void* __itt_event_create_ptr__3_0 = nullptr;
void* __itt_event_end_ptr__3_0 = nullptr;
void* __itt_event_start_ptr__3_0 = nullptr;
void* __itt_metadata_add_ptr__3_0 = nullptr;
void* __itt_string_handle_create_ptr__3_0 = nullptr;
void* __itt_task_begin_ptr__3_0 = nullptr;
void* __itt_task_end_ptr__3_0 = nullptr;
void* __itt_thread_set_name_ptr__3_0 = nullptr;
}

namespace {

using peers::Collective;
using peers::Shape;

/// Rank 0's address of the key-value store, which the others wait for in `path`.
ccl::shared_ptr_class<ccl::kvs> store(int rank, const std::string& path) {
  if (rank == 0) {
    auto kvs = ccl::create_main_kvs();
    const ccl::kvs::address_type address = kvs->get_address();
    std::ofstream(path + ".new", std::ios::binary).write(address.data(), static_cast<std::streamsize>(address.size()));
    std::rename((path + ".new").c_str(), path.c_str());
    return kvs;
  }
  ccl::kvs::address_type address;
  for (int i = 0; i < 3000; ++i) {
    std::ifstream file(path, std::ios::binary);
    if (file.read(address.data(), static_cast<std::streamsize>(address.size()))) return ccl::create_kvs(address);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::fprintf(stderr, "rank 0 did not write %s within 30 s\n", path.c_str());
  std::exit(2);
}

class OneCclPeer {
 public:
  OneCclPeer(int rank, int ranks, const std::string& folder)
      : rank_(rank), ranks_(ranks), comm_(ccl::create_communicator(ranks, rank, store(rank, folder + "/address"))) {}
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  static float* allocate(size_t count) { return peers::plain_memory(count); }
  static void release(float* memory) { std::free(memory); }
  static void inputs_change(bool) {}
  void barrier() { ccl::barrier(comm_).wait(); }

  float* prepare(const Shape& shape, float* in, float* out) {
    shape_ = shape;
    in_ = in;
    out_ = out;
    return shape.what == Collective::Broadcast ? in : out;
  }

  void call() {
    const size_t count = shape_.count, block = shape_.block();
    switch (shape_.what) {
      case Collective::AllReduce:
        return ccl::allreduce(in_, out_, count, ccl::reduction::sum, comm_).wait();
      case Collective::AllGather:
        return ccl::allgather(in_, out_, block, comm_).wait();
      case Collective::ReduceScatter:
        return ccl::reduce_scatter(in_, out_, block, ccl::reduction::sum, comm_).wait();
      case Collective::AllToAll:
        return ccl::alltoall(in_, out_, block, comm_).wait();
      case Collective::Broadcast:
        return ccl::broadcast(in_, count, 0, comm_).wait();
      case Collective::Reduce:
        return ccl::reduce(in_, out_, count, ccl::reduction::sum, 0, comm_).wait();
      case Collective::Barrier:
        return barrier();
      default:
        std::fprintf(stderr, "oneCCL has no %s\n", peers::kNames[static_cast<int>(shape_.what)]);
        std::exit(2);
    }
  }

 private:
  int rank_, ranks_;
  ccl::communicator comm_;
  Shape shape_;
  float *in_ = nullptr, *out_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: peer_oneccl FOLDER RANKS\n");
    return 2;
  }
  const int ranks = std::atoi(argv[2]), rank = peers::fork_ranks(ranks);
  try {
    ccl::init();
    OneCclPeer peer(rank, ranks, argv[1]);
    peers::pin(rank);
    peers::Play<OneCclPeer>(peer, argv[1]).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(2);
  }
  std::fflush(nullptr);
  _exit(0);
}
