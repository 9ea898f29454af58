// Symmetric memory of the CPU: a rank's block, and the handle by which it reaches the other ranks'.
#pragma once

#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compat/torch/group.hpp"
#include "compat/torch/window.hpp"

namespace tutti_torch {

/// What a rank allocates, and its peers map:
///
///     the tensor's bytes | signal pad: words of 4 bytes, by channel and rank, 0 where no signal is under way | Shape
class SymmetricBlock {
 public:
  /// Both ends compare it: the ranks' blocks must be alike.
  struct Shape {
    uint64_t bytes = 0, pad_bytes = 0;
    bool operator==(const Shape&) const = default;
  };

  /// Zeroed. Throws tutti::Error if there is no memory that peers can map.
  SymmetricBlock(size_t bytes, size_t pad_bytes);
  ~SymmetricBlock();
  SymmetricBlock(const SymmetricBlock&) = delete;
  SymmetricBlock& operator=(const SymmetricBlock&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return shape_.bytes; }
  const Shape& shape() const { return shape_; }
  size_t pad_at() const { return pad_at_; }
  size_t shape_at() const { return shape_at_; }
  size_t total() const { return shape_at_ + sizeof(Shape); }
  /// This process has made it; its parent did not before a fork.
  bool is_own() const;

 private:
  const Shape shape_;
  const size_t pad_at_, shape_at_;
  const uint64_t process_;
  std::byte* data_ = nullptr;
};

/// Signals are words of the pad of the rank that waits for them. put_signal() waits until the word is 0 and sets it,
/// wait_signal() waits until it is set and clears it: as on GPUs, so programs may use the rest of the pad alike.
class SymmetricHandle : public c10d::symmetric_memory::SymmetricMemory {
 public:
  /// All ranks of the group make it, at the same place among their calls. `why_not`: why this rank cannot take part; ""
  /// if it can. Throws ValueError on all ranks if one cannot, or if their blocks differ.
  static c10::intrusive_ptr<SymmetricHandle> make(const c10::intrusive_ptr<Group>& group,
                                                  const std::shared_ptr<SymmetricBlock>& block,
                                                  const std::string& why_not);
  SymmetricHandle(std::shared_ptr<SymmetricBlock> block, std::shared_ptr<Window> window);

  Group& group() const { return window_->group(); }
  /// These bytes lie in some rank's memory or signal pad.
  bool holds(const void* data, size_t bytes) const;

  std::vector<void*> get_buffer_ptrs() override { return buffers_; }
  std::vector<void*> get_signal_pad_ptrs() override { return pads_; }
  void** get_buffer_ptrs_dev() override { return buffers_.data(); }
  void** get_signal_pad_ptrs_dev() override { return pads_.data(); }
  size_t get_buffer_size() override { return block_->bytes(); }
  size_t get_offset() override { return 0; }
  bool has_multicast_support() override { return false; }
  void* get_multicast_ptr() override { return nullptr; }
  int get_rank() override { return rank_; }
  int get_world_size() override { return ranks_; }
  c10::Device get_device() override { return at::Device(at::kCPU); }
  bool world_within_direct_access() override { return true; }

  /// Each rank's stores before it are seen by all ranks' loads after it.
  void barrier(int channel, size_t timeout_ms) override;
  /// This rank's stores before it are seen by the peer's loads after the wait_signal() that takes it.
  void put_signal(int peer, int channel, size_t timeout_ms) override;
  void wait_signal(int peer, int channel, size_t timeout_ms) override;

 private:
  struct Wait;
  uint32_t* word(int of, int channel, int from) const;
  void check(const char* call, int peer, int channel) const;
  void exchange(const Wait& wait) const;
  void wait_for(const Wait& wait) const;
  void check_peer(const Wait& wait) const;

  const std::shared_ptr<SymmetricBlock> block_;
  const std::shared_ptr<Window> window_;
  const int rank_, ranks_;
  std::vector<void*> buffers_, pads_;  // by rank
};

}  // namespace tutti_torch
