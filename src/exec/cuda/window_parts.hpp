// The parts of a window in memory of GPUs: this rank's, as it is given to the others, and theirs, as this rank's GPU
// reaches them.
//
// Beside its buffer each rank has words for each other rank, in memory of the host: there the host sees what a stream
// waits for, and can end the wait, without the help of a GPU whose queues may all be waiting (as copies.hpp has them).
// The other rank's stream adds signals, which this rank's stream waits for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "exec/window.hpp"
#include "transports/cuda/memory.hpp"
#include "transports/cuda/registered.hpp"
#include "transports/wireup.hpp"

namespace tutti::exec::cuda {

/// What a rank and the owner of a part tell each other; it lies with the owner. The first half is polled by the owner's
/// GPU, the second by its host.
struct alignas(128) WindowLine {
  uint64_t arrived[kWindowSignals] = {};  ///< signals of that rank
  uint64_t begun = 0;                     ///< uses of the part that its host has enqueued …
  uint64_t ended = 0;                     ///< … of which its stream has ended so many
  uint64_t closed = 0;                    ///< a WindowEnd, by the owner: the part may not be used any more
};

/// This rank's part.
class OwnPart {
 public:
  /// `for_processes`: of other ranks. Throws Error(Unsupported | InvalidArgument | OutOfMemory) with the reason.
  OwnPart(const tutti::cuda::Device& device, void* memory, uint64_t bytes, Rank ranks, bool for_processes);
  OwnPart(const OwnPart&) = delete;
  OwnPart& operator=(const OwnPart&) = delete;
  const tutti::cuda::Device& device() const { return device_; }
  CUdeviceptr memory() const { return memory_; }
  uint64_t bytes() const { return bytes_; }
  Rank ranks() const { return ranks_; }
  /// The words of a rank: on the host, and where GPUs of this process have them.
  WindowLine& line(Rank of) const { return reinterpret_cast<WindowLine*>(words_->on_host())[of]; }
  CUdeviceptr line_at(Rank of) const;
  /// Lets another GPU of this process use it.
  void open_to(const tutti::cuda::Device& other) const;
  /// For ranks in other processes: what maps it.
  std::string text() const;
  transports::Wireup::Reply words() const;
  transports::Wireup::Reply piece(uint64_t number) const;

 private:
  const tutti::cuda::Device& device_;
  const CUdeviceptr memory_;
  const uint64_t bytes_;
  const Rank ranks_;
  const std::shared_ptr<tutti::cuda::PeerMemory> words_;
  std::unique_ptr<tutti::cuda::OwnBuffer> buffer_;  // null: the part is empty
};

/// The parts of a rank's windows that peers may ask for.
class ServedParts {
 public:
  /// Answers requests of peers from now on.
  static std::shared_ptr<ServedParts> serve(transports::Wireup& wireup);
  void add(uint64_t window, const std::shared_ptr<OwnPart>& part);
  void remove(uint64_t window);

 private:
  transports::Wireup::Reply answer(const std::string& request);
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<OwnPart>> parts_;
};

/// A rank's part, as this rank reaches it.
struct PeerPart {
  CUdeviceptr memory = 0;  ///< of another host: as its own GPU has it
  uint64_t bytes = 0;
  bool is_far = false;         ///< of another host: the proxy alone reaches it
  WindowLine* line = nullptr;  ///< this rank's words there, on the host …
  CUdeviceptr line_at = 0;     ///< … and for its GPU
  bool has_atomics = false;
  uint64_t uses = 0;                   ///< that this rank has enqueued
  uint64_t sent[kWindowSignals] = {};  ///< signals, likewise
  std::shared_ptr<OwnPart> thread;     ///< of this process; else
  std::shared_ptr<tutti::cuda::MappedBuffer> buffer;
  std::shared_ptr<tutti::cuda::PeerMemory> words;
};

/// Reaches the peer's part of a window, by its OwnPart::text(). Throws Error(Unsupported | ProtocolError) and what
/// asking it throws.
PeerPart reach_part(transports::Wireup& wireup, const tutti::cuda::Device& device, uint64_t window, Rank peer,
                    const std::string& text, Deadline deadline);
/// What threads of this process find parts by.
std::string part_name(const transports::Wireup& wireup, uint64_t window);

}  // namespace tutti::exec::cuda
