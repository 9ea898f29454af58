// A backend: one kind of memory, and what runs calls on it. The host's is exec/host/host_backend.hpp; each other one is
// a folder beside it and registers itself. Nothing outside a backend knows what its processors are.
//
//   owns      a call runs on the backend that owns its buffers
//   report    what a rank says of its processor when a communicator is made, …
//   agree     … and what the ranks conclude from it together: the methods that they can use, and what those cost
//   compile   plan + sizes + what the links can do → an Execution, kept for repeated calls
//   enqueue   binds buffers and tag, and starts it
//
// A backend object serves one rank of one communicator, and runs one call after the other, in their order. What is
// virtual and not pure is as it is for memory of the host: no streams, and nothing runs when a call has returned.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "exec/compile/direct.hpp"
#include "exec/execution.hpp"
#include "exec/method.hpp"
#include "exec/observer.hpp"
#include "exec/pending.hpp"
#include "exec/wait.hpp"
#include "exec/window.hpp"
#include "link/mapped_memory.hpp"
#include "plan/plan.hpp"
#include "transports/transport.hpp"

namespace tutti::exec {

/// What runs the calls of a rank.
struct Processor {
  std::string id;       ///< the same for all ranks that use it, and no other in the world has it
  std::string model;    ///< "NVIDIA H200"
  std::string driver;   ///< the version of what drives it: "580.65.06, CUDA 13.0"
  std::string address;  ///< where the host's topology has it: PCI, as "0000:18:00.0"
};

/// The methods that the user names, and those that were measured on such processors. By name.
struct WantedMethods {
  std::set<std::string> forced, measured;
};

/// What the ranks of a communicator can do on a backend, equal on all of them.
struct Offer {
  const char* processor = "processor";  ///< what runs calls, for texts: "GPU"
  std::vector<UsableMethod> methods;    ///< the one that runs any plan first
  link::LinkCost near;                  ///< between ranks of a host, where its topology does not say more
  double relay = 0;                     ///< seconds that a message between hosts takes more, at each end, …
  double relay_beta = 0;                ///< … and seconds per byte that it takes at least
  double gamma = 0;                     ///< seconds per byte folded
  uint64_t staging = 0;                 ///< bytes of staging memory, on the rank that has least: it limits windows
  uint64_t message = 0;                 ///< bytes of the longest message
  uint32_t max_width = 1;               ///< replicas of a program, at most
  bool links_in_host_memory = false;    ///< links lie in memory of the host: other figures than elsewhere
};

/// Every rank gives a text and gets those of all ranks, by rank. All ranks call it the same number of times.
using Exchange = std::function<std::vector<std::string>(std::string mine)>;

/// Memory of a call.
struct Extent {
  const void* data = nullptr;
  uint64_t bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // ---- what ranks agree on, once, before anything is compiled

  /// A text for all ranks: their meet() reads it.
  virtual std::string report() const { return ""; }
  /// The ranks' processors, by their reports. Throws Error(Unsupported) if they cannot run calls together: the same on
  /// all ranks, which then refuse calls on this backend; Error(ProtocolError) for a report that is none.
  virtual std::vector<Processor> meet(const std::vector<std::string>& reports) {
    return std::vector<Processor>(reports.size());
  }
  /// Called on all ranks at the same time, once. What it throws is as for meet().
  virtual Offer agree(const WantedMethods& wanted, const Exchange& exchange) {
    return (void)wanted, (void)exchange, Offer();
  }

  // ---- programs

