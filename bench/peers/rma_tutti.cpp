// Ranks of Tutti with a window.   tutti run -n 2 -- rma_tutti FOLDER        one rank, memory that the peer maps
//                                 tutti run -n 2 -- rma_tutti FOLDER ordinary    the same in other memory
//                                 rma_tutti FOLDER threads                  both, one a thread
#include <thread>
#include <vector>

#include "rma.hpp"
#include "tutti/tutti.h"

namespace {

void check(tuttiResult_t result) {
  if (result == tuttiSuccess) return;
  std::fprintf(stderr, "%s\n", tuttiGetLastError());
  std::exit(1);
}

class TuttiPeer {
 public:
  TuttiPeer(tuttiComm_t comm, bool ordinary) : comm_(comm), ordinary_(ordinary ? peers::kPart : 0) {
    check(tuttiCommUserRank(comm, &rank_));
    if (ordinary) {
      memory_ = ordinary_.data();
    } else {
      check(tuttiMemAlloc(&memory_, peers::kPart));
    }
    std::memset(memory_, 0, peers::kPart);
    check(tuttiWindowRegister(comm, memory_, peers::kPart, &window_));
  }
  ~TuttiPeer() {
    check(tuttiWindowDeregister(window_));
    if (ordinary_.empty()) check(tuttiMemFree(memory_));
    check(tuttiCommDestroy(comm_));
  }
  TuttiPeer(const TuttiPeer&) = delete;
  TuttiPeer& operator=(const TuttiPeer&) = delete;

  int rank() const { return rank_; }
  std::byte* mine() const { return static_cast<std::byte*>(memory_); }
  void put(const std::byte* source, size_t bytes, size_t offset) const {
    check(tuttiPut(source, bytes, 1 - rank_, offset, window_, nullptr));
  }
  void get(std::byte* target, size_t bytes, size_t offset) const {
    check(tuttiGet(target, bytes, 1 - rank_, offset, window_, nullptr));
  }
  void flush() const { check(tuttiFlush(1 - rank_, window_, nullptr)); }
  uint64_t add(uint64_t operand, size_t offset) const {
    uint64_t before = 0;
    check(tuttiAtomicAdd(operand, &before, 1 - rank_, offset, window_, nullptr));
    return before;
  }
  void put_signal(const std::byte* source, size_t bytes) const {
    check(tuttiPutSignal(source, bytes, 1 - rank_, 0, 0, window_, nullptr));
  }
  void wait_signal() const { check(tuttiWaitSignal(1 - rank_, 0, 1, window_, nullptr)); }
  void barrier() const { check(tuttiWindowBarrier(window_, nullptr)); }

 private:
  tuttiComm_t comm_;
  std::vector<std::byte> ordinary_;
  int rank_ = 0;
  void* memory_ = nullptr;
  tuttiWindow_t window_ = nullptr;
};

void play(tuttiComm_t comm, const std::string& folder, bool ordinary) {
  TuttiPeer peer(comm, ordinary);
  peers::RmaPlay<TuttiPeer>(peer, folder).run();
}

void play_threads(const std::string& folder) {
  tuttiComm_t comms[2];
  check(tuttiCommInitAll(comms, 2));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      peers::pin(rank);
      play(comms[rank], folder, false);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[2]) == "threads") {
    play_threads(argv[1]);
  } else if (argc == 2 || (argc == 3 && std::string(argv[2]) == "ordinary")) {
    const char* const rank = std::getenv("TUTTI_RANK");
    peers::pin(rank != nullptr ? std::atoi(rank) : 0);
    tuttiComm_t comm;
    check(tuttiCommInitEnv(&comm));
    play(comm, argv[1], argc == 3);
  } else {
    std::fprintf(stderr, "usage: tutti run -n 2 -- rma_tutti FOLDER [ordinary]\n       rma_tutti FOLDER threads\n");
    return 2;
  }
  return 0;
}
