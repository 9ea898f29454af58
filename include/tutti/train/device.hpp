// The device that a rank computes on: memory and math. Nothing else of the training layer reads or writes tensor
// memory, so another Device (cuBLAS and CUDA kernels) can stand here without a change elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tutti/tutti.hpp"

namespace tutti::train {

/// `count` elements of device memory that somebody else owns. Element types are f32 and bf16.
struct Span {
  void* data = nullptr;
  size_t count = 0;
  DType type = DType::F32;

  size_t bytes() const { return count * size_of(type); }
  bool empty() const { return count == 0; }
  /// The elements [first, first + length).
  Span part(size_t first, size_t length) const {
    return {static_cast<char*>(data) + first * size_of(type), length, type};
  }
  /// For kernels that know only f32. The caller has checked the type.
  float* f32() const { return static_cast<float*>(data); }
};

/// A row-major matrix in memory: `ld` is the distance of two rows in elements.
struct ConstMatrix {
  const float* data = nullptr;
  size_t ld = 0;
};
struct Matrix {
  float* data = nullptr;
  size_t ld = 0;
  operator ConstMatrix() const { return {data, ld}; }
};

/// C (m×n) ← alpha · op(A) (m×k) · op(B) (k×n) + beta · C.
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  size_t m = 0, n = 0, k = 0;
  ConstMatrix a, b;
  Matrix c;
  float alpha = 1, beta = 0;
};

/// One step of Adam (Kingma & Ba, ICLR 2015, algorithm 1) with decoupled weight decay.
struct AdamStep {
  float rate = 1e-3f, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, decay = 0;
  float scale = 1;   ///< the gradients are multiplied by it first: averaging and clipping
  int64_t step = 1;  ///< 1 is the first
};

/// The rows and columns of a matrix.
struct Extent {
  size_t rows = 0, columns = 0;
};

/// Entries [first, first + count) of a table with a row an entry; the others lie on other ranks.
struct Entries {
  size_t first = 0, count = 0;
  bool have(int32_t index) const {
    return index >= 0 && static_cast<size_t>(index) >= first && static_cast<size_t>(index) < first + count;
  }
};

class Device {
 public:
  virtual ~Device() = default;

  // ---- memory
  /// Uninitialised memory. `shared`: collectives will use it, so peers should be able to map it. Throws
  /// Error(OutOfMemory). Only the Ledger calls this.
  virtual void* allocate(size_t bytes, bool shared) = 0;
  virtual void release(void* data, size_t bytes, bool shared) noexcept = 0;
  /// Bytes that the device has taken from the system: what is allocated, and what it keeps for later.
  virtual size_t reserved() const = 0;
  virtual void upload(void* to, const void* host, size_t bytes) = 0;
  virtual void download(void* host, const void* from, size_t bytes) = 0;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void zero(void* data, size_t bytes) = 0;
  /// Calls made on `later` from now on see what this device has computed so far.
  virtual void order_before(Stream& later) = 0;

  // ---- vectors
  /// to ← from, rounded to nearest even where `to` is bf16. Equal counts.
  virtual void convert(Span to, Span from) = 0;
  /// to ← to + from. Equal counts; types may differ.
  virtual void add(Span to, Span from) = 0;
  virtual void scale(Span data, float factor) = 0;
  virtual void fill(Span data, float value) = 0;
  /// Summed in f64, in the order of the elements.
  virtual double sum_of_squares(Span data) = 0;
  /// Updates `master` (f32) and the moments from `gradients`, and stores the rounded master in `weights`. For f32
  /// weights, `master` is the weights themselves.
  virtual void adam(const AdamStep& step, Span weights, float* master, float* moment1, float* moment2,
                    Span gradients) = 0;

