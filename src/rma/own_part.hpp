// This rank's part of a window, as its process has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/rank.hpp"
#include "link/cma.hpp"
#include "rma/part.hpp"
#include "rma/target.hpp"

namespace tutti::rma {

/// Which part of a window of this process: the communicator's name, the rank, the window's number.
using PartName = std::tuple<std::string, Rank, uint64_t>;

/// This rank's own part: its buffer, and the memory in which signals are counted. Ranks of the same process hold it
/// too, as long as they have the window.
class OwnPart {
 public:
  /// The other ranks of this process find it under its name.
  /// `processes`: by rank, those of this host; 0: on another one. Throws Error(InvalidArgument) if this process cannot
  /// write to the memory.
  static std::shared_ptr<OwnPart> make(PartName name, void* memory, uint64_t bytes, std::vector<int> processes);
  /// Null: there is none of this name in this process.
  static std::shared_ptr<OwnPart> find(const PartName& name);
  ~OwnPart();
  OwnPart(const OwnPart&) = delete;
  OwnPart& operator=(const OwnPart&) = delete;

  /// Does a part of this process have some of these bytes? Its name.
  static std::optional<PartName> within(const void* memory, uint64_t bytes);
  const Part& part() const { return part_; }
  Target::Exposed exposed() const;
  std::byte* memory() const { return memory_; }
  SignalLine& from(Rank rank) const { return signals_[rank]; }
  /// When it returns, nobody uses the part without the agent: uses that have begun have ended. A process of this host
  /// may be in the middle of one for longer than a moment, since it is stopped. If the part is mapped, that process has
  /// pages of its own from then on, and these have the content of before; else the kernel refuses its later writes.
  /// False if the system cannot do that, or the part shares pages with other data, or a thread of this process is in
  /// the middle of a use for longer than a moment.
  bool close(Closed why = Closed::Deregistered);
  /// After a close() that was false: who may still write to which of its bytes, in words.
  std::string still_written() const;
  /// To be called before close() if all ranks have told that they do not use the part any more.
  void expect_no_use() { gate_.reset(); }

 private:
  OwnPart(PartName name, void* memory, uint64_t bytes, std::vector<int> processes);
  Rank ranks() const { return static_cast<Rank>(processes_.size()); }
  bool is_used_by(Rank rank) const;
  bool is_used_here() const;
  std::vector<Rank> users() const;
  bool is_closed() const { return signals_->closed.load(std::memory_order_acquire) != Closed::No; }
  bool cut_off();

  const PartName name_;
  std::byte* const memory_;
  const std::vector<int> processes_;
  SignalLine* const signals_;
  const uint64_t token_;
  std::optional<link::CmaGate> gate_;
  Part part_;
  std::vector<Rank> users_;       // after a close() that was false: those that may still write
  uint64_t head_ = 0, tail_ = 0;  // bytes on pages at its ends that were not renewed; all of them, if none was
};

}  // namespace tutti::rma
