// The ledger: the training layer's only allocator. It knows how many bytes a rank holds for each purpose, now and at
// most, so that tests compare the formulas of ZeRO and others with what is really held.
#pragma once

#include <array>
#include <memory>
#include <utility>

#include "tutti/train/device.hpp"

namespace tutti::train {

/// What memory is held for. `Buffers`: communication buckets, gathered parameters, working copies in f32.
enum class Kind : uint8_t { Weights, Gradients, Optimizer, Activations, Buffers };
inline constexpr int kKinds = 5;
const char* name_of(Kind kind);

class Buffer;

/// One rank's memory. Not for several threads at the same time.
class Ledger {
 public:
  explicit Ledger(Device& device) : device_(&device) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Uninitialised elements. `shared`: collectives use them. Throws Error(OutOfMemory).
  Buffer allocate(Kind kind, size_t count, DType type = DType::F32, bool shared = false);
  Device& device() const { return *device_; }
  size_t held(Kind kind) const { return held_[static_cast<size_t>(kind)]; }
  size_t peak(Kind kind) const { return peak_[static_cast<size_t>(kind)]; }
  size_t held() const;
  /// Bytes that the device has taken from the system for this rank: what is held, and what it keeps for later.
  size_t reserved() const { return device_->reserved(); }
  /// The most bytes of all kinds together, at one time.
  size_t peak() const { return peak_of_all_; }
  /// From now on peaks are those since this call.
  void reset_peaks();

 private:
  friend class Buffer;
  void add(Kind kind, size_t bytes);
  Device* device_;
  std::array<size_t, kKinds> held_{}, peak_{};
  size_t peak_of_all_ = 0;
};

/// Owned memory; given back to its ledger with the object. Movable.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Buffer();
  Span span() const { return span_; }
  float* f32() const { return span_.f32(); }
  size_t count() const { return span_.count; }
  size_t bytes() const { return span_.bytes(); }

 private:
  friend class Ledger;
  Buffer(Ledger* ledger, Kind kind, Span span, bool shared)
      : ledger_(ledger), span_(span), kind_(kind), shared_(shared) {}
  void swap(Buffer& other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(span_, other.span_);
    std::swap(kind_, other.kind_);
    std::swap(shared_, other.shared_);
  }
  Ledger* ledger_ = nullptr;
  Span span_;
  Kind kind_ = Kind::Buffers;
  bool shared_ = false;
};

/// An activation or its gradient, f32: shared by all who still need it, and freed by the last of them.
using Tensor = std::shared_ptr<Buffer>;

}  // namespace tutti::train
