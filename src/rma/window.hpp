// A window: a buffer of each rank that all ranks may read and write (one-sided calls). Ranks of the same process, and
// of the same host where the memory can be mapped, do it by loads and stores; others in a way of RemotePart.
//
// Order: what a rank puts into another rank's part lies there when a signal of it that follows has arrived: the signal
// is counted by a store-release, and await() reads the count by a load-acquire. Puts without a signal between them may
// arrive in any order. What a rank puts is in place, and may be read by get() and by others, after flush(). That holds
// of all windows of a communicator together: they share the connections to a rank, and a signal waits until what other
// connections than its own have carried is in place.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "link/peer_regions.hpp"
#include "reduce/fold.hpp"
#include "rma/connections.hpp"
#include "rma/own_part.hpp"
#include "rma/part.hpp"
#include "rma/remote_part.hpp"

namespace tutti::rma {

/// One thread at a time makes calls. They throw Error(InvalidArgument) where the bytes do not lie in the peer's part,
/// Error(InvalidUsage) where the peer has deregistered the window or left, and what RemotePart's functions throw.
class Window {
 public:
  /// `parts`: by rank. Maps those of this host's other processes that can be mapped.
  Window(uint64_t number, Connections& connections, std::vector<Part> parts, Deadline deadline);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  uint64_t bytes(Rank peer) const { return parts_[peer].bytes; }
  /// Where this process's loads and stores reach the peer's part; null: nowhere.
  std::byte* address(Rank peer) const { return peers_[peer].memory; }
  /// "CMA to 1, 2; loads and stores to 0; requests to 3 (why nothing else)", ranks, for the log.
  std::string ways() const;
  /// May calls wait for the peer?
  bool may_wait(Rank peer) const { return peers_[peer].line == nullptr || connections_.are_dirty(peer); }

  /// `limit`: seconds that the peer may take. put() returns when the source may be changed.
  void put(std::span<const std::byte> source, Rank peer, uint64_t offset, double limit);
  void get(std::span<std::byte> into, Rank peer, uint64_t offset, double limit);
  void signal(Rank peer, uint32_t signal, double limit);
  /// Of 8 bytes at a multiple of 8; sequentially consistent. Return what was there before.
  uint64_t add(uint64_t operand, Rank peer, uint64_t offset, double limit);
  uint64_t compare_swap(uint64_t expected, uint64_t desired, Rank peer, uint64_t offset, double limit);
  /// Also what was put into other windows of the communicator.
  void flush(Rank peer, double limit);
  /// Throws Error(InvalidUsage) if the peer is known to have no part any more.
  void check_open(Rank peer) const;

  // The same where loads and stores reach the peer's part. False: nothing was done, and the functions above do it, or
  // say why it cannot be done.
  [[gnu::always_inline]] bool try_put(std::span<const std::byte> source, Rank peer, uint64_t offset) {
    return use_bytes(peer, offset, source.size(), [&](std::byte* part) { move(part, source.data(), source.size()); });
  }
  [[gnu::always_inline]] bool try_get(std::span<std::byte> into, Rank peer, uint64_t offset) {
    return use_bytes(peer, offset, into.size(), [&](std::byte* part) { move(into.data(), part, into.size()); }) &&
           !was_closed(peer);
  }
  bool try_signal(Rank peer, uint32_t signal) {
    if (!is_at_hand(peer)) return false;
    peers_[peer].store_signal(signal);  // its memory stays, also when the part is closed
    return true;
  }
  [[gnu::always_inline]] bool try_put_signal(std::span<const std::byte> source, Rank peer, uint64_t offset,
                                             uint32_t signal) {
    if (!is_at_hand(peer) || !try_put(source, peer, offset)) return false;
    peers_[peer].store_signal(signal);
    return true;
  }
  bool try_add(uint64_t operand, Rank peer, uint64_t offset, uint64_t& before) {
    return use_word(peer, offset, [&](auto word) { before = word.fetch_add(operand); }) && !was_closed(peer);
  }
  bool try_compare_swap(uint64_t expected, uint64_t desired, Rank peer, uint64_t offset, uint64_t& before) {
    before = expected;
    return use_word(peer, offset, [&](auto word) { word.compare_exchange_strong(before, desired); }) &&
           !was_closed(peer);
  }
  bool try_flush(Rank peer) const { return is_at_hand(peer) && fence(); }