  // ---- the model's kernels, f32
  virtual void gemm(const Gemm& gemm) = 0;
  /// y[r] ← (x[r] − mean[r]) · rstd[r] · gain + bias, and keeps mean and rstd = 1/√(variance + 1e-5).
  virtual void layer_norm(Extent extent, const float* x, const float* gain, const float* bias, float* y, float* mean,
                          float* rstd) = 0;
  /// dx ← dx + the gradient by x.
  virtual void layer_norm_backward_input(Extent extent, const float* dy, const float* x, const float* gain,
                                         const float* mean, const float* rstd, float* dx) = 0;
  /// d_gain and d_bias are added to.
  virtual void layer_norm_backward_weight(Extent extent, const float* dy, const float* x, const float* mean,
                                          const float* rstd, float* d_gain, float* d_bias) = 0;
  /// GELU, tanh form: y ← x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))).
  virtual void gelu(size_t count, const float* x, float* y) = 0;
  /// dx ← dy · gelu'(x). dx may be dy.
  virtual void gelu_backward(size_t count, const float* x, const float* dy, float* dx) = 0;
  /// y[r] ← y[r] + bias.
  virtual void add_bias(Extent extent, float* y, const float* bias) = 0;
  /// sums ← sums + the sum of dy's rows.
  virtual void add_rows(Extent extent, const float* dy, float* sums) = 0;
  /// y[r] ← factors[r] · x[r]. y may be x.
  virtual void scale_rows(Extent extent, const float* factors, const float* x, float* y) = 0;
  /// dots[r] ← Σ a[r] · b[r].
  virtual void row_dots(Extent extent, const float* a, const float* b, float* dots) = 0;
  virtual void copy_rows(Extent extent, Matrix from, Matrix to) = 0;

  // ---- softmax and attention. `causal`: row r has r + 1 elements, and zeros beyond
  /// Rows of `scores` ← softmax of factor · scores; log_sum[r] ← log Σ exp(factor · scores[r]), unless it is null.
  virtual void softmax(Extent extent, float factor, bool causal, float* scores, float* log_sum) = 0;
  /// The same softmax again, from its log_sum: possibly of a longer row, of which `scores` is a block of columns.
  virtual void softmax_again(Extent extent, float factor, bool causal, const float* log_sum, float* scores) = 0;
  /// d_scores ← factor · p · (d_scores − along[r]), where along[r] = Σ d_scores · p over the whole row. Null:
  /// `extent` is the whole row, and the kernel computes it.
  virtual void softmax_backward(Extent extent, float factor, const float* p, const float* along, float* d_scores) = 0;
  /// Joins attention over two sets of keys (online softmax: Milakov & Gimelshein, 2018): out and log_sum ← over both,
  /// of out and log_sum over one, block and block_log_sum over the other. log_sum −∞: over none yet.
  virtual void merge_attention(Extent extent, const float* block, const float* block_log_sum, Matrix out,
                               float* log_sum) = 0;
  /// index (rows × k) ← the columns of the k largest elements of each row, largest first: of equals, the first.
  virtual void top_k(Extent extent, size_t k, const float* x, int32_t* index) = 0;

  // ---- tables. Rows of `table` are the entries `here`
  /// y[r] ← table[index[r] − first]; zero for entries that are not here. With `accumulate`, added.
  virtual void embed(Extent extent, const int32_t* index, Entries here, const float* table, float* y,
                     bool accumulate) = 0;
  /// d_table[index[r] − first] ← … + dy[r], for entries that are here.
  virtual void embed_backward(Extent extent, const int32_t* index, Entries here, const float* dy, float* d_table) = 0;

  // ---- cross-entropy in three parts, between which ranks that each have some columns combine their rows' values
  /// most[r] ← the largest element of row r.
  virtual void row_max(Extent extent, const float* x, float* most) = 0;
  /// logits ← exp(logits − most[r]); sums[r] ← their sum; scored[r] ← logits[r][target[r]] − most[r], or 0 if the
  /// target is not one of the entries `here`.
  virtual void cross_entropy_sums(Extent extent, const int32_t* target, Entries here, const float* most, float* logits,
                                  float* sums, float* scored) = 0;
  /// Returns Σ_r −log softmax(logits[r])[target[r]], and replaces the exponentials by `factor` times the gradient by
  /// the logits.
  virtual double cross_entropy_gradient(Extent extent, const int32_t* target, Entries here, const float* sums,
                                        const float* scored, float factor, float* logits) = 0;
};

/// The host: OpenBLAS, one thread a rank.
std::unique_ptr<Device> make_host_device();

}  // namespace tutti::train
