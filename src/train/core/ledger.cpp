#include "tutti/train/ledger.hpp"

#include <algorithm>
#include <numeric>

namespace tutti::train {

const char* name_of(Kind kind) {
  constexpr const char* kNames[kKinds] = {"weights", "gradients", "optimizer", "activations", "buffers"};
  return kNames[static_cast<size_t>(kind)];
}

Buffer Ledger::allocate(Kind kind, size_t count, DType type, bool shared) {
  if (count == 0) return {};
  void* const data = device_->allocate(count * size_of(type), shared);
  add(kind, count * size_of(type));
  return {this, kind, Span{data, count, type}, shared};
}

size_t Ledger::held() const { return std::accumulate(held_.begin(), held_.end(), size_t{0}); }

void Ledger::reset_peaks() {
  peak_ = held_;
  peak_of_all_ = held();
}

void Ledger::add(Kind kind, size_t bytes) {
  size_t& held_of_kind = held_[static_cast<size_t>(kind)];
  size_t& peak_of_kind = peak_[static_cast<size_t>(kind)];
  held_of_kind += bytes;
  peak_of_kind = std::max(peak_of_kind, held_of_kind);
  peak_of_all_ = std::max(peak_of_all_, held());
}

Buffer::~Buffer() {
  if (ledger_ == nullptr) return;
  ledger_->device().release(span_.data, span_.bytes(), shared_);
  ledger_->held_[static_cast<size_t>(kind_)] -= span_.bytes();
}

}  // namespace tutti::train
