// A rank of an MPI with a window, as given by mpicxx.   mpirun -np 2 rma_mpi FOLDER
//
// The window is MPI's own memory (MPI_Win_allocate), its target is passive (MPI_Win_lock_all, MPI_Win_flush). MPI has
// no signals: word of a put is a number behind the data, which is put after a flush, and for which the peer looks in
// its own memory.
#include <mpi.h>

#include <atomic>

#include "mpi_main.hpp"
#include "rma.hpp"

namespace {

class MpiPeer {
 public:
  MpiPeer() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Win_allocate(kBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory_, &window_);
    std::memset(memory_, 0, kBytes);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~MpiPeer() {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  MpiPeer(const MpiPeer&) = delete;
  MpiPeer& operator=(const MpiPeer&) = delete;

  int rank() const { return rank_; }
  std::byte* mine() const { return memory_; }
  void put(const std::byte* source, size_t bytes, size_t offset) const {
    const int count = static_cast<int>(bytes);
    MPI_Put(source, count, MPI_BYTE, 1 - rank_, static_cast<MPI_Aint>(offset), count, MPI_BYTE, window_);
  }
  void get(std::byte* target, size_t bytes, size_t offset) const {
    const int count = static_cast<int>(bytes);
    MPI_Get(target, count, MPI_BYTE, 1 - rank_, static_cast<MPI_Aint>(offset), count, MPI_BYTE, window_);
  }
  void flush() const { MPI_Win_flush(1 - rank_, window_); }
  uint64_t add(uint64_t operand, size_t offset) const {
    uint64_t before = 0;
    MPI_Fetch_and_op(&operand, &before, MPI_UINT64_T, 1 - rank_, static_cast<MPI_Aint>(offset), MPI_SUM, window_);
    flush();
    return before;
  }
  void put_signal(const std::byte* source, size_t bytes) {
    put(source, bytes, 0);
    flush();
    ++sent_;
    MPI_Put(&sent_, 1, MPI_UINT64_T, 1 - rank_, kWord, 1, MPI_UINT64_T, window_);
    flush();
  }
  void wait_signal() {
    ++taken_;
    const std::atomic_ref arrived(*reinterpret_cast<uint64_t*>(memory_ + kWord));
    for (int turns = 1; arrived.load(std::memory_order_acquire) < taken_; ++turns) {
      int is_there = 0;  // some need calls of the target for progress
      if (turns % 256 == 0) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
    }
    MPI_Win_sync(window_);
  }
  void barrier() const {
    MPI_Win_sync(window_);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window_);
  }

 private:
  static constexpr MPI_Aint kWord = peers::kPart, kBytes = kWord + 64;
  int rank_ = 0;
  std::byte* memory_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
  uint64_t sent_ = 0, taken_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return peers::mpi_main(argc, argv, "rma_mpi", [](const char* folder) {
    MpiPeer peer;
    peers::RmaPlay<MpiPeer>(peer, folder).run();
  });
}
