// The upper bound of one-sided calls: memcpy, a flag and an atomic addition in memory that two processes share.
//   rma_direct FOLDER
#include <sys/mman.h>

#include <atomic>

#include "rma.hpp"

namespace {

struct alignas(4096) Shared {
  std::byte part[2][peers::kPart];
  struct alignas(128) Line {
    std::atomic<uint64_t> sent, entered;
  };
  Line of[2];  // the words that this rank polls
};

class DirectPeer {
 public:
  DirectPeer(Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  int rank() const { return rank_; }
  std::byte* mine() const { return shared_.part[rank_]; }
  void put(const std::byte* source, size_t bytes, size_t offset) const { move(other() + offset, source, bytes); }
  void get(std::byte* target, size_t bytes, size_t offset) const { move(target, other() + offset, bytes); }
  static void flush() {}
  uint64_t add(uint64_t operand, size_t offset) const {
    return std::atomic_ref(*reinterpret_cast<uint64_t*>(other() + offset)).fetch_add(operand);
  }
  void put_signal(const std::byte* source, size_t bytes) {
    put(source, bytes, 0);
    shared_.of[1 - rank_].sent.store(++sent_, std::memory_order_release);
  }
  void wait_signal() { await(shared_.of[rank_].sent, ++taken_); }
  void barrier() {
    const uint64_t epoch = ++epoch_;
    shared_.of[1 - rank_].entered.store(epoch, std::memory_order_release);
    await(shared_.of[rank_].entered, epoch);
  }

 private:
  std::byte* other() const { return shared_.part[1 - rank_]; }
  static void await(const std::atomic<uint64_t>& word, uint64_t wanted) {
    while (word.load(std::memory_order_acquire) < wanted) {
    }
  }
  /// memcpy, which the compiler must not leave out or join with the next one.
  static void move(std::byte* to, const std::byte* from, size_t bytes) {
    std::memcpy(to, from, bytes);
    asm volatile("" ::: "memory");
  }

  Shared& shared_;
  const int rank_;
  uint64_t sent_ = 0, taken_ = 0, epoch_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: rma_direct FOLDER\n");
    return 2;
  }
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return 2;
  }
  const int rank = peers::fork_ranks(2);
  peers::pin(rank);
  DirectPeer peer(*static_cast<Shared*>(memory), rank);
  peers::RmaPlay<DirectPeer>(peer, argv[1]).run();
  return 0;
}
