// Ranks of Tutti.   tutti run -n N -- peer_tutti FOLDER plain|mapped|window   one rank
//                   peer_tutti FOLDER threads N                               N ranks, one a thread
// plain: malloc'ed buffers; mapped: from tuttiMemAlloc, which peers can map; window: such memory, made windows;
// threads can reach each other's anyway.
#include "tutti/tutti.h"

#include <map>
#include <thread>

#include "play.hpp"

namespace {

using peers::Collective;
using peers::Shape;

void check(tuttiResult_t result) {
  if (result == tuttiSuccess) return;
  std::fprintf(stderr, "%s\n", tuttiGetLastError());
  std::exit(1);
}

enum class Memory { Plain, Mapped, Window };

class TuttiPeer {
 public:
  TuttiPeer(tuttiComm_t comm, Memory memory) : comm_(comm), memory_(memory) {
    check(tuttiCommUserRank(comm, &rank_));
    check(tuttiCommCount(comm, &ranks_));
  }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  static void inputs_change(bool) {}
  void barrier() { check(tuttiBarrier(comm_, nullptr)); }

  float* allocate(size_t count) {
    if (memory_ == Memory::Plain) return peers::plain_memory(count);
    void* memory = nullptr;
    check(tuttiMemAlloc(&memory, count * sizeof(float)));
    if (memory_ == Memory::Window) check(tuttiWindowRegister(comm_, memory, count * sizeof(float), &windows_[memory]));
    return static_cast<float*>(memory);
  }
  void release(float* memory) {
    if (memory_ == Memory::Plain) return std::free(memory);
    if (memory_ == Memory::Window) check(tuttiWindowDeregister(windows_.extract(memory).mapped()));
    check(tuttiMemFree(memory));
  }

  float* prepare(const Shape& shape, float* in, float* out) {
    what_ = shape.what;
    in_ = in;
    out_ = out;
    count_ = shape.count;
    block_ = shape.block();
    return what_ == Collective::Broadcast ? in : out;
  }

  void call() { check(run()); }

 private:
  tuttiResult_t run() {
    switch (what_) {
      case Collective::AllReduce:
        return tuttiAllReduce(in_, out_, count_, tuttiFloat32, tuttiSum, comm_, nullptr);
      case Collective::AllGather:
        return tuttiAllGather(in_, out_, block_, tuttiFloat32, comm_, nullptr);
      case Collective::ReduceScatter:
        return tuttiReduceScatter(in_, out_, block_, tuttiFloat32, tuttiSum, comm_, nullptr);
      case Collective::AllToAll:
        return tuttiAllToAll(in_, out_, block_, tuttiFloat32, comm_, nullptr);
      case Collective::Broadcast:
        return tuttiBroadcast(in_, in_, count_, tuttiFloat32, 0, comm_, nullptr);
      case Collective::Reduce:
        return tuttiReduce(in_, out_, count_, tuttiFloat32, tuttiSum, 0, comm_, nullptr);
      case Collective::Gather:
        return tuttiGather(in_, out_, block_, tuttiFloat32, 0, comm_, nullptr);
      case Collective::Scatter:
        return tuttiScatter(in_, out_, block_, tuttiFloat32, 0, comm_, nullptr);
      default:
        return tuttiBarrier(comm_, nullptr);
    }
  }

  tuttiComm_t comm_;
  Memory memory_;
  std::map<void*, tuttiWindow_t> windows_;
  Collective what_ = Collective::Barrier;
  int rank_ = 0, ranks_ = 1;
  size_t count_ = 0, block_ = 0;
  float *in_ = nullptr, *out_ = nullptr;
};

void play(tuttiComm_t comm, const std::string& folder, Memory memory) {
  TuttiPeer peer(comm, memory);
  peers::Play<TuttiPeer>(peer, folder).run();
  check(tuttiCommDestroy(comm));
}

void play_threads(const std::string& folder, int ranks) {
  tuttiUniqueId id;
  check(tuttiGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([=] {
      peers::pin(rank);
      tuttiComm_t comm;
      check(tuttiCommInitRank(&comm, ranks, id, rank));
      play(comm, folder, Memory::Plain);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 2 ? argv[2] : "";
  const std::map<std::string, Memory> memories = {
      {"plain", Memory::Plain}, {"mapped", Memory::Mapped}, {"window", Memory::Window}};
  if (kind == "threads" && argc == 4) {
    play_threads(argv[1], std::atoi(argv[3]));
  } else if (memories.count(kind) > 0 && argc == 3) {
    const char* rank = std::getenv("TUTTI_RANK");
    peers::pin(rank != nullptr ? std::atoi(rank) : 0);
    tuttiComm_t comm;
    check(tuttiCommInitEnv(&comm));
    play(comm, argv[1], memories.at(kind));
  } else {
    std::fprintf(
        stderr, "usage: tutti run -n N -- peer_tutti FOLDER plain|mapped|window\n       peer_tutti FOLDER threads N\n");
    return 2;
  }
  return 0;
}
