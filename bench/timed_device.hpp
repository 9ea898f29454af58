// A device that passes every call on to another one, and adds up the time that they take.
#pragma once

#include <chrono>
#include <memory>
#include <type_traits>

#include "tutti/train/device.hpp"

namespace tutti::train {

class TimedDevice final : public Device {
 public:
  /// Seconds: of the model's and the optimizer's mathematics; of copies and zeros; and how many calls.
  struct Spent {
    double math = 0, moving = 0;
    size_t calls = 0;
  };
  TimedDevice(std::unique_ptr<Device> device, Spent& spent) : device_(std::move(device)), spent_(spent) {}

  // Taking and giving back memory is the layer's own work: not timed.
  void* allocate(size_t bytes, bool shared) override { return device_->allocate(bytes, shared); }
  void release(void* data, size_t bytes, bool shared) noexcept override { device_->release(data, bytes, shared); }
  size_t reserved() const override { return device_->reserved(); }
  void order_before(Stream& later) override { device_->order_before(later); }

  void upload(void* to, const void* host, size_t bytes) override { moving(&Device::upload, to, host, bytes); }
  void download(void* host, const void* from, size_t bytes) override { moving(&Device::download, host, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { moving(&Device::copy, to, from, bytes); }
  void zero(void* data, size_t bytes) override { moving(&Device::zero, data, bytes); }
  void fill(Span data, float value) override { moving(&Device::fill, data, value); }

  void convert(Span to, Span from) override { math(&Device::convert, to, from); }
  void add(Span to, Span from) override { math(&Device::add, to, from); }
  void scale(Span data, float factor) override { math(&Device::scale, data, factor); }
  double sum_of_squares(Span data) override { return math(&Device::sum_of_squares, data); }
  void adam(const AdamStep& step, Span weights, float* master, float* m1, float* m2, Span gradients) override {
    math(&Device::adam, step, weights, master, m1, m2, gradients);
  }
  void gemm(const Gemm& gemm) override { math(&Device::gemm, gemm); }
  void layer_norm(Extent e, const float* x, const float* gain, const float* bias, float* y, float* mean,
                  float* rstd) override {
    math(&Device::layer_norm, e, x, gain, bias, y, mean, rstd);
  }
  void layer_norm_backward_input(Extent e, const float* dy, const float* x, const float* gain, const float* mean,
                                 const float* rstd, float* dx) override {
    math(&Device::layer_norm_backward_input, e, dy, x, gain, mean, rstd, dx);
  }
  void layer_norm_backward_weight(Extent e, const float* dy, const float* x, const float* mean, const float* rstd,
                                  float* d_gain, float* d_bias) override {
    math(&Device::layer_norm_backward_weight, e, dy, x, mean, rstd, d_gain, d_bias);
  }
  void gelu(size_t count, const float* x, float* y) override { math(&Device::gelu, count, x, y); }
  void gelu_backward(size_t count, const float* x, const float* dy, float* dx) override {
    math(&Device::gelu_backward, count, x, dy, dx);
  }
  void add_bias(Extent e, float* y, const float* bias) override { math(&Device::add_bias, e, y, bias); }
  void add_rows(Extent e, const float* dy, float* sums) override { math(&Device::add_rows, e, dy, sums); }
  void scale_rows(Extent e, const float* factors, const float* x, float* y) override {
    math(&Device::scale_rows, e, factors, x, y);
  }
  void row_dots(Extent e, const float* a, const float* b, float* dots) override {
    math(&Device::row_dots, e, a, b, dots);
  }
  void copy_rows(Extent e, Matrix from, Matrix to) override { moving(&Device::copy_rows, e, from, to); }
  void softmax(Extent e, float factor, bool causal, float* scores, float* log_sum) override {
    math(&Device::softmax, e, factor, causal, scores, log_sum);
  }
  void softmax_again(Extent e, float factor, bool causal, const float* log_sum, float* scores) override {
    math(&Device::softmax_again, e, factor, causal, log_sum, scores);
  }
  void softmax_backward(Extent e, float factor, const float* p, const float* along, float* d_scores) override {
    math(&Device::softmax_backward, e, factor, p, along, d_scores);
  }
  void merge_attention(Extent e, const float* block, const float* block_log_sum, Matrix out, float* log_sum) override {
    math(&Device::merge_attention, e, block, block_log_sum, out, log_sum);
  }
  void top_k(Extent e, size_t k, const float* x, int32_t* index) override { math(&Device::top_k, e, k, x, index); }
  void embed(Extent e, const int32_t* index, Entries here, const float* table, float* y, bool accumulate) override {
    math(&Device::embed, e, index, here, table, y, accumulate);
  }
  void embed_backward(Extent e, const int32_t* index, Entries here, const float* dy, float* d_table) override {
    math(&Device::embed_backward, e, index, here, dy, d_table);
  }
  void row_max(Extent e, const float* x, float* most) override { math(&Device::row_max, e, x, most); }
  void cross_entropy_sums(Extent e, const int32_t* target, Entries here, const float* most, float* logits, float* sums,
                          float* scored) override {
    math(&Device::cross_entropy_sums, e, target, here, most, logits, sums, scored);
  }
  double cross_entropy_gradient(Extent e, const int32_t* target, Entries here, const float* sums, const float* scored,
                                float factor, float* logits) override {
    return math(&Device::cross_entropy_gradient, e, target, here, sums, scored, factor, logits);
  }

 private:
  /// Adds the seconds of its scope.
  class Timer {
   public:
    explicit Timer(double& sum) : sum_(sum), start_(Clock::now()) {}
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    ~Timer() { sum_ += std::chrono::duration<double>(Clock::now() - start_).count(); }

   private:
    using Clock = std::chrono::steady_clock;
    double& sum_;
    Clock::time_point start_;
  };
  template <class Method, class... Arguments>
  std::invoke_result_t<Method, Device&, Arguments...> math(Method method, const Arguments&... arguments) {
    ++spent_.calls;
    const Timer timer(spent_.math);
    return (device_.get()->*method)(arguments...);
  }
  template <class Method, class... Arguments>
  void moving(Method method, const Arguments&... arguments) {
    ++spent_.calls;
    const Timer timer(spent_.moving);
    (device_.get()->*method)(arguments...);
  }
  std::unique_ptr<Device> device_;
  Spent& spent_;
};

}  // namespace tutti::train
