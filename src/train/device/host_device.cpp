// The host as a device: memory, vectors, and OpenBLAS.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "train/device/blas.hpp"
#include "train/device/block_cache.hpp"
#include "train/device/host_kernels.hpp"
#include "train/device/host_loops.hpp"

namespace tutti::train {
namespace {

float widen(BFloat16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float wide = 0;
  std::memcpy(&wide, &bits, sizeof wide);
  return wide;
}

/// To nearest, ties to even.
BFloat16 narrow(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value)) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

float load(const float* data, size_t i) { return data[i]; }
float load(const BFloat16* data, size_t i) { return widen(data[i]); }
void store(float* data, size_t i, float value) { data[i] = value; }
void store(BFloat16* data, size_t i, float value) { data[i] = narrow(value); }

/// Calls `function` with the span's pointer, typed.
template <class Function>
auto typed(Span span, Function function) {
  if (span.type == DType::F32) return function(static_cast<float*>(span.data));
  if (span.type == DType::BF16) return function(static_cast<BFloat16*>(span.data));
  throw Error(Code::InvalidArgument,
              fmt::format("the training layer computes in f32 and bf16, not {}", name_of(span.type)));
}

void* take(size_t bytes, bool shared) {
  void* made = nullptr;
  if (shared) {
    check(tuttiMemAlloc(&made, bytes));
  } else {
    made = std::aligned_alloc(64, bytes);
  }
  if (made == nullptr) throw Error(Code::OutOfMemory, fmt::format("{} bytes for the model cannot be had", bytes));
  return made;
}

void give_back(void* block, bool shared) {
  if (shared) {
    tuttiMemFree(block);
  } else {
    std::free(block);
  }
}

class HostDevice final : public HostKernels {
 public:
  HostDevice() { blas_.set_num_threads(1); }

  void* allocate(size_t bytes, bool shared) override { return blocks_.allocate(bytes, shared); }
  void release(void* data, size_t bytes, bool shared) noexcept override { blocks_.release(data, bytes, shared); }
  size_t reserved() const override { return blocks_.reserved(); }
  void upload(void* to, const void* host, size_t bytes) override { copy(to, host, bytes); }
  void download(void* host, const void* from, size_t bytes) override { copy(host, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes != 0) std::memcpy(to, from, bytes);  // an empty tensor has no address
  }
  void zero(void* data, size_t bytes) override {
    if (bytes != 0) std::memset(data, 0, bytes);
  }
  void order_before(Stream&) override {}  // what the host computes is done when the call returns

  void convert(Span to, Span from) override {
    typed(to, [&](auto* out) {
      typed(from, [&](const auto* in) {
        for (size_t i = 0; i < to.count; ++i) store(out, i, load(in, i));
      });
    });
  }
  void add(Span to, Span from) override {
    typed(to, [&](auto* out) {
      typed(from, [&](const auto* in) {
        for (size_t i = 0; i < to.count; ++i) store(out, i, load(out, i) + load(in, i));
      });
    });
  }
  void scale(Span data, float factor) override {
    typed(data, [&](auto* out) {
      for (size_t i = 0; i < data.count; ++i) store(out, i, load(out, i) * factor);
    });
  }
  void fill(Span data, float value) override {
    typed(data, [&](auto* out) {
      for (size_t i = 0; i < data.count; ++i) store(out, i, value);
    });
  }
  double sum_of_squares(Span data) override {
    return typed(data, [&](const auto* in) {
      double sum = 0;
      for (size_t i = 0; i < data.count; ++i) sum += double{load(in, i)} * double{load(in, i)};
      return sum;
    });
  }
  void adam(const AdamStep& s, Span weights, float* master, float* moment1, float* moment2, Span gradients) override {
    std::array<float, 4096> wide;  // gradients that are not f32, by blocks
    const bool narrow = gradients.type != DType::F32;
    const size_t most = narrow ? wide.size() : weights.count;
    for (size_t i = 0; i < weights.count; i += most) {
      const Span some = gradients.part(i, std::min(most, weights.count - i));
      if (narrow) convert({wide.data(), some.count, DType::F32}, some);
      adam_loop(s, some.count, narrow ? wide.data() : some.f32(), master + i, moment1 + i, moment2 + i);
    }
    if (weights.data != master) convert(weights, {master, weights.count, DType::F32});
  }

  void gemm(const Gemm& g) override {
    const auto flag = [](bool transpose) { return transpose ? CblasTrans : CblasNoTrans; };
    const auto small = [](size_t value) { return static_cast<blasint>(value); };
    blas_.sgemm(CblasRowMajor, flag(g.transpose_a), flag(g.transpose_b), small(g.m), small(g.n), small(g.k), g.alpha,
                g.a.data, small(g.a.ld), g.b.data, small(g.b.ld), g.beta, g.c.data, small(g.c.ld));
  }

 private:
  const Blas& blas_ = blas();
  BlockCache blocks_{{.take = take, .give_back = give_back}};
};

}  // namespace

std::unique_ptr<Device> make_host_device() { return std::make_unique<HostDevice>(); }

}  // namespace tutti::train
