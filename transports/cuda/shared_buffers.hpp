// Buffers of users that peers' GPUs read where they lie. A rank tells its peers of one alone, whenever it likes: a
// peer's control thread notes it, and a thread of the peer's own maps it, since mapping may wait for kernels of its
// process. No user's thread of a peer takes part.
//
//   owner                                      peer
//     offer, to each peer of the host   ──▶      noted
//                                       ◀──      what is it?  which is its i-th piece?
//     when all have it: calls use it    ◀──      mapped, or why not
//     withdraw                          ──▶      noted; then nothing reads it
//
// Buffers have ids, which are used again, and numbers, which are not: what is said of an older buffer is ignored.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
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
  /// What the owner of this object knows and does. Any thread may call these, which must call nothing here.
  struct Uses {
    std::vector<Peer> peers;
    /// From now on kernels may read this region of the peer; no more, if it has no bytes.
    std::function<void(Rank peer, uint64_t id, const link::MappedRegion& region)> enter;
    std::function<void()> changed;       ///< earlier results of find() may be outdated
    std::function<uint64_t()> enqueued;  ///< calls, …
    std::function<uint64_t()> ended;     ///< … of which so many have ended
  };

  /// Notes what peers offer. `seconds`: how long they have to answer.
  SharedBuffers(transports::Wireup& wireup, const Device& device, double seconds);
  ~SharedBuffers();
  SharedBuffers(const SharedBuffers&) = delete;
  SharedBuffers& operator=(const SharedBuffers&) = delete;

  /// Maps what peers have offered, and will.
  void start(Uses uses);
  /// Refuses what peers offer: this rank makes no calls any more.
  void leave();

  /// The buffer that holds these bytes, and that all peers read; id 0 if there is none.
  link::SharedRegion find(const void* data, uint64_t bytes) const;
  /// Offers all allocations that hold these bytes to the peers. Returns its number; 0 if there are no peers, or if it
  /// is for a graph and was offered for one. `by_graph`: for calls that are captured, as long as something holds it.
  /// Throws what OwnBuffer throws; Error(Unsupported) if too many are offered; Error(PeerFailed | Timeout) where a peer
  /// does not answer.
  uint64_t offer(const void* data, uint64_t bytes, bool by_graph);
  /// Waits for the peers' answers: true when all have it, false if some have not said so before `deadline` or before
  /// `stop` is set; calls use the buffer then as soon as they do. Throws Error(Unsupported) with the reason if one
  /// cannot have it: then the buffer is withdrawn.
  bool wait(uint64_t number, Deadline deadline, const std::function<bool()>& stop);
  /// For a graph with calls that use the region.
  std::shared_ptr<void> hold(const link::SharedRegion& region);
  /// Calls from now on do not use it, and peers unmap it when those enqueued before have ended. Nothing happens if it
  /// was withdrawn before.
  void withdraw(uint64_t number);
  /// The same with all buffers of which the user has freed some of these bytes: other memory may be there now.
  void withdraw_freed(const void* data, uint64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;
  struct Own {
    std::shared_ptr<OwnBuffer> buffer;
    uint64_t number = 0;
    std::set<Rank> unanswered;
    std::string why_not = "";              // of the first peer that cannot have it
    bool is_awaited = true;                // by wait(), which then hears why_not
    std::shared_ptr<void> held = nullptr;  // by graphs too; null: it is not for graphs
    bool was_held = false;                 // by one
    Clock::time_point leaves_at = {};      // it is not found any more, and nothing held it; {}: it is found
    bool is_withdrawn = false;             // peers unmap it when, of this rank's calls, …
    uint64_t used_until = 0;               // … so many have ended
    bool is_found() const { return !is_withdrawn && leaves_at == Clock::time_point(); }
  };
  using Owned = std::map<uint64_t, Own>;  // by id
  struct Task {
    enum class Kind : uint8_t { Map, Unmap, TellWithdrawn } kind;
    Rank peer;
    uint64_t id, number;
  };
  struct Request;
  struct Answer;
  struct Theirs {
    uint64_t number = 0;
    std::shared_ptr<MappedBuffer> mapped;  // null: it is memory of this process
  };

  transports::Wireup::Reply answer(Rank from, const std::string& bytes);
  Answer act_on(Rank from, const Request& request, Fd& fd);
  Answer ask(Rank peer, const Request& request, Fd* fd = nullptr) const;
  std::shared_ptr<OwnBuffer> buffer_of(const Request& request) const;
  void take_answer(Rank from, const Request& request);
  Owned::iterator by_number(uint64_t number);
  void withdraw(Own& own);
  void withdraw_unheld();
  Owned::iterator unused();
  void add(const Task& task);
  void work();
  void perform(const Task& task);
  void wake();
  void sleep(std::unique_lock<std::mutex>& lock);
  void map(const Task& task);
  void unmap(const Task& task);
  link::MappedRegion region_of(const Task& task, Theirs& theirs);

  transports::Wireup& wireup_;
  const Device& device_;
  const double seconds_;
  Uses uses_;

  mutable std::mutex mutex_;
  std::condition_variable answered_, added_;
  Owned own_;
  uint64_t last_number_ = 0;
  std::deque<Task> tasks_;
  bool started_ = false, leaves_ = false, ends_ = false;
  std::thread thread_;  // runs as soon as there is a task

  std::map<std::pair<Rank, uint64_t>, Theirs> theirs_;  // by peer and id; of the thread
};

}  // namespace tutti::cuda
