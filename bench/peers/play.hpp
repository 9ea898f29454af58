// One rank's part of the comparison, the same for every library. A Peer is a rank of one of them:
//
//   int rank(), ranks()
//   float* allocate(size_t count), void release(float*)     memory that lasts from `open` to `close`
//   float* prepare(const Shape&, float* in, float* out)     the next calls' buffers; returns where their output will be
//   void call()                                             one collective call, blocking
//   void barrier()
//   void inputs_change(bool)                                do they, between the next calls? (for the upper bound only)
//
// Time is measured in three modes:
//   back    calls one after the other with the same unmodified buffers, as benchmarks do
//   used    every input is written before each call and every output read after it; the time of the same loop without
//           calls is subtracted
//   apart   a barrier before each call, each call timed alone
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "collective.hpp"
#include "driver_pipes.hpp"

namespace peers {

/// Memory as from malloc, aligned to 2 MiB. Never null.
inline float* plain_memory(size_t count) {
  void* memory = nullptr;
  if (posix_memalign(&memory, size_t{2} << 20, count * sizeof(float)) != 0) {
    std::fprintf(stderr, "there is no memory for %zu floats\n", count);
    std::exit(2);
  }
  return static_cast<float*>(memory);
}

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The next two are never inlined: in two loops they would be compiled differently (a factor of three was seen), and the
// time of the loop without calls would not match the other loop.

/// Writes all of an input, as the code before a call does.
[[gnu::noinline]] inline void rewrite(float* data, size_t count, long turn) {
  const float value = static_cast<float>(turn & 3);
  for (size_t i = 0; i < count; ++i) data[i] = value;
  asm volatile("" : : "r"(data) : "memory");
}

/// Reads all of an output, as the code after a call does.
[[gnu::noinline]] inline void consume(const float* data, size_t count) {
  uint32_t all = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, data + i, sizeof bits);
    all |= bits;
  }
  asm volatile("" : : "r"(all) : "memory");
}

template <class Peer>
class Play {
 public:
  Play(Peer& peer, const std::string& folder) : peer_(peer), driver_(folder, peer.rank()) {}

  /// Obeys the driver until it sends "end".
  void run() {
    driver_.say("ready");
    for (auto words = driver_.next(); words[0] != "end"; words = driver_.next()) {
      if (words[0] == "open" && words.size() == 3) {
        driver_.say("wrong " + std::to_string(open(words[1], std::stoull(words[2]))));
      } else if (words[0] == "time" && words.size() == 3) {
        time(words[1], std::stol(words[2]));
      } else if (words[0] == "close") {
        close();
        driver_.say("closed");
      } else {
        driver_.say("cannot " + words[0]);
      }
    }
  }

 private:
  /// Makes buffers for one shape and checks one call. Returns the number of wrong elements.
  size_t open(const std::string& name, size_t bytes) {
    shape_ = {static_cast<Collective>(index_of(name)), bytes / sizeof(float), peer_.ranks(), peer_.rank()};
    const size_t room = shape_.count + 16;
    in_ = peer_.allocate(room);
    spare_ = peer_.allocate(room);
    // Touches both buffers completely, so that no later call meets a new page.
    const size_t mine = shape_.input_count();
    for (size_t i = 0; i < mine; ++i) in_[i] = value_of(shape_.rank, i);
    for (size_t i = mine; i < room; ++i) in_[i] = -1;
    for (size_t i = 0; i < room; ++i) spare_[i] = -1;
    out_ = peer_.prepare(shape_, in_, spare_);
    peer_.inputs_change(true);
    peer_.barrier();
    peer_.call();
    const size_t step = shape_.count > (size_t{1} << 18) ? 61 : 1;  // every 61st element of long buffers
    size_t wrong = 0;
    for (size_t i = 0; i < shape_.output_count(); i += step) wrong += out_[i] != expected(shape_, i);
    peer_.barrier();
    // If output becomes input again, only zeros do not change, and never become subnormal.
    std::memset(in_, 0, room * sizeof(float));
    peer_.barrier();
    return wrong;
  }

  void close() {
    peer_.barrier();  // no rank still reads the buffers
    peer_.release(in_);
    peer_.release(spare_);
  }

  void time(const std::string& mode, long calls) {
    double whole = 0, touching = 0;
    peer_.inputs_change(mode != "back");
    peer_.barrier();
    if (mode == "used") {
      whole = time_of(calls, [&](long i) {
        rewrite(in_, shape_.input_count(), i);
        peer_.call();
        consume(out_, shape_.output_count());
      });
      peer_.barrier();
      touching = time_of(calls, [&](long i) {
        rewrite(in_, shape_.input_count(), i);
        consume(out_, shape_.output_count());
      });
    } else if (mode == "apart") {
      for (long i = 0; i < calls; ++i) {
        peer_.barrier();
        whole += time_of(1, [&](long) { peer_.call(); });
      }
      whole /= static_cast<double>(calls);
    } else {
      whole = time_of(calls, [&](long) { peer_.call(); });
    }
    peer_.barrier();  // an answer wakes the driver, which must not take a core from a rank that is still timed
    char text[96];
    std::snprintf(text, sizeof text, "took %.9f %.9f", whole * 1e6, touching * 1e6);
    driver_.say(text);
  }

  /// Seconds of one iteration of the loop.
  template <class Body>
  static double time_of(long calls, Body&& body) {
    const double start = seconds();
    for (long i = 0; i < calls; ++i) body(i);
    return (seconds() - start) / static_cast<double>(calls);
  }

  Peer& peer_;
  DriverPipes driver_;
  Shape shape_;
  float *in_ = nullptr, *spare_ = nullptr, *out_ = nullptr;
};

}  // namespace peers
