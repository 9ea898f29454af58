// This rank's part of a window, as its process has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "base/rank.hpp"
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
  static std::shared_ptr<OwnPart> make(PartName name, void* memory, uint64_t bytes, Rank ranks);
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
  /// When it returns, nobody uses the part by loads and stores: uses that have begun have ended. A process of this host
  /// that is in the middle of one for longer than a moment, since it is stopped, has pages of its own from then on, and
  /// these have the content of before. False if the system refuses that, or the part shares pages with other data.
  bool close(Closed why = Closed::Deregistered);

 private:
  OwnPart(PartName name, void* memory, uint64_t bytes, Rank ranks);
  bool is_busy() const;
  bool is_closed() const { return signals_->closed.load(std::memory_order_acquire) != Closed::No; }
  bool cut_off();

  const PartName name_;
  std::byte* const memory_;
  const Rank ranks_;
  SignalLine* const signals_;
  Part part_;
};

}  // namespace tutti::rma
