// A group's calls on memory of its rank's GPU.
//
// They have communicators of their own, made when the first tensor of a GPU comes: one for all ranks, which runs
// collectives and batches of messages, and for each pair of ranks that exchange single messages two, one a direction.
// As in PyTorch's own backend for GPUs, a call that the caller waits for at once is enqueued on the caller's current
// stream. All others are enqueued on a stream of the communicator, which first waits for the caller's. So calls overlap
// with what the caller computes, and a work's `wait` makes the caller's stream wait. The work holds the call's tensors
// until then.
//
// A thread looks after works that nobody waits for: it releases their tensors, and tells of those that have failed. At
// the group's end it does so until all has run, if that does not take long.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "compat/torch/gpu_work.hpp"
#include "compat/torch/queue.hpp"

namespace tutti_torch {

using GpuWorkPtr = c10::intrusive_ptr<GpuWork>;

class GpuCalls {
 public:
  GpuCalls(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<GroupFacts> facts, int rank, int ranks)
      : store_(std::move(store)), facts_(std::move(facts)), rank_(rank), ranks_(ranks) {}
  ~GpuCalls();
  GpuCalls(const GpuCalls&) = delete;
  GpuCalls& operator=(const GpuCalls&) = delete;

  /// Makes the communicator of all ranks, unless it is there; all of them call it. A group has one GPU a rank: another
  /// one is refused. `call` names the call.
  void connect(const char* call, c10::Device device);
  /// Enqueues calls as one; `async`: on the communicator's own stream.
  void run(const GpuWorkPtr& work, std::vector<Body> bodies, bool async);
  /// A single message to `to` from `from`, one of which is this rank. The first one to or from a rank waits for that
  /// rank, on a thread. `body` sees a communicator in which the sender is rank 0 and the receiver rank 1.
  void transfer(const GpuWorkPtr& work, const char* call, c10::Device device, int from, int to, Body body);

  void set_timeout(double seconds);
  /// The first failure of a communicator.
  tuttiResult_t state() const;
  /// Null if there is none.
  std::shared_ptr<GpuComm> group_comm() const;
  void abort();
  /// Waits for all calls and leaves. Throws the first thing that is then reported.
  void close();

 private:
  /// A communicator with its stream. `mutex`: calls are enqueued on it in one order.
  struct Channel {
    std::shared_ptr<GpuComm> comm;
    c10::Stream stream;
    c10::Event before;
    std::mutex mutex;
    Channel(tuttiComm_t made, const c10::Stream& on)
        : comm(std::make_shared<GpuComm>(made)), stream(on), before(on.device_type()) {}
  };
  /// The two directions of a pair, [0] from the lower rank to the higher one. `queue` makes them.
  struct Pair {
    std::unique_ptr<Channel> channels[2];  // guarded by mutex_
    Queue queue;
  };

  void check_device(const char* call, c10::Device device);
  void check_open() const;
  std::unique_ptr<Channel> make(const std::string& key, const std::string& name, int rank, int ranks);
  /// One direction of a pair: the sender is rank 0 in it. Errors begin with `message`: "send to rank 3".
  std::unique_ptr<Channel> make_pair(const std::string& message, int from, int to);
  /// Into `slot`; aborts it and throws if the group was shut down while it was made.
  void keep(std::unique_ptr<Channel>& slot, std::unique_ptr<Channel> made);
  Pair& pair_with(int peer);
  Channel& open(const char* call, Pair& pair, int from, int to);
  /// On `on`, which already waits for what comes before.
  void enqueue(Channel& channel, const c10::Stream& on, const GpuWorkPtr& work, std::vector<Body> bodies);
  /// Keeps the tensors of calls that were enqueued in part.
  void keep_failed(Channel& channel, const c10::Stream& on, const GpuWork& work, std::vector<Body> bodies);
  std::vector<Channel*> channels() const;
  /// No communicator is made from now on.
  void shut();

  /// Holds no work: that has the results.
  struct Watched {
    c10::weak_intrusive_ptr<GpuWork> work;
    std::optional<uint64_t> key;  ///< of the work, for whom torch has told us to tell; none: nobody is told
    std::shared_ptr<GpuRun> run;
    bool ran = false;  ///< when it was last looked at: what a kernel reports is known a little later
  };
  void watch(Watched watched);
  void look();
  /// Lets this thread ask the GPU about works. Throws where it cannot.
  void prepare_to_look() const;
  bool look_at(Watched& watched, bool left);
  void tell(Watched& watched, const std::exception_ptr& error);
  void tell_failure(Watched& watched, const std::exception_ptr& error) noexcept;

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::shared_ptr<GroupFacts> facts_;
  const int rank_, ranks_;
  std::atomic<bool> closed_{false};  // set under mutex_, so that no communicator is stored afterwards
  std::mutex connecting_;
  mutable std::mutex mutex_;  // of what follows
  std::optional<c10::Device> device_;
  std::unique_ptr<Channel> group_;
  std::map<int, std::unique_ptr<Pair>> pairs_;
  std::mutex watch_mutex_;  // of what follows
  std::condition_variable changed_;
  std::list<Watched> watched_;
  std::vector<std::vector<Body>> unwatched_;  ///< of failed calls whose end could not be recorded: kept until close()
  bool ending_ = false;                       ///< the communicators have been left
  std::thread watcher_;
};

}  // namespace tutti_torch