 private:
  struct Peer {
    std::byte* memory = nullptr;
    uint64_t bytes = 0;
    SignalLine* line = nullptr;  // this rank's, of the peer's; null: loads and stores do not reach the part, …
    std::unique_ptr<RemotePart> remote;  // … and this does
    std::string why_requests;            // and nothing else
    std::shared_ptr<OwnPart> here;       // of a rank in this process
    link::PeerRegions::Mapped memory_file, signal_file;
    std::array<uint64_t, kSignals> sent{};  // by stores: to look how many have arrived would fetch the line back first

    void store_signal(uint32_t signal) { line->arrived[signal].store(++sent[signal], std::memory_order_release); }
  };
  void reach(Rank peer, Deadline deadline);
  void reach_process(Rank peer, Deadline deadline);
  void map_part(Rank peer, link::PeerRegions::Mapped signals, Deadline deadline);
  void reach_host(Rank peer);
  link::PeerRegions::Mapped map(Rank peer, uint64_t region, Deadline deadline) const;
  void check(Rank peer, uint64_t offset, uint64_t bytes) const;
  void check_word(Rank peer, uint64_t offset) const;
  /// An aligned word by one load and one store: who uses it meanwhile sees all of it or nothing.
  static void move(std::byte* to, const std::byte* from, size_t bytes) {
    if (bytes != sizeof(uint64_t) || !is_word(to) || !is_word(from)) return copy_bytes(to, nullptr, from, bytes, false);
    const auto source = std::atomic_ref(*reinterpret_cast<uint64_t*>(const_cast<std::byte*>(from)));
    std::atomic_ref(*reinterpret_cast<uint64_t*>(to))
        .store(source.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  static bool is_word(const std::byte* at) { return reinterpret_cast<uintptr_t>(at) % sizeof(uint64_t) == 0; }

  /// True: all ranks see what this one has stored before it loads anything that comes after. (Stores alone are seen in
  /// their order, but loads may overtake them.)
  static bool fence() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return true;
  }
  bool is_closed(Rank rank) const { return peers_[rank].line->closed.load(std::memory_order_acquire) != Closed::No; }
  /// What was read before may not be the part's: if this process was stopped in the middle of a use, the owner may have
  /// closed the part, and freed its memory, which peers that have it mapped read as zeros then.
  bool was_closed(Rank rank) const {
    std::atomic_thread_fence(std::memory_order_acquire);  // plain loads before it do not pass the next one
    return is_closed(rank);
  }
  /// Loads and stores reach the peer's part, it is not closed, and nothing is under way to the peer otherwise.
  bool is_at_hand(Rank rank) const {
    return peers_[rank].line != nullptr && !is_closed(rank) && !connections_.are_dirty(rank);
  }
  /// work(memory), unless the part is not reached, is closed, or has no such bytes.
  template <class Work>
  [[gnu::always_inline]] bool use_bytes(Rank rank, uint64_t offset, uint64_t bytes, Work&& work) {
    const Peer& peer = peers_[rank];
    if (peer.line == nullptr || offset > peer.bytes || bytes > peer.bytes - offset) return false;
    const Use use(*peer.line);
    if (use.allowed()) work(peer.memory + offset);
    return use.allowed();
  }
  /// work(word), likewise. The peer, and others, read and write it meanwhile.
  template <class Work>
  bool use_word(Rank rank, uint64_t offset, Work&& work) {
    if ((reinterpret_cast<uintptr_t>(peers_[rank].memory) + offset) % sizeof(uint64_t) != 0) return false;
    return use_bytes(rank, offset, sizeof(uint64_t),
                     [&](std::byte* at) { work(std::atomic_ref(*reinterpret_cast<uint64_t*>(at))); });
  }
  RemotePart& remote(Rank peer) const;

  const uint64_t number_;
  Connections& connections_;
  const std::vector<Part> parts_;
  std::vector<Peer> peers_;
};

}  // namespace tutti::rma
