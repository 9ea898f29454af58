// Messages between two ranks, matched by tag.
//
// Each direction of each pair of ranks has a communicator of its own, made when the sender first sends, and a queue of
// its own: so sends and receives of both directions overlap, in whatever order ranks make them. A message is a header
// with its tag and length, then its bytes. The receiver's queue reads messages while a receive is posted that may take
// the next one; a message that none takes is kept until its receive is made. A sender's last header says that no more
// follows: a receiver may have begun to wait for one, for a receive from any rank that another sender then satisfied.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compat/torch/queue.hpp"
#include "compat/torch/work.hpp"

namespace tutti_torch {

inline constexpr int kAnySource = -1;

class PointToPoint {
 public:
  /// `group`: the group's communicator, whose failure ends waits.
  PointToPoint(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<GroupFacts> facts, tuttiComm_t group, int rank,
               int ranks);
  ~PointToPoint();

  void send(const c10::intrusive_ptr<Work>& work, const at::Tensor& tensor, int peer, int tag);
  /// `source` may be kAnySource.
  void recv(const c10::intrusive_ptr<Work>& work, const at::Tensor& tensor, int source, int tag);
  void abort();
  /// Waits for sends, and until senders have closed too, at most for the group's time-out; receives that are still
  /// posted fail. Returns what says which messages were never received; "" if none.
  std::string close();

 private:
  struct Header {
    uint64_t bytes;
    int64_t tag;
  };
  struct Posted {
    c10::intrusive_ptr<Work> work;
    at::Tensor tensor;
    int source, tag;
  };
  struct Kept {
    int source;
    int64_t tag;
    std::vector<std::byte> data;
  };
  /// One direction of a pair.
  struct Channel {
    Queue queue;
    tuttiComm_t comm = nullptr;  // guarded by mutex_; used by the queue's thread
    bool left = false;           // its sender will send no more
  };

  Channel& channel(std::unique_ptr<Channel>& slot);
  /// Its communicator; made if `ready`, else null.
  tuttiComm_t open(Channel& channel, int from, int to);
  void check_open() const;
  void pump(int source);
  /// Reads one message. False: its sender sends no more.
  bool receive(int source, tuttiComm_t comm);
  /// The last header to `peer`, and what is still to come from `source`.
  void end_sending(int peer);
  void read_to_the_end(int source);
  void wait_for_ends();
  /// A receive is posted that a message of `source` could satisfy.
  bool wanted(int source) const;
  bool take(int source, int64_t tag, Posted& posted);
  void deliver(Posted& posted, int source, const std::vector<std::byte>& data);
  void fail_posted(int source, const std::exception_ptr& error, bool final);
  std::string unreceived() const;
  std::string length_differs(const Posted& posted, int source, uint64_t bytes) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::shared_ptr<GroupFacts> facts_;
  const tuttiComm_t group_;
  const int rank_, ranks_;
  mutable std::mutex mutex_;
  std::list<Posted> posted_;
  std::list<Kept> kept_;
  bool closed_ = false;
  std::vector<std::unique_ptr<Channel>> to_, from_;  // by peer; last: their threads end first
};

}  // namespace tutti_torch
