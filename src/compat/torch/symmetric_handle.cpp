#include "compat/torch/symmetric_handle.hpp"

#include <c10/util/StringUtil.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "compat/torch/checks.hpp"
#include "compat/torch/interrupt.hpp"
#include "compat/torch/python.hpp"
#include "compat/torch/work.hpp"
#include "tutti/check.hpp"
#include "tutti/tutti.h"

namespace tutti_torch {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kLine = 64;
constexpr int kSpins = 200;                   // looks at the word before the thread lets others run
constexpr microseconds kLongestSleep{200};    // between two looks
constexpr milliseconds kPeerCheckPeriod{10};  // between two looks whether the peer is there

size_t rounded(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

/// How many forks have led to this process: a call of a child must not pass for one of its parent.
uint64_t forks() {
  static std::atomic<uint64_t> count{0};
  static const bool kCounts = pthread_atfork(nullptr, nullptr, [] { ++count; }) == 0;
  (void)kCounts;
  return count.load(std::memory_order_relaxed);
}

SymmetricBlock::Shape shape_in(const std::byte* block, size_t at) {
  SymmetricBlock::Shape shape;
  std::memcpy(&shape, block + at, sizeof shape);
  return shape;
}

/// Why a peer's block cannot be used; "" if all can.
std::string difference(const Window& window, const SymmetricBlock& own) {
  for (int peer = 0; peer < window.group().getSize(); ++peer) {
    size_t bytes = 0;
    const std::byte* const memory = window.address(peer, bytes);
    if (memory == nullptr) {
      return c10::str("rank ", peer,
                      "'s memory cannot be mapped here: symmetric memory of the CPU is for ranks of one ",
                      "host; tutti_torch.window reaches others");
    }
    if (bytes == own.total() && shape_in(memory, own.shape_at()) == own.shape()) continue;
    return c10::str("rank ", peer, "'s tensor or signal pad has another size than rank ", window.group().getRank(),
                    "'s, of ", own.shape().bytes, " and ", own.shape().pad_bytes,
                    " bytes: all ranks must have tensors ", "of one shape and dtype");
  }
  return "";
}

/// The first rank for which it holds; the number of ranks if there is none. Ranks that have nothing to say wait for all
/// others, too: a rank that uses the memory, or leaves, does so after all have mapped it.
int first_with(Group& group, bool holds) {
  int32_t rank = holds ? group.getRank() : group.getSize();
  tutti::check(tuttiAllReduce(&rank, &rank, 1, tuttiInt32, tuttiMin, group.in_turn("rendezvous"), nullptr));
  return rank;
}

}  // namespace

SymmetricBlock::SymmetricBlock(size_t bytes, size_t pad_bytes)
    : shape_{bytes, pad_bytes}, pad_at_(rounded(bytes)), shape_at_(pad_at_ + rounded(pad_bytes)), process_(forks()) {
  void* data = nullptr;
  tutti::check(tuttiMemAllocWithFlags(&data, total(), TUTTI_MEM_MAPPED));
  data_ = static_cast<std::byte*>(data);
  std::memcpy(data_ + shape_at_, &shape_, sizeof shape_);
}

SymmetricBlock::~SymmetricBlock() { (void)tuttiMemFree(data_); }

bool SymmetricBlock::is_own() const { return process_ == forks(); }

c10::intrusive_ptr<SymmetricHandle> SymmetricHandle::make(const c10::intrusive_ptr<Group>& group,
                                                          const std::shared_ptr<SymmetricBlock>& block,
                                                          const std::string& why_not) {
  const WithoutGil without;
  group->close_unused();
  auto window = Window::make(group, [&] {
    if (!why_not.empty()) refuse("rendezvous", why_not);
    return at::from_blob(
        block->data(), {static_cast<int64_t>(block->total())}, [block](void*) {}, at::TensorOptions(at::kByte));
  });
  const std::string why = difference(*window, *block);
  const int failed = first_with(*group, !why.empty());
  if (failed < group->getSize()) {
    window->close();
    refuse("rendezvous", why.empty() ? c10::str("rank ", failed, " cannot take part: its error says why") : why);
  }
  group->share(window.get());
  return c10::make_intrusive<SymmetricHandle>(block, std::move(window));
}

SymmetricHandle::SymmetricHandle(std::shared_ptr<SymmetricBlock> block, std::shared_ptr<Window> window)
    : block_(std::move(block)),
      window_(std::move(window)),
      rank_(window_->group().getRank()),
      ranks_(window_->group().getSize()) {
  for (int peer = 0; peer < ranks_; ++peer) {
    size_t bytes = 0;
    std::byte* const memory = peer == rank_ ? block_->data() : window_->address(peer, bytes);
    buffers_.push_back(memory);
    pads_.push_back(memory + block_->pad_at());
  }
}

bool SymmetricHandle::holds(const void* data, size_t bytes) const {
  const auto* const first = static_cast<const std::byte*>(data);
  const auto within = [&](const void* part, size_t size) {
    const auto* const begin = static_cast<const std::byte*>(part);
    return first >= begin && first <= begin + size && bytes <= static_cast<size_t>(begin + size - first);
  };
  for (size_t rank = 0; rank < buffers_.size(); ++rank) {
    if (within(buffers_[rank], block_->shape().bytes) || within(pads_[rank], block_->shape().pad_bytes)) return true;
  }
  return bytes == 0;
}

/// The word that changes from `before` to the other of 0 and 1 when the call ends.
struct SymmetricHandle::Wait {
  const char* call;
  const char* direction;  // "to" or "from"
  int peer, channel;
  uint32_t* word;
  uint32_t before;
  size_t timeout_ms;

