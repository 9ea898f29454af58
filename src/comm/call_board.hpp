// The call board: a rank's most recent calls, for peers that ask why it does not answer.
//
// Collectives, split and destroy are numbered from 1 on each communicator. Sends and receives are numbered from 1 for
// each peer and direction, since only two ranks know of them; a rank's calls on windows, of which it alone knows, too.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/call.hpp"

namespace tutti::comm {

/// A board's reply.
struct BoardAnswer {
  uint64_t begun = 0;            ///< collectives entered
  uint64_t finished = 0;         ///< collectives left
  std::optional<CallSpec> spec;  ///< the requested call, if it was entered and is still on the board
  std::optional<CallSpec> last;  ///< the call entered last, of either kind
  bool repeats = false;          ///< graphs may repeat collectives, so their numbers say nothing
};

/// The key of a send or receive: the `number`-th of the board's rank to (from) `peer`. Never equal to a collective's
/// number.
uint64_t transfer_key(bool sends, Rank peer, uint64_t number);
/// The lower 32 bits of its number.
uint64_t number_of_transfer(uint64_t key);

/// The key of a rank's `number`-th call on windows: none of a transfer.
uint64_t one_sided_key(uint64_t number);

/// A spec from its words: CallSpec::kinds() and its count. Empty if they are not a valid one's.
std::optional<CallSpec> unpack_spec(uint64_t kinds, uint64_t count);

/// The key for the block lengths of collective number `call`, a vector call, from rank `first` on. Never equal to a
/// transfer's key or a collective's number.
uint64_t blocks_key(uint64_t call, Rank first);

/// The reply: elements that the board's rank sends to, and expects from, consecutive ranks.
struct BlockLengths {
  std::vector<uint64_t> sent, expected;
};

/// The thread that makes the calls writes it; any thread reads it.
class CallBoard {
 public:
  /// Of a communicator of so many ranks; sends to others are not counted.
  explicit CallBoard(Rank ranks = 0) : sends_(static_cast<size_t>(ranks)) {}

  /// Collective number `call` (from 1) begins. Costs a few plain stores.
  void enter(uint64_t call, const CallSpec& spec);
  void leave(uint64_t call) { finished_.store(call, std::memory_order_release); }
  /// The `number`-th send (receive) to (from) its peer begins. Returns its key.
  uint64_t enter_transfer(uint64_t number, const CallSpec& spec);
  /// A call on a window that waits, or fails; others do not need the board.
  void enter_one_sided(uint64_t key, const CallSpec& spec);
  /// The blocks of a collective that has been entered.
  void enter_blocks(uint64_t call, std::shared_ptr<const VectorBlocks> blocks);

  /// The collective entered last is not among those that leaving counts: copies have no number on the device.
  void uncount() { uncounted_.store(true, std::memory_order_release); }
  bool counts_all() const { return !uncounted_.load(std::memory_order_acquire); }

  /// Graphs may repeat transfers from now on, or several backends make them, each with links of its own: the number of
  /// a send no longer says what a link has carried.
  void uncount_sends() { counts_sends_.store(false, std::memory_order_release); }
  bool counts_sends() const { return counts_sends_.load(std::memory_order_acquire); }

  /// Graphs may repeat collectives from now on, which then have other numbers here than on the device.
  void repeat() { repeats_.store(true, std::memory_order_release); }
  bool repeats() const { return repeats_.load(std::memory_order_acquire); }

  uint64_t begun() const { return begun_.load(std::memory_order_acquire); }
  uint64_t finished() const { return finished_.load(std::memory_order_acquire); }
  /// Sends and receives entered.
  uint64_t transfers() const { return transfers_begun_.load(std::memory_order_acquire); }
  /// The number of the last send to `peer` on its link, 0 before the first; empty if that is not known.
  std::optional<uint64_t> sends_to(Rank peer) const;
  /// The call entered last, of either kind, if it is still on the board.
  std::optional<CallSpec> last() const { return find(last_key()); }
  uint64_t last_key() const { return last_.load(std::memory_order_acquire); }
  /// Collective number `call`, if it is still on the board.
  std::optional<CallSpec> collective(uint64_t call) const { return collectives_[call % kEntries].read(call); }

  /// The blocks of collective number `call`, if it is a vector call and still kept.
  std::shared_ptr<const VectorBlocks> blocks(uint64_t call) const;

  /// The reply to a peer's question, as bytes. `key` is a collective's number, a transfer_key() or a blocks_key().
  std::string answer(uint64_t key) const;
  /// Reads such bytes; empty if they are invalid.
  static std::optional<BoardAnswer> parse(const std::string& bytes);
  static std::optional<BlockLengths> parse_blocks(const std::string& bytes);

  static constexpr uint64_t kEntries = 64;        ///< the last calls of each kind
  static constexpr Rank kBlocksInAnAnswer = 128;  ///< at most

 private:
  struct Entry {  // key: 0 while being written
    std::atomic<uint64_t> key{0}, kinds{0}, count{0};
    void write(uint64_t new_key, const CallSpec& spec);
    std::optional<CallSpec> read(uint64_t wanted) const;
  };

  std::optional<CallSpec> find(uint64_t key) const;
  std::string answer_blocks(uint64_t call, Rank first) const;

  struct Blocks {
    uint64_t call = 0;
    std::shared_ptr<const VectorBlocks> of;
  };
  mutable std::mutex blocks_mutex_;  // guards blocks_
  std::array<Blocks, 8> blocks_;     // few, since their size grows with the number of ranks

  std::array<Entry, kEntries> collectives_, transfers_;
  Entry one_sided_;  // the last one
  std::atomic<uint64_t> begun_{0}, finished_{0}, transfers_begun_{0};
  std::atomic<uint64_t> last_{0};  // key of the last entry
  std::atomic<bool> uncounted_{false}, repeats_{false}, counts_sends_{true};
  std::vector<std::atomic<uint64_t>> sends_;  // the last one's number, by peer
};

}  // namespace tutti::comm
