// One rank's part of the comparison of one-sided calls, the same for every library. There are two ranks, each with its
// part of one window: kRoom bytes, and a line for a counter. A Peer is a rank of one of the libraries:
//
//   int rank()
//   std::byte* mine()                                        this rank's part
//   void put(const std::byte*, size_t bytes, size_t offset)  into the peer's part
//   void get(std::byte*, size_t bytes, size_t offset)        from it
//   void flush()                                             all of them are done
//   uint64_t add(uint64_t, size_t offset)                    a word of the peer's part, fetched and changed; done
//   void put_signal(const std::byte*, size_t bytes)          to offset 0, then word of it
//   void wait_signal()                                       for one such word more
//   void barrier()
//
// What is timed:
//   put, get          rank 0 alone: the call and a flush
//   put_rate, …       rank 0 alone: 64 calls of the same bytes, then a flush; the time of one
//   put_signal        the ranks in turn: half of the time to and fro
//   add               rank 0 alone
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "driver_pipes.hpp"

namespace peers {

constexpr size_t kRoom = size_t{4} << 20, kPart = kRoom + 4096;
constexpr int kInARow = 64;

template <class Peer>
class RmaPlay {
 public:
  RmaPlay(Peer& peer, const std::string& folder)
      : peer_(peer), driver_(folder, peer.rank()), source_(aligned()), target_(aligned()) {}
  ~RmaPlay() {
    std::free(source_);
    std::free(target_);
  }
  RmaPlay(const RmaPlay&) = delete;
  RmaPlay& operator=(const RmaPlay&) = delete;

  /// Obeys the driver until it sends "end".
  void run() {
    driver_.say("ready");
    for (auto words = driver_.next(); words[0] != "end"; words = driver_.next()) {
      if (words[0] == "open" && words.size() == 2) {
        bytes_ = std::stoull(words[1]);
        driver_.say("wrong " + std::to_string(try_all()));
      } else if (words[0] == "time" && words.size() == 3) {
        time(words[1], std::stol(words[2]));
      } else {
        driver_.say("cannot " + words[0]);
      }
    }
  }

 private:
  static std::byte* aligned() {
    void* memory = nullptr;
    if (posix_memalign(&memory, size_t{2} << 20, kRoom) != 0) std::exit(2);
    std::memset(memory, 0, kRoom);
    return static_cast<std::byte*>(memory);
  }

  static std::byte value_of(int rank, size_t i) { return static_cast<std::byte>(i * 31 + static_cast<size_t>(rank)); }

  /// Makes every call once. The number of wrong bytes.
  size_t try_all() {
    const int other = 1 - peer_.rank();
    size_t wrong = 0;
    for (size_t i = 0; i < bytes_; ++i) source_[i] = value_of(peer_.rank(), i);
    peer_.barrier();
    std::memset(peer_.mine(), 0, kPart);
    peer_.barrier();
    peer_.put_signal(source_, bytes_);
    peer_.wait_signal();
    for (size_t i = 0; i < bytes_; ++i) wrong += peer_.mine()[i] != value_of(other, i);
    peer_.get(target_, bytes_, 0);
    peer_.flush();
    for (size_t i = 0; i < bytes_; ++i) wrong += target_[i] != value_of(peer_.rank(), i);
    wrong += peer_.add(3, kRoom) != 0;
    wrong += peer_.add(1, kRoom) != 3;
    peer_.barrier();
    return wrong;
  }

  void time(const std::string& what, long calls) {
    peer_.barrier();
    const double start = seconds();
    const long made = what == "put_signal" ? to_and_fro(calls) : peer_.rank() == 0 ? alone(what, calls) : 1;
    const double whole = (seconds() - start) / static_cast<double>(std::max(made, 1L));
    peer_.barrier();  // an answer wakes the driver, which must not take a core from a rank that is still timed
    char text[64];
    std::snprintf(text, sizeof text, "took %.9f", made > 0 && (peer_.rank() == 0) ? whole * 1e6 : 0.0);
    driver_.say(text);
  }

  /// The number of calls made.
  long to_and_fro(long calls) {
    for (long i = 0; i < calls; ++i) {
      if (peer_.rank() == 1) peer_.wait_signal();
      peer_.put_signal(source_, bytes_);
      if (peer_.rank() == 0) peer_.wait_signal();
    }
    return 2 * calls;
  }

  long alone(const std::string& what, long calls) {
    if (what == "add") return in_loop(calls, [&] { peer_.add(1, kRoom); });
    if (what == "put") return in_loop(calls, [&] { peer_.put(source_, bytes_, 0), peer_.flush(); });
    if (what == "get") return in_loop(calls, [&] { peer_.get(target_, bytes_, 0), peer_.flush(); });
    const bool puts = what == "put_rate";
    const long rows = std::max(1L, calls / kInARow);
    in_loop(rows, [&] {
      for (int j = 0; j < kInARow; ++j) puts ? peer_.put(source_, bytes_, 0) : peer_.get(target_, bytes_, 0);
      peer_.flush();
    });
    return rows * kInARow;
  }

  template <class Body>
  static long in_loop(long calls, Body&& body) {
    for (long i = 0; i < calls; ++i) body();
    return calls;
  }

  static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  Peer& peer_;
  DriverPipes driver_;
  std::byte *const source_, *const target_;
  size_t bytes_ = 8;
};

}  // namespace peers