  /// Connects the links that the program needs. Throws what lower() and connecting throw, and Error(OutOfMemory) when
  /// there is no memory for the program: there may be when executions have been destroyed. `reduction`: null if the
  /// plan folds nothing.
  virtual std::unique_ptr<Execution> compile(const plan::RankPlan& plan, const Geometry& geometry,
                                             const Reduction* reduction) = 0;
  virtual std::unique_ptr<Execution> compile(const Direct& direct, const Reduction* reduction) = 0;
  /// Which buffers of calls peers can read. The same object as long as the backend lives.
  virtual const link::Regions& regions() const { return link::SharedMemory::of_this_process(); }
  /// Adds a buffer of this rank to them, as soon as all peers can read it, and waits a while for that. Returns its
  /// number, never used again; 0 if peers could read it already, or nothing would be gained. Throws Error(Unsupported |
  /// InvalidArgument) with the reason, and what asking peers throws.
  virtual uint64_t add_region(const void* data, uint64_t bytes) { return (void)data, (void)bytes, 0; }
  /// This rank's calls do not use it any more.
  virtual void drop_region(uint64_t number) { (void)number; }
  /// If what is enqueued on the stream is captured: adds the memory of a call to them, for as long as graphs use it;
  /// returns true if that changed what calls find there. What cannot be added is staged, as ever.
  virtual bool add_captured(void* stream, std::span<const Extent> memory) { return (void)stream, (void)memory, false; }
  /// What a call has found there stays as it is until the call has been enqueued; false if something has changed since
  /// this generation: then it looks again.
  virtual bool pin_regions(uint64_t generation) { return (void)generation, true; }

  // ---- windows

  /// This rank's part of the window that the communicator's call of this number makes: all ranks call it, then map().
  /// `memory`: of the backend; null if `bytes` is 0. Throws Error(Unsupported | InvalidArgument) with the reason.
  virtual std::unique_ptr<BackendWindow> make_window(uint64_t number, void* memory, uint64_t bytes) {
    (void)number, (void)memory, (void)bytes;
    throw Error(Code::Unsupported, "windows in such memory are not supported");
  }

  // ---- calls