  std::string text(int rank) const {
    return c10::str("rank ", rank, ": ", call, "(", direction, " rank ", peer, ", channel ", channel, ")");
  }
  bool attempt() const {
    uint32_t expected = before;
    const std::atomic_ref shared(*word);
    return shared.load(std::memory_order_relaxed) == before && shared.compare_exchange_strong(expected, 1 - before);
  }
};

uint32_t* SymmetricHandle::word(int of, int channel, int from) const {
  return static_cast<uint32_t*>(pads_[static_cast<size_t>(of)]) + static_cast<ptrdiff_t>(channel) * ranks_ + from;
}

void SymmetricHandle::check(const char* call, int peer, int channel) const {
  const auto channels = static_cast<int64_t>(block_->shape().pad_bytes / sizeof(uint32_t)) / ranks_;
  if (peer < 0 || peer >= ranks_)
    refuse(call, c10::str("there is no rank ", peer, ": there are ranks 0 to ", ranks_ - 1));
  if (channel < 0 || channel >= channels) {
    refuse(call, c10::str("there is no channel ", channel, ": the signal pad has room for ", channels,
                          "; set_signal_pad_size, before the tensor is made, gives it more"));
  }
  if (!block_->is_own()) {
    throw tutti::Error(tutti::Code::InvalidUsage,
                       c10::str(call,
                                ": this process is a child that was forked: only the process that made the group "
                                "may signal"));
  }
  group().communicator(call);  // throws if it was shut down
}

void SymmetricHandle::exchange(const Wait& wait) const {
  if (wait.attempt()) return;
  try {
    const WithoutGil without;
    const Interruptible interruptible(group().communicator(wait.call));
    wait_for(wait);
  } catch (...) {
    check_signals();
    throw;
  }
}

/// Ends also where the peer has left or died, where the group has failed, and at the time-out.
void SymmetricHandle::wait_for(const Wait& wait) const {
  const milliseconds limit = wait.timeout_ms > 0 ? milliseconds(wait.timeout_ms) : group().timeout();
  const auto start = steady_clock::now();
  auto next_check = start + kPeerCheckPeriod;
  microseconds sleep{1};
  for (;;) {
    for (int i = 0; i < kSpins; ++i) {
      if (wait.attempt()) return;
    }
    const auto now = steady_clock::now();
    if (now >= next_check) {
      next_check = now + kPeerCheckPeriod;
      try {
        check_peer(wait);
      } catch (const tutti::Error& error) {
        if (wait.attempt()) return;  // what the peer had sent before
        throw tutti::Error(error.code(), c10::str(wait.text(rank_), ": ", error.what()));
      }
    }
    if (now - start >= limit) {
      throw tutti::Error(
          tutti::Code::Timeout,
          c10::str(wait.text(rank_), ": rank ", wait.peer, " has ",
                   wait.before == 0 ? "not taken the signal before" : "sent no signal", " for ", limit.count(),
                   " ms. Raise timeout_ms or the group's time-out if it may take longer"));
    }
    std::this_thread::sleep_for(sleep);
    sleep = std::min(2 * sleep, kLongestSleep);
  }
}

/// Throws if the peer has left or died. While calls of the group run, those of the window would wait for them, and they
/// perhaps for this signal; they notice such a peer themselves, and fail the group.
void SymmetricHandle::check_peer(const Wait& wait) const {
  tuttiResult_t failed = tuttiSuccess;
  if (!group().idle()) tutti::check(tuttiCommGetAsyncError(group().communicator(wait.call), &failed));
  if (group().idle() || failed != tuttiSuccess) window_->check_peer(wait.peer);
}

void SymmetricHandle::put_signal(int peer, int channel, size_t timeout_ms) try {
  check("put_signal", peer, channel);
  exchange({"put_signal", "to", peer, channel, word(peer, channel, rank_), 0, timeout_ms});
} catch (...) {
  std::rethrow_exception(as_torch_error());
}

void SymmetricHandle::wait_signal(int peer, int channel, size_t timeout_ms) try {
  check("wait_signal", peer, channel);
  exchange({"wait_signal", "from", peer, channel, word(rank_, channel, peer), 1, timeout_ms});
} catch (...) {
  std::rethrow_exception(as_torch_error());
}

/// Every rank signals every other one.
void SymmetricHandle::barrier(int channel, size_t timeout_ms) try {
  check("barrier", 0, channel);
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_) exchange({"barrier", "with", peer, channel, word(peer, channel, rank_), 0, timeout_ms});
  }
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_) exchange({"barrier", "with", peer, channel, word(rank_, channel, peer), 1, timeout_ms});
  }
} catch (...) {
  std::rethrow_exception(as_torch_error());
}

}  // namespace tutti_torch
