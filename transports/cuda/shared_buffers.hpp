// Buffers of users that peers' GPUs read where they lie. A rank tells its peers of one alone, whenever it likes: a
// peer's control thread notes it, and a thread of the peer's own maps it, since mapping may wait for kernels of its
// process. No user's thread of a peer takes part.
//
//   owner                                      peer
//     offer, to each peer of the host   ──▶      noted
//                                       ◀──      what is it?  which is its i-th piece?
//     when all have it: calls use it    ◀──      mapped, or why not
//     withdraw, when no call uses it    ──▶      noted, then unmapped
//
// Buffers have ids, which are used again, and numbers, which are not: what is said of an older buffer is ignored. All
// that is registered of the same allocations is one buffer.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/rank.hpp"
#include "link/link.hpp"
#include "transports/cuda/registered.hpp"
#include "transports/wireup.hpp"

namespace tutti::cuda {

class SharedBuffers {
 public:
  /// A rank of this host. `device`: its GPU, if it runs in this process; null if not.
  struct Peer {
    Rank rank = 0;
    const Device* device = nullptr;
  };
  /// What this object is told, and calls. Any thread may call these functions, which must call nothing here.
  struct Surroundings {
    std::vector<Peer> peers;
    /// From now on kernels may read this region of the peer; no more, if it has no bytes.
    std::function<void(Rank peer, uint64_t id, const link::MappedRegion& region)> set_region;
    std::function<void()> changed;       ///< earlier results of find() may be outdated
    std::function<uint64_t()> enqueued;  ///< calls, with the one that is about to be, …
    std::function<uint64_t()> ended;     ///< … of which so many have ended
  };
  enum class For : uint8_t { User, Graphs };

  /// Notes what peers offer.
  SharedBuffers(transports::Wireup& wireup, const Device& device);
  ~SharedBuffers();
  SharedBuffers(const SharedBuffers&) = delete;
  SharedBuffers& operator=(const SharedBuffers&) = delete;

  /// Maps what peers have offered, and will. Throws what start_thread() throws.
  void start(Surroundings around);
  /// Refuses what peers offer: this rank makes no calls any more.
  void leave();
  /// From now on nothing in `around` is called. The destructor does it too.
  void end();

  /// The buffer that holds these bytes, and that all peers read; id 0 if there is none.
  link::SharedRegion find(const void* data, uint64_t bytes) const;
  /// Offers all allocations that hold these bytes to the peers. Returns the buffer's number; 0 if there are no peers.
  /// For::User: until as many withdraw() it; For::Graphs: as long as something holds it. Throws what OwnBuffer throws;
  /// Error(Unsupported) if too many are offered, or a peer refuses, or says nothing before `deadline`;
  /// Error(PeerFailed).
  uint64_t offer(const void* data, uint64_t bytes, For whom, Deadline deadline);
  /// Waits for the peers' answers: true when all have it, false if some have not said so before `deadline` or before
  /// `stop` is true; calls use the buffer then as soon as they do. Throws Error(Unsupported) with the reason if one
  /// cannot have it: then it is withdrawn.
  bool wait(uint64_t number, Deadline deadline, const std::function<bool()>& stop);
  /// What holds the region of a call that a graph repeats; null if it is of no buffer.
  std::shared_ptr<void> hold(const link::SharedRegion& region) const;
  /// Once for each offer to the user: calls from now on do not use it, and peers unmap it when those before have ended
  /// and nothing holds it. Nothing happens if it was withdrawn before.
  void withdraw(uint64_t number);
  /// All buffers of which the user has freed some of these bytes, as others may be there now.
  void withdraw_freed(const void* data, uint64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;
  struct Own {
    std::shared_ptr<OwnBuffer> buffer;
    uint64_t number = 0;
    std::shared_ptr<void> held = nullptr;  // by graphs too
    int users = 0;
    bool is_for_graphs = false;
    Clock::time_point offered_at = {};  // to graphs
    std::set<Rank> unanswered = {};
    std::string why_not = "";   // of the first peer that cannot have it
    bool is_awaited = true;     // by wait(), which then hears why_not
    bool is_withdrawn = false;  // peers unmap it when, of this rank's calls, …
    uint64_t used_until = 0;    // … so many have ended
    bool is_held() const { return held.use_count() > 1; }
    bool all_have_it() const { return unanswered.empty() && why_not.empty() && !is_withdrawn; }
  };
  using Owned = std::map<uint64_t, Own>;  // by id
  /// What a peer has said, for the thread.
  struct Task {
    bool maps = true;  // or unmaps
    Rank peer = 0;
    uint64_t id = 0, number = 0;
  };
  using Whose = std::pair<Rank, uint64_t>;  // a peer, and its buffer's id
  struct Theirs {
    uint64_t number = 0;
    std::shared_ptr<MappedBuffer> mapped = nullptr;  // null: it is memory of this process
  };
  /// A peer's buffer that it has withdrawn, which calls of this rank may still read.
  struct Leaving {
    std::shared_ptr<MappedBuffer> mapped = nullptr;
    uint64_t read_until = 0;        // so many of them have ended
    std::optional<Task> then = {};  // to map another buffer of that id
  };
  struct Request;
  struct Reply;

  std::shared_ptr<OwnBuffer> make(const void* data, uint64_t bytes) const;
  uint64_t join_known(const void* data, uint64_t bytes, For whom);
  void tell_offered(uint64_t id, uint64_t number, Deadline deadline);
  Owned::iterator by_number(uint64_t number);
  void withdraw(Own& own);
  transports::Wireup::Reply reply(Rank from, const std::string& bytes);
  Reply act_on(Rank from, const Request& request, Fd& fd);
  void note(Rank from, const Request& request);
  void take_answer(Rank from, const Request& request);
  std::shared_ptr<OwnBuffer> buffer_of(const Request& request) const;
  BufferPiece piece_of(const Request& request) const;
  Reply ask(Rank peer, const Request& request, Deadline deadline, Fd* fd = nullptr) const;
  void work();
  void sleep(std::unique_lock<std::mutex>& lock);
  void withdraw_from_graphs();
  Owned::iterator unused();
  void tell_withdrawn(uint64_t id, uint64_t number) const;
  void perform(const Task& task);
  void withdraw_theirs(const Whose& whose);
  void unmap_unread();
  void map_and_answer(const Task& task);
  link::MappedRegion map(const Task& task);

  transports::Wireup& wireup_;
  const Device& device_;
  Surroundings around_;

  mutable std::mutex mutex_;
  std::condition_variable answered_, added_;
  Owned own_;
  uint64_t last_number_ = 0;
  std::deque<Task> tasks_;
  bool leaves_ = false;
  std::atomic<bool> ends_{false};
  std::thread thread_;

  // Of the thread.
  std::map<Whose, Theirs> theirs_;
  std::map<Whose, Leaving> leaving_;
};

}  // namespace tutti::cuda
