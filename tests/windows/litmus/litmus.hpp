// Litmus tests of one-sided calls: a few calls a rank, whose results in registers say in which order they were seen. A
// test runs many times, on cells of its own each time, and names the outcomes that tutti.h promises not to occur. The
// others are counted, as the tables of litmus7 do: what is weaker than a sequence of the ranks' calls, and allowed, is
// marked, so that one sees whether a test could have found anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "windows/job.hpp"

namespace tutti::litmus {

inline constexpr size_t kRegisters = 4;  // of a rank
inline constexpr size_t kBatch = 64;     // runs between two barriers, at most
inline constexpr uint64_t kTorn = 99;    // read from a cell whose words differ
using Registers = std::array<uint64_t, kRegisters>;
using Outcome = std::vector<Registers>;  // by rank

enum class Verdict { Strong, Weak, Forbidden };

/// How calls are made: at once, on a stream, or those of together() in a group.
enum class Way { AtOnce, Stream, Group };

/// In which memory the parts lie. Mixed: mapped on even ranks, ordinary on odd ones.
enum class Parts { Mapped, Ordinary, Mixed };

/// A cell of a rank's part. Each run has its own ones.
struct Place {
  int rank = 0;
  size_t location = 0;
};

class Thread;

struct Litmus {
  std::string name;
  int ranks = 2;
  size_t locations = 2;
  size_t registers = 2;   ///< that the outcomes are told by
  size_t cell_words = 8;  ///< at least 8, so that cells lie in cache lines of their own
  bool one_word = false;  ///< puts and gets move the cell's first word alone, which others may use meanwhile
  Way way = Way::AtOnce;
  bool at_address = false;  ///< reads and writes at addresses: only where all parts have one
  uint64_t share = 1;       ///< a slow test makes only one of so many runs
  std::function<void(Thread&)> thread;
  std::function<Verdict(const Outcome&)> judge;
};

/// For an agent's requests the system copies words that another thread of the process uses meanwhile: whole, but
/// ThreadSanitizer cannot know that. Tests of such words are left out there.
bool races_with_the_system();

/// One rank's calls in one run.
class Thread {
 public:
  class Batch;
  Thread(Batch& batch, size_t number);

  const int rank, peer;  ///< peer: the other one, of two

  /// All words of the cell, or its first one, ← value.
  void put(uint64_t value, Place to);
  void put_signal(uint64_t value, Place to, int signal = 0);
  void signal(int to, int number = 0);
  void wait(int from, int number = 0, uint64_t count = 1);
  /// The register ← the value of the cell's words, which is known after the batch where calls are made on a stream.
  void get(size_t into, Place from);
  /// The same by a load, of this rank's own cell. On a stream, and in no other order, it is a get.
  void own(size_t into, size_t location);
  /// The cell's first word; the register ← what it was.
  void add(uint64_t operand, Place to, size_t before);
  void add(uint64_t operand, Place to);
  void read(size_t into, Place from) { add(0, from, into); }
  void swap(uint64_t expected, uint64_t desired, Place at, size_t before);
  void flush(int to);
  void barrier();
  /// The cell's first word at its address.
  std::atomic_ref<uint64_t> word(Place at) const;
  /// The calls that it makes are a group, where the test is one of groups.
  void together(const std::function<void()>& calls) const;

  uint64_t& reg(size_t number);
  /// Waits until all ranks are in this run, then for a moment of another length in each, so that their calls overlap in
  /// all ways. Not on a stream.
  void meet();

 private:
  Batch& batch_;
  const size_t number_;
};

/// Runs it LITMUS_RUNS times (by default a few hundred) on all ranks that are in this process, and prints the outcomes.
void play(const Litmus& test, Parts parts);

/// Names of parts, for the names of tests.
std::string name_of(Parts parts);
/// Parts that are of interest here: among threads all memory is reached alike, and so are parts of other hosts.
std::vector<Parts> parts_of_interest();

}  // namespace tutti::litmus
