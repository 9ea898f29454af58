#include "train/device/host_loops.hpp"

#include <cmath>

#include "train/device/host_exp.hpp"

// The function is compiled for several levels of x86-64, and the loader takes the best that this host has. Nothing is
// contracted or reordered (cmake/Train.cmake), so ranks on unlike processors still compute the same bits. Sanitizers
// are not ready when the loader chooses. GCC cannot do so with virtual functions.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define TUTTI_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TUTTI_CLONES
#endif

namespace tutti::train {
namespace {

inline float hyperbolic_tangent(float x) { return 1 - 2 / (exponential(2 * x) + 1); }

constexpr float kRoot = 0.7978845608f, kCube = 0.044715f;  // of GELU: √(2/π)

}  // namespace

TUTTI_CLONES void exponentials(size_t count, float from, float factor, float* x) {
  for (size_t i = 0; i < count; ++i) x[i] = exponential((x[i] - from) * factor);
}

TUTTI_CLONES void gelu_loop(size_t count, const float* x, float* y) {
  for (size_t i = 0; i < count; ++i) {
    const float v = x[i];
    y[i] = 0.5f * v * (1 + hyperbolic_tangent(kRoot * (v + kCube * v * v * v)));
  }
}

TUTTI_CLONES void gelu_backward_loop(size_t count, const float* x, const float* dy, float* dx) {
  for (size_t i = 0; i < count; ++i) {
    const float v = x[i], t = hyperbolic_tangent(kRoot * (v + kCube * v * v * v));
    const float slope = 0.5f * (1 + t) + 0.5f * v * (1 - t * t) * kRoot * (1 + 3 * kCube * v * v);
    dx[i] = dy[i] * slope;
  }
}

TUTTI_CLONES void adam_loop(const AdamStep& step, size_t count, const float* gradients, float* master, float* moment1,
                            float* moment2) {
  const AdamStep s = step;  // in registers: the stores below could change what a reference names
  const auto steps = static_cast<double>(s.step);
  const auto unbias1 = static_cast<float>(1 / (1 - std::pow(double{s.beta1}, steps)));
  const auto unbias2 = static_cast<float>(1 / (1 - std::pow(double{s.beta2}, steps)));
  for (size_t i = 0; i < count; ++i) {
    const float g = gradients[i] * s.scale;
    moment1[i] = s.beta1 * moment1[i] + (1 - s.beta1) * g;
    moment2[i] = s.beta2 * moment2[i] + (1 - s.beta2) * g * g;
    const float update = moment1[i] * unbias1 / (std::sqrt(moment2[i] * unbias2) + s.epsilon);
    master[i] -= s.rate * (update + s.decay * master[i]);
  }
}

}  // namespace tutti::train