  /// Starts a call. A driven backend returns what the caller is to run to its end. Else the result is null; what fails
  /// later reaches the observer, on a thread of the backend's own, with the number that the backend gave the call: it
  /// counts collectives from 1, and something may repeat them. Throws Error(OutOfMemory) if there is no staging memory,
  /// and what waiting for that throws.
  virtual Pending* enqueue(Execution& execution, const Binding& binding) = 0;
  /// Starts the calls that wait for the next one (Binding::more_follow), if there are any. A call for which nothing
  /// follows starts them too.
  virtual void start_held() {}
  /// Ends what runs: the communicator has failed.
  virtual void abort() = 0;
  /// Copies bytes of the backend's memory; asynchronously on a stream.
  virtual void copy(void* to, const void* from, uint64_t bytes, void* stream) {
    (void)stream;
    std::memmove(to, from, bytes);
  }
  /// What is enqueued on `after` from now on waits for what is on `before`.
  virtual void order(void* before, void* after) { (void)before, (void)after; }
  /// Why a call of this rank cannot use these bytes, as of elements of `unit` bytes; "" if it can.
  virtual std::string why_not(const void* data, uint64_t bytes, uint64_t unit) const {
    return (void)data, (void)bytes, (void)unit, "";
  }
  /// Throws Error(InvalidArgument | InvalidUsage) if no call can be enqueued on this stream.
  virtual void check_stream(void* stream) { (void)stream; }
  /// May calls be repeated that were enqueued once?
  virtual bool repeats() const { return false; }
  /// Waits, at most so long, until the calls that were enqueued have ended; afterwards nothing runs. Returns how many
  /// collectives have run, repeated ones included.
  virtual uint64_t finish(double seconds) { return (void)seconds, 0; }
  /// The name of the transport between this rank and a peer; "": that of calls in host memory.
  virtual std::string transport_to(Rank peer) const { return (void)peer, ""; }
};

/// The transports of calls in host memory, for a backend whose own links do not reach all ranks: instances of its own.
/// One thread at a time uses it, which also drives the engines.
class Network {
 public:
  virtual ~Network() = default;
  virtual bool has_other_hosts() const = 0;
  /// Keeps memory until the engines are gone: peers may write to what they know of.
  virtual void keep(std::shared_ptr<const void> memory) = 0;
  /// That of links to and from the peer. Throws what making it throws.
  virtual transports::Transport& transport_to(Rank peer) = 0;
  virtual link::OutLink connect_out(Rank peer, uint32_t link_lane) = 0;
  virtual link::InLink connect_in(Rank peer, uint32_t link_lane) = 0;
  /// Those of the transports used so far that need progress(); more with each connect_…().
  virtual const std::vector<transports::Transport*>& engines() const = 0;
  /// An engine has failed, during the call of this number: fails the communicator.
  virtual void failed(const Status& status, uint64_t call) = 0;
};

/// What a backend is made from. All of it outlives the backend.
struct BackendContext {
  transports::Wireup* wireup = nullptr;
  const std::atomic<uint32_t>* failed = nullptr;  ///< non-zero: the communicator has failed
  Observer* observer = nullptr;
  Network* network = nullptr;  ///< null for the host's
  const Backoff* backoff = nullptr;
  int processor = 0;        ///< as BackendEntry::current() has it
  double init_timeout = 0;  ///< seconds that making links and memory may take
};

inline constexpr int kNoProcessor = -1;

/// Raise it when a backend of before can no longer be used: with any change of Backend, Pending, Observer, Network, or
/// what they take and return, that kBackendLayout does not notice.
inline constexpr uint32_t kBackendAbi = 4;

/// Differs where what the two pass to each other differs in size.
inline constexpr uint64_t kBackendLayout = [] {
  uint64_t hash = 0;
  for (const size_t size :
       {sizeof(Processor),  sizeof(Offer),       sizeof(WantedMethods),     sizeof(UsableMethod), sizeof(Method),
        sizeof(Prices),     sizeof(plan::Cost),  sizeof(plan::RankPlan),    sizeof(Geometry),     sizeof(Direct),
        sizeof(Reduction),  sizeof(Binding),     sizeof(Program),           sizeof(Execution),    sizeof(Pending),
        sizeof(Stall),      sizeof(Fault),       sizeof(BackendContext),    sizeof(plan::Step),   sizeof(plan::Piece),
        sizeof(WindowCall), sizeof(Instruction), sizeof(Segment),           sizeof(plan::Lane),   sizeof(LinkId),
        sizeof(StageNeed),  sizeof(Backoff),     sizeof(link::SharedRegion)}) {
    hash = hash * 1099511628211 + size;
  }
  return hash;
}();

/// What a module or folder registers. Its functions may be called by any thread, as long as the process lives. New
/// fields come at the end.
struct BackendEntry {
  uint64_t bytes = sizeof(BackendEntry);  ///< as its maker knows it
  uint32_t abi = kBackendAbi;
  uint64_t layout = kBackendLayout;
  const char* name;
  const char* summary;
  bool is_driven;                          ///< by the threads that make calls (Backend::enqueue)
  std::span<const Method* const> methods;  ///< the one that runs any plan first
  /// The number of the processor that the calling thread uses; kNoProcessor: none. Cheap where the process uses none.
  int (*current)();
  const char* why_none;  ///< what the user has not done, where there is none
  /// Does this memory belong to the backend? Also, as far as is known, if it has been freed.
  bool (*owns)(const void* address);
  /// Throws Error(Unsupported) where the processor cannot be used.
  std::unique_ptr<Backend> (*make)(const BackendContext& context);
  /// Memory of the calling thread's processor. Throws Error(OutOfMemory | InvalidUsage).
  void* (*allocate)(uint64_t bytes);
  void (*release)(void* memory);
  /// Its processors, or why it has none, for people: "usable: …" or "not usable: …".
  std::string (*state)();
};

/// Registers a backend; static, as a transport's registration.
class BackendRegistration {
 public:
  explicit BackendRegistration(const BackendEntry& entry);
};

/// All but the host's, whose memory is everything that none of them owns.
const std::vector<const BackendEntry*>& backends();
/// Those of modules that were built for another version of this interface.
const std::vector<transports::UnusableModule>& unusable_backends();

}  // namespace tutti::exec
