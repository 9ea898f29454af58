// The floating-point environment that folds expect.
#pragma once

#include <cstdint>

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

namespace tutti {

/// During its life, this thread rounds to nearest even, keeps subnormals and raises no floating-point signal. A program
/// linked with -ffast-math flushes subnormals to zero, so its results would differ from other ranks'.
/// Costs one register read if the environment is the default one already.
class FloatEnvironment {
 public:
  FloatEnvironment() noexcept : saved_(read()) {
    if (control_of(saved_) != kDefault) write(kDefault);
  }
  ~FloatEnvironment() {
    if (control_of(saved_) != kDefault) write(saved_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__) || defined(__i386__)
  using Register = uint32_t;
  static constexpr Register kDefault = 0x1F80;  // all exceptions masked, nearest even, no FTZ, no DAZ
  static Register control_of(Register value) { return value & ~Register{0x3F}; }  // the low bits only record events
  static Register read() { return _mm_getcsr(); }
  static void write(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Register = uint64_t;
  static constexpr Register kDefault = 0;
  static Register control_of(Register value) { return value; }
  static Register read() {
    Register value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(Register value) { asm volatile("msr fpcr, %0" : : "r"(value) : "memory"); }
#else
  using Register = uint32_t;
  static constexpr Register kDefault = 0;
  static Register control_of(Register value) { return value; }
  static Register read() { return kDefault; }
  static void write(Register) {}
#endif
  Register saved_;
};

}  // namespace tutti
