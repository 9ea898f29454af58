// The executor for the memory of a GPU. A call is one launch of a kernel that runs the program's lanes, or a list of
// copies (exec/cuda/copies.hpp); the host allocates nothing and waits for nothing on its way, so it can be captured in
// a graph.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/cuda/copies.hpp"
#include "exec/cuda/image.hpp"
#include "exec/cuda/lanes.hpp"
#include "exec/cuda/multimem.hpp"
#include "exec/cuda/pool.hpp"
#include "exec/cuda/proxy.hpp"
#include "exec/cuda/watcher.hpp"
#include "exec/device_module.hpp"
#include "transports/cuda/cuda.hpp"

namespace tutti::exec::cuda {

/// The words that kernels and the host exchange.
class PinnedRecord {
 public:
  explicit PinnedRecord(const tutti::cuda::Device& device);
  HostRecord& host() const { return *host_; }
  HostRecord* device() const { return device_record_; }
  const std::shared_ptr<unsigned char>& memory() const { return memory_; }

 private:
  const std::shared_ptr<unsigned char> memory_;
  HostRecord *host_ = nullptr, *device_record_ = nullptr;
};

/// A program in the memory of the GPU.
class CudaExecution final : public Execution {
 public:
  using Execution::Execution;
  LanesCall call;  ///< all that is equal in every launch
  CUfunction kernel = nullptr;
  uint32_t blocks = 1;
  std::shared_ptr<void> memory;  ///< given back when no graph needs it either
};

class CudaExecutor final : public DeviceExecutor, private Connector {
 public:
  explicit CudaExecutor(const DeviceContext& context);
  ~CudaExecutor() override;

  std::unique_ptr<Execution> compile(const plan::RankPlan& plan, const Geometry& geometry,
                                     const Reduction* reduction) override;
  std::unique_ptr<Execution> compile(const Direct& direct, const Reduction* reduction) override;
  void launch(Execution& execution, const Binding& binding) override;
  bool poll() override { return true; }
  void drain() override {}
  void abort() override { watcher_.end_kernels(); }
  void check_failure(double) override {}
  void check_stall(double, uint64_t) override {}
  bool sleep(double) override { return false; }

  transports::Transport& transport() override { return transport_; }
  bool has_captured() const override { return has_captured_; }
  const std::string& device_name() const override { return device_.name(); }
  const std::string& device_model() const override { return device_.model(); }
  std::string driver_version() const override;
  int device() const override { return device_.number(); }
  const std::string& device_id() const override { return device_.id(); }
  std::string device_address() const override { return device_.address(); }
  std::vector<std::string> joined_devices() const override { return transport_.joined_devices(); }
  void keep_lines_whole(std::vector<bool> peers) override { transport_.keep_lines_whole(std::move(peers)); }
  uint32_t resident_blocks() const override { return resident_; }
  void share_device(uint32_t ranks) override;
  uint64_t copied_round() const override { return copies_ != nullptr ? Copies::slot_bytes() : 0; }
  std::string why_no_nvls() const override;
  void join_nvls(Deadline deadline) override;
  void bind_nvls() override { multimem_->bind(); }
  void drop_nvls() override { multimem_.reset(); }
  bool has_nvls() const override { return multimem_ != nullptr; }
  uint64_t nvls_window() const override { return Multimem::slot_bytes(); }
  void copy(void* to, const void* from, uint64_t bytes, void* stream) override;
  void order(void* before, void* after) override;
  void check_stream(void* stream) override;
  uint64_t finish(double seconds) override;

 private:
  /// Memory of executions that are gone, until the calls that used it have ended.
  struct Dying;
  bool is_far(Rank peer) const;
  link::LinkTraits traits(Rank peer) override;
  link::OutLink connect_out(Rank peer, uint32_t link_lane) override;
  link::InLink connect_in(Rank peer, uint32_t link_lane) override;
  std::unique_ptr<Execution> place(Program program, const std::string& type, const Reduction* reduction);
  unsigned char* workspace_for(const Program& program);
  void upload_links();
  void upload_later(CUdeviceptr to, const void* from, uint64_t bytes);
  void upload_pending(CUstream stream, bool captured);
  void reuse_memory();
  bool runs() const;
  void order_after_last(CUstream stream, bool captured);
  std::shared_ptr<void> launch_kernel(Execution& execution, const Binding& binding, CUstream stream, bool captured);
  void start(CUfunction kernel, uint32_t blocks, void* parameter, CUstream stream);
  CallHead head_of(const Binding& binding);
  void keep_for_graph(CUgraph graph, const std::shared_ptr<void>& memory);

  const DeviceContext context_;
  const tutti::cuda::Device& device_;
  PinnedRecord record_;
  const std::shared_ptr<Pool> pool_;
  const std::shared_ptr<Dying> dying_;
  const tutti::cuda::LinkSizes sizes_;
  tutti::cuda::CudaLinks transport_;
  Links links_;
  link::OutLink* out_ = nullptr;  // in the memory of the GPU
  link::InLink* in_ = nullptr;
  size_t outs_there_ = 0, ins_there_ = 0;  // of them have been uploaded
  struct Upload {
    CUdeviceptr to = 0;
    std::shared_ptr<unsigned char> from;
    uint64_t bytes = 0;
  };
  std::vector<Upload> pending_;                            // before the next launch
  std::vector<std::shared_ptr<unsigned char>> under_way_;  // sources of uploads on users' streams
  Counters* counters_ = nullptr;
  Pool::Block workspace_;
  uint32_t resident_ = 1, most_blocks_ = 1, threads_ = 1;
  uint64_t launches_ = 0;
  CUevent last_ = nullptr;  // of the last call that was not captured
  CUstream last_stream_ = nullptr;
  bool has_captured_ = false;
  bool has_last_ = false;
  uint32_t copied_ = 0;                 // calls that were enqueued as copies
  std::unique_ptr<Copies> copies_;      // null: some ranks are of other hosts, or there is one rank only
  std::unique_ptr<Multimem> multimem_;  // null: nobody has asked for it
  Watcher watcher_;
  /// None: all ranks are of this host. This rank leaves when the network has got all that its calls have sent.
  std::optional<Proxy> proxy_;
};

}  // namespace tutti::exec::cuda
