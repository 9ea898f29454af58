// The backend for the memory of GPUs. A call is one launch of a kernel that runs the program's lanes, or a list of
// copies (exec/cuda/copies.hpp); the host allocates nothing and waits for nothing on its way, so it can be captured in
// a graph.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/backend.hpp"
#include "exec/cuda/copies.hpp"
#include "exec/cuda/cuda_gpu.hpp"
#include "exec/cuda/launches.hpp"
#include "exec/cuda/multimem.hpp"
#include "exec/cuda/pinned_record.hpp"
#include "exec/cuda/programs.hpp"
#include "exec/cuda/regions.hpp"
#include "exec/cuda/user_streams.hpp"
#include "exec/cuda/windows.hpp"
#include "exec/gpu/call_count.hpp"
#include "exec/gpu/lanes.hpp"
#include "exec/gpu/proxy.hpp"
#include "exec/gpu/watcher.hpp"
#include "transports/cuda/cuda.hpp"

namespace tutti::exec::cuda {

/// A program for kernels.
class CudaExecution final : public Execution {
 public:
  using Execution::Execution;
  Placed placed;
  std::vector<gpu::TransferPart> parts;  ///< without a plan, where they are too many for the launch
};

class CudaBackend final : public Backend, private Connector {
 public:
  explicit CudaBackend(const BackendContext& context);
  ~CudaBackend() override;

  std::string report() const override;
  std::vector<Processor> meet(const std::vector<std::string>& reports) override;
  Offer agree(const WantedMethods& wanted, const Exchange& exchange) override;

  std::unique_ptr<Execution> compile(const plan::RankPlan& plan, const Geometry& geometry,
                                     const Reduction* reduction) override;
  std::unique_ptr<Execution> compile(const Direct& direct, const Reduction* reduction) override;

  Pending* enqueue(Execution& execution, const Binding& binding) override;
  void start_held() override;
  void abort() override { watcher_.end_kernels(); }
  void copy(void* to, const void* from, uint64_t bytes, void* stream) override;
  void order(void* before, void* after) override;
  std::string why_not(const void* data, uint64_t bytes, uint64_t unit) const override;
  void check_stream(void* stream) override;
  /// Was a call captured? A graph may repeat it.
  bool repeats() const override { return has_captured_; }
  uint64_t finish(double seconds) override;
  const link::Regions& regions() const override { return regions_; }
  uint64_t add_region(const void* data, uint64_t bytes) override;
  void drop_region(uint64_t number) override { regions_.buffers().withdraw(number); }
  bool add_captured(void* stream, std::span<const Extent> memory) override;
  bool pin_regions(uint64_t generation) override { return regions_.pin(generation); }
  std::unique_ptr<BackendWindow> make_window(uint64_t number, void* memory, uint64_t bytes) override;
  std::string transport_to(Rank peer) const override { return is_far(peer) ? "" : transport_.name(); }

 private:
  /// What a rank says of its GPU.
  struct Report {
    Processor processor;
    uint64_t blocks = 0;                // of a call's kernel that the GPU runs at the same time; at least one
    std::vector<std::string> ll128_to;  // ids of the GPUs to which its stores of 128 bytes stay whole
    std::string why_no_nvls;            // that folds for it and others; "" if there may be one
    uint64_t staging = 0;               // bytes that peers can read
    static void fields(auto& m, auto& v) {
      constexpr size_t kMaxText = 4096, kMaxDevices = 1024;
      v.text(m.processor.id, kMaxText);
      v.words(m.processor.model, kMaxText);
      v.words(m.processor.driver, kMaxText);
      v.text(m.processor.address, kMaxText);
      v.number(m.blocks);
      v.texts(m.ll128_to, kMaxDevices, kMaxText);
      v.words(m.why_no_nvls, kMaxText);
      v.number(m.staging);
    }
  };
  std::string driver_version() const;
  void close_calls() const;
  bool is_ll128_capable(size_t one, size_t of) const;
  std::string why_no_nvls() const;
  void map_peers(const WantedMethods& wanted, const Exchange& exchange);
  uint64_t staging() const;
  std::string agree_on_nvls(const WantedMethods& wanted, const Exchange& exchange);
  std::string make_nvls(const Exchange& exchange);
  std::vector<UsableMethod> usable_methods(const WantedMethods& wanted, bool all_ll128, const std::string& why_no_nvls);
  bool is_far(Rank peer) const;
  link::LinkTraits traits(Rank peer) override;
  link::OutLink connect_out(Rank peer, uint32_t link_lane) override;
  link::InLink connect_in(Rank peer, uint32_t link_lane) override;
  bool runs() const;
  WindowCalls::Surroundings around_windows();
  bool has_native_atomics(Rank peer) const;
  bool reads_in_place() const;
  bool add_for_graphs(const Extent& memory);
  bool is_stopped() const { return context_.failed->load(std::memory_order_acquire) != 0; }
  CUgraph graph_of(CUstream stream) const;
  std::shared_ptr<void> launch_kernel(Execution& execution, const Binding& binding, const UserStream& on,
                                      uint64_t counted);
  gpu::CallHead head_of(const Binding& binding, uint64_t counted);
  void keep_for_graph(CUgraph graph, const std::shared_ptr<void>& memory, const Binding& binding);

  const BackendContext context_;
  const tutti::cuda::Device& device_;
  const CudaGpu gpu_;
  PinnedRecord record_;
  const tutti::cuda::LinkSizes sizes_;
  tutti::cuda::CudaLinks transport_;
  Links links_;
  gpu::CallCount calls_;
  mutable GpuRegions regions_;  // what was freed is noticed when it is used
  UserStreams streams_;
  Programs programs_;
  gpu::Counters* counters_ = nullptr;
  Launches starts_;
  bool held_is_captured_ = false;
  std::vector<Report> reports_;  // by rank
  bool some_share_ = false;      // a GPU with another rank
  uint64_t launches_ = 0;
  bool has_captured_ = false;
  std::set<uint64_t> refused_allocations_;  // allocations of captured calls that peers cannot read, by number
  Deadline waits_again_ = Deadline::in(0);  // for peers that map memory: some did not answer in time
  uint32_t copied_ = 0;                     // calls that were enqueued as copies
  std::unique_ptr<Copies> copies_;          // null: some ranks are of other hosts, or there is one rank only
  std::unique_ptr<Multimem> multimem_;      // null: no switch folds for all ranks
  const std::shared_ptr<WindowWaits> window_waits_;
  const StreamWaits stream_waits_;
  WindowCalls windows_;
  gpu::Watcher watcher_;
  /// None: all ranks are of this host. This rank leaves when the network has got all that its calls have sent.
  std::optional<gpu::Proxy> proxy_;
};

}  // namespace tutti::exec::cuda
