// The call board: what a rank's last calls were, for peers that wonder why it does not answer.
//
// Collectives, split and destroy are numbered from 1 on each communicator; sends and receives are numbered from 1 for
// each peer and direction, because only two ranks know of them.
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

/// What a board says.
struct BoardAnswer {
  uint64_t begun = 0;            ///< collectives entered
  uint64_t finished = 0;         ///< collectives left
  std::optional<CallSpec> spec;  ///< the call asked for, if it was entered and is still on the board
  std::optional<CallSpec> last;  ///< what was entered last, of either kind
};

/// Names a send or receive: the `number`-th of the board's rank to (from) `peer`. Never equal to a collective's number.
uint64_t transfer_key(bool sends, Rank peer, uint64_t number);

/// Asks, of collective number `call`, how long its blocks are, where they vary: those of the ranks from `first` on.
/// Never equal to a transfer's key or a collective's number.
uint64_t blocks_key(uint64_t call, Rank first);

/// The answer: elements that the board's rank sends to, and expects from, some ranks in order.
struct BlockLengths {
  std::vector<uint64_t> sent, expected;
};

/// Written by the thread that makes the calls, read by any other.
class Board {
 public:
  /// Collective number `call` (from 1) begins. A few plain stores.
  void enter(uint64_t call, const CallSpec& spec);
  void leave(uint64_t call) { finished_.store(call, std::memory_order_release); }
  void enter_transfer(uint64_t key, const CallSpec& spec);
  /// The blocks of a collective that was entered.
  void enter_blocks(uint64_t call, std::shared_ptr<const Varying> blocks);

  uint64_t begun() const { return begun_.load(std::memory_order_acquire); }
  /// Collective number `call`, if it is still on the board.
  std::optional<CallSpec> collective(uint64_t call) const { return collectives_[call % kEntries].read(call); }

  /// The blocks of collective number `call`, if they vary and are still known.
  std::shared_ptr<const Varying> blocks(uint64_t call) const;

  /// The answer to a peer's question, as bytes. `key` is a collective's number, a transfer's key or a blocks_key().
  std::string answer(uint64_t key) const;
  /// Reads such bytes; nothing when they make no sense.
  static std::optional<BoardAnswer> parse(const std::string& bytes);
  static std::optional<BlockLengths> parse_blocks(const std::string& bytes);

  static constexpr uint64_t kEntries = 64;        ///< of each kind: the last so many
  static constexpr Rank kBlocksInAnAnswer = 128;  ///< at most

 private:
  struct Entry {  // key: 0 while being written
    std::atomic<uint64_t> key{0}, kinds{0}, count{0};
    void write(uint64_t new_key, const CallSpec& spec);
    std::optional<CallSpec> read(uint64_t wanted) const;
  };

  std::string answer_blocks(uint64_t call, Rank first) const;

  struct Blocks {
    uint64_t call = 0;
    std::shared_ptr<const Varying> of;
  };
  mutable std::mutex blocks_mutex_;  // guards blocks_
  std::array<Blocks, 8> blocks_;     // a few: they grow with the number of ranks

  std::array<Entry, kEntries> collectives_, transfers_;
  std::atomic<uint64_t> begun_{0}, finished_{0}, transfers_begun_{0};
  std::atomic<uint64_t> last_{0};  // key of what was entered last
};

}  // namespace tutti::comm
