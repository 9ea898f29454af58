// How a switch between GPUs folds and multicasts what all ranks have (NVLink SHARP): the steps of a block, and the
// bytes that each is about. The kernels (exec/cuda/multimem.cu) and the proof (src/proof) run the same.
//
// The GPUs of all ranks have equal memories, and one multicast address stands for the same place of each
// (transports/cuda/multicast.hpp). A call's windows are dealt out to items; a block runs an item at a
// time. Each item has two slots of that memory, for the windows of two rounds.
#pragma once

#include <cstdint>

#include "base/hd.hpp"

namespace tutti::exec {

/// What a plan does. The steps are the same; some of them move nothing.
enum class MultimemForm : uint32_t {
  FoldToAll,  ///< everyone folds a part of the only block, and sends it to all
  Fold,       ///< everyone folds a block of its own
  ToAll       ///< everyone sends its block to all
};

/// What a block does with an item, step after step; the same on all ranks. The window of the next round is copied in
/// while others may still fold that of this one: hence two slots.
class MultimemSteps {
 public:
  enum class Kind : uint32_t {
    AwaitIn,     ///< until all ranks have sent count() signals: the windows are there, or nobody reads the slot
    Fold,        ///< this rank's part, by the switch: load it from all (ToAll: from the input), store it to all
                 ///< (Fold: to the output)
    SignalFold,  ///< to all ranks, the count()-th
    CopyIn,      ///< a window of every block of the input to a slot; ToAll: nothing
    SignalIn,    ///< to all ranks, the count()-th
    AwaitFold,   ///< until all ranks have sent count() signals: all parts are there, or nobody reads the slot
    CopyOut      ///< a window of every block of the output from the slot; Fold: nothing
  };

  TUTTI_HD explicit MultimemSteps(uint64_t rounds) : rounds_(rounds) {}
  TUTTI_HD bool ended() const { return turn_ > rounds_; }
  TUTTI_HD Kind kind() const { return kind_; }
  TUTTI_HD uint64_t round() const { return kind_ == Kind::CopyIn || kind_ == Kind::SignalIn ? turn_ : turn_ - 1; }
  TUTTI_HD uint64_t count() const { return 2 * round() + (kind_ == Kind::AwaitIn || kind_ == Kind::SignalIn ? 1 : 2); }

  TUTTI_HD void advance() {
    if (kind_ == Kind::CopyOut || (kind_ == Kind::SignalIn && turn_ == 0)) {
      ++turn_;
      kind_ = Kind::AwaitIn;
    } else if (kind_ == Kind::SignalFold && turn_ == rounds_) {
      kind_ = Kind::AwaitFold;  // there is no other window
    } else {
      kind_ = static_cast<Kind>(static_cast<uint32_t>(kind_) + 1);
    }
  }

 private:
  const uint64_t rounds_;
  uint64_t turn_ = 0;  // round `turn_ - 1`, with the window of the next; 0: that alone
  Kind kind_ = Kind::CopyIn;
};

inline constexpr uint32_t kMultimemSlots = 2;
inline constexpr uint64_t kPackBytes = 16;  ///< what a switch folds at a time

/// Which bytes the steps are about. A slot has a place for a window of each block of the longer buffer.
struct MultimemLayout {
  MultimemForm form = MultimemForm::FoldToAll;
  uint64_t bytes = 0;    ///< of a block
  uint64_t window = 0;   ///< bytes of a block in a round; blocks() · place() is at most `slot`
  uint64_t slot = 0;     ///< bytes of a slot; a multiple of kPackBytes
  uint32_t windows = 0;  ///< as many as rounds of all items; at least 1
  uint32_t items = 0;    ///< that share the windows among them, at most one for each
  uint32_t rank = 0, ranks = 0;

  TUTTI_HD uint32_t blocks() const { return form == MultimemForm::FoldToAll ? 1 : ranks; }
  TUTTI_HD uint32_t copies_in() const { return form == MultimemForm::ToAll ? 0 : blocks(); }
  TUTTI_HD uint32_t copies_out() const { return form == MultimemForm::Fold ? 0 : blocks(); }

  TUTTI_HD uint32_t rounds_of(uint32_t item) const { return (windows - item - 1) / items + 1; }
  /// Where the round's window begins in a block, and how long it is.
  TUTTI_HD uint64_t begin_of(uint32_t item, uint64_t round) const { return (round * items + item) * window; }
  TUTTI_HD uint64_t bytes_of(uint64_t begin) const { return bytes - begin < window ? bytes - begin : window; }
  /// Where its slot begins, from the first slot on.
  TUTTI_HD uint64_t slot_of(uint32_t item, uint64_t round) const {
    return (uint64_t{item} * kMultimemSlots + round % kMultimemSlots) * slot;
  }
  /// Bytes of a slot for a window of one block.
  TUTTI_HD uint64_t place() const { return packs_of(window) * kPackBytes; }

  /// This rank's part of a slot in packs, with a window of so many bytes. What follows the window in its last pack is
  /// folded too, and means nothing.
  struct Packs {
    uint32_t begin = 0, end = 0;
  };
  TUTTI_HD Packs part_of(uint64_t window_bytes) const {
    const auto packs = static_cast<uint32_t>(packs_of(window_bytes));
    if (form == MultimemForm::FoldToAll) return {packs * rank / ranks, packs * (rank + 1) / ranks};
    const auto begin = static_cast<uint32_t>(rank * packs_of(window));
    return {begin, begin + packs};
  }

 private:
  TUTTI_HD static uint64_t packs_of(uint64_t bytes) { return (bytes + kPackBytes - 1) / kPackBytes; }
};

}  // namespace tutti::exec
