// A tensor of each rank that all ranks of its group write and read: one-sided calls (docs/windows.md).
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "compat/torch/group.hpp"
#include "tutti/tutti.h"

namespace tutti_torch {

/// Offsets and lengths are in elements of the window's tensor. Calls block, after all that was called on the group
/// before. They throw ValueError where a tensor does not fit, and else what the group's calls throw.
class Window {
 public:
  /// All ranks of the group make it, at the same place among their calls. The group holds it, and with it the tensor,
  /// until close(): other ranks may write to it.
  static std::shared_ptr<Window> make(const c10::intrusive_ptr<Group>& group, const at::Tensor& part);
  /// The same of a tensor that `find` returns: what it throws is refused on all ranks.
  static std::shared_ptr<Window> make(const c10::intrusive_ptr<Group>& group, const std::function<at::Tensor()>& find);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  Group& group() const { return *group_; }
  const at::Tensor& part() const { return part_; }
  /// Where loads and stores reach the peer's part, of so many bytes; null: nowhere.
  std::byte* address(int peer, size_t& bytes) const;
  int64_t size(int peer) const;
  void put(const at::Tensor& source, int peer, int64_t offset) const;
  void put_signal(const at::Tensor& source, int peer, int64_t offset, int signal) const;
  void get(const at::Tensor& into, int peer, int64_t offset) const;
  void signal(int peer, int signal) const;
  void wait_signal(int peer, int signal, int64_t count) const;
  /// Of a window of int64. What was there before.
  int64_t atomic_add(int64_t value, int peer, int64_t offset) const;
  int64_t atomic_compare_swap(int64_t expected, int64_t desired, int peer, int64_t offset) const;
  void flush(int peer) const;
  void barrier() const;
  /// By all ranks. When it returns, also with an error, nobody writes to the tensor any more.
  void close();
  /// Throws what is known of a peer that has left, or of the group's failure. Waits for nothing but calls that run.
  void check_peer(int peer) const;

 private:
  explicit Window(const c10::intrusive_ptr<Group>& group) : group_(group) {}
  template <class Call>
  void run(const char* name, const Call& call) const;
  void check_data(const char* name, const at::Tensor& data) const;
  void check_words(const char* name) const;
  size_t bytes(const char* name, int64_t elements) const;

  const c10::intrusive_ptr<Group> group_;
  at::Tensor part_;
  tuttiWindow_t handle_ = nullptr;  // null: closed
};

}  // namespace tutti_torch
