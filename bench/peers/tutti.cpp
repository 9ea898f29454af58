// Ranks of Tutti.   tutti run -n N -- peer_tutti FOLDER plain|mapped     one rank
//                   peer_tutti FOLDER threads N                          N ranks, one a thread
// plain: malloc'ed buffers; mapped: from tuttiMemAlloc, which peers can map; threads can reach each other's anyway.
#include "tutti/tutti.h"

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

class TuttiPeer {
 public:
  TuttiPeer(tuttiComm_t comm, bool mapped) : comm_(comm), mapped_(mapped) {
    check(tuttiCommUserRank(comm, &rank_));
    check(tuttiCommCount(comm, &ranks_));
  }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  static void inputs_change(bool) {}
  void barrier() { check(tuttiBarrier(comm_, nullptr)); }

  float* allocate(size_t count) const {
    if (!mapped_) return peers::plain_memory(count);
    void* memory = nullptr;
    check(tuttiMemAlloc(&memory, count * sizeof(float)));
    return static_cast<float*>(memory);
  }
  void release(float* memory) const {
    if (mapped_) {
      check(tuttiMemFree(memory));
    } else {
      std::free(memory);
    }
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
  bool mapped_;
  Collective what_ = Collective::Barrier;
  int rank_ = 0, ranks_ = 1;
  size_t count_ = 0, block_ = 0;
  float *in_ = nullptr, *out_ = nullptr;
};

void play(tuttiComm_t comm, const std::string& folder, bool mapped) {
  TuttiPeer peer(comm, mapped);
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
      play(comm, folder, false);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 2 ? argv[2] : "";
  if (kind == "threads" && argc == 4) {
    play_threads(argv[1], std::atoi(argv[3]));
  } else if ((kind == "plain" || kind == "mapped") && argc == 3) {
    const char* rank = std::getenv("TUTTI_RANK");
    peers::pin(rank != nullptr ? std::atoi(rank) : 0);
    tuttiComm_t comm;
    check(tuttiCommInitEnv(&comm));
    play(comm, argv[1], kind == "mapped");
  } else {
    std::fprintf(stderr,
                 "usage: tutti run -n N -- peer_tutti FOLDER plain|mapped\n       peer_tutti FOLDER threads N\n");
    return 2;
  }
  return 0;
}
