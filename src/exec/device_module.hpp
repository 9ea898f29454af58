// What a module brings along that can run programs on a device's memory (GPUs). The library finds it beside the
// module's transport: transports::TransportEntry::device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/executor.hpp"
#include "exec/observer.hpp"
#include "transports/transport.hpp"

namespace tutti::exec {

/// Where an address lies.
struct Pointer {
  enum class Kind : uint8_t { Host, Device };
  Kind kind = Kind::Host;  ///< Host: of what is unknown to the device's driver too
  int device = -1;
  uint64_t begin = 0, bytes = 0;  ///< of its allocation
  uint64_t id = 0;                ///< of its allocation, never used again
};

/// Runs programs on the memory of one device. launch() enqueues a call on Binding::stream and does not wait for it:
/// then done() is true, and status() says whether it could be enqueued. What fails later reaches the observer, on a
/// thread of the executor's own, with the number of the call. Calls are numbered by the device, from 1.
class DeviceExecutor : public Executor {
 public:
  /// Makes the links of this executor.
  virtual transports::Transport& transport() = 0;
  /// Was a call captured? A graph may repeat it, so calls on the device are not as many as were made.
  virtual bool has_captured() const = 0;
  /// "GPU 0 (NVIDIA H200)"
  virtual const std::string& device_name() const = 0;
  /// "NVIDIA H200"
  virtual const std::string& device_model() const = 0;
  /// The version of what drives it: "580.65.06, CUDA 13.0".
  virtual std::string driver_version() const = 0;
  virtual int device() const = 0;
  /// The same in all processes that use the device.
  virtual const std::string& device_id() const = 0;
  /// Where it is plugged in: PCI, as "0000:18:00.0".
  virtual std::string device_address() const = 0;
  /// The ids of the devices that this process sees and to which this one's stores of 128 bytes stay whole; its own is
  /// among them.
  virtual std::vector<std::string> joined_devices() const = 0;
  /// By rank: both ends of a link say so of each other. Called once, before anything is compiled.
  virtual void keep_lines_whole(std::vector<bool> peers) = 0;
  /// Blocks of a call's kernel that the device runs at the same time; at least one.
  virtual uint32_t resident_blocks() const = 0;
  /// So many ranks, this one included, use the device: their calls must fit it together. At most resident_blocks().
  virtual void share_device(uint32_t ranks) = 0;
  /// Bytes that a rank's messages of one round may take together where the device's copy engines run a program
  /// (methods::copy_engine), a multiple of 512 for each reader; 0: they run none. Equal on all ranks.
  virtual uint64_t copied_round() const = 0;
  /// Why the switch between devices folds nothing for this one; "": it may, if all ranks' can.
  virtual std::string why_no_nvls() const = 0;
  /// Make what that takes: a call is one step, which all ranks end before any begins the next. They throw.
  virtual void join_nvls(Deadline deadline) = 0;
  virtual void bind_nvls() = 0;
  /// Gives up what join_nvls() has made.
  virtual void drop_nvls() = 0;
  /// Was it made?
  virtual bool has_nvls() const = 0;
  /// Bytes that a block of a call moves through the switch in a round, at most. Equal on all ranks.
  virtual uint64_t nvls_window() const = 0;
  /// Copies bytes of the device's memory, on a stream.
  virtual void copy(void* to, const void* from, uint64_t bytes, void* stream) = 0;
  /// What is enqueued on `after` from now on waits for what is on `before`.
  virtual void order(void* before, void* after) = 0;
  /// Throws Error(InvalidArgument | InvalidUsage) if no call can be enqueued on this stream.
  virtual void check_stream(void* stream) = 0;
  /// Waits, at most so long, until the calls that were enqueued have ended; afterwards no kernel runs. Returns how many
  /// have run, those of graphs included.
  virtual uint64_t finish(double seconds) = 0;
};

/// Links to the ranks of other hosts, for a device's executor: all by engines. One thread at a time uses it, which also
/// calls the engines.
class Network {
 public:
  virtual ~Network() = default;
  /// Keeps memory until the engines are gone: peers may write to what they know of.
  virtual void keep(std::shared_ptr<const void> memory) = 0;
  /// The transport of links to and from the peer. Throws what making it throws.
  virtual transports::Transport& engine_to(Rank peer) = 0;
  virtual link::OutLink connect_out(Rank peer, uint32_t link_lane) = 0;
  virtual link::InLink connect_in(Rank peer, uint32_t link_lane) = 0;
  /// The transports that have links, which need progress(); more with each connect_…().
  virtual const std::vector<transports::Transport*>& engines() const = 0;
  /// An engine has failed, during the call of this number: fails the communicator.
  virtual void failed(const Status& status, uint64_t call) = 0;
};

/// What an executor is made from. All of it outlives the executor.
struct DeviceContext {
  transports::Wireup* wireup = nullptr;
  const std::atomic<uint32_t>* failed = nullptr;  ///< non-zero: the communicator has failed
  Observer* observer = nullptr;
  Network* network = nullptr;  ///< null: all ranks are of this host
  const Backoff* backoff = nullptr;
  int device = 0;
};

/// Lives as long as the process; any thread may call it.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;
  /// The number of the device that the calling thread uses; −1: none. Cheap where the process uses no device.
  virtual int current() = 0;
  virtual Pointer look_up(const void* address) = 0;
  virtual std::unique_ptr<DeviceExecutor> make(const DeviceContext& context) = 0;
  /// Memory of the calling thread's device. Throws Error(OutOfMemory | InvalidUsage).
  virtual void* allocate(uint64_t bytes) = 0;
  virtual void release(void* memory) = 0;
};

}  // namespace tutti::exec
