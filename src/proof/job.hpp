// A job: what every thread of every rank does in some calls, as plain data. It is what a method makes of plans, in the
// terms of memory: threads wait for words, move elements, and set words. proof/run.hpp executes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rank.hpp"
#include "plan/order.hpp"
#include "plan/plan.hpp"

namespace tutti::proof {

/// Where elements begin: in one of the memories, so many elements from its beginning on.
struct Place {
  uint32_t memory = 0;
  uint64_t at = 0;
};

/// to[…] ← the fold of the operands, element by element; one operand is copied. All destinations get the same.
struct Move {
  uint64_t elements = 0;
  std::vector<Place> from, to;
  FoldShape shape = FoldShape::Left;
  bool completes = false;
  bool padding = false;  ///< nobody needs the result, so the operands may never have been written
};

/// A thread waits until a word is `value`; of counters, until it is at least that. It then sees what the thread that
/// set this value has done before.
struct Wait {
  uint32_t word = 0;
  uint64_t value = 0;
};
struct Set {
  uint32_t word = 0;
  uint64_t value = 0;
};

/// What a thread does at a time: it waits for all words, moves, and sets words. The moves of an action may run in any
/// order, or together.
struct Action {
  const char* what = "";  ///< "fold", "tell", …: for people and mutants
  uint32_t step = 0;      ///< of the plan, in its lane
  std::vector<Wait> waits;
  std::vector<Move> moves;
  std::vector<Set> sets;
  bool ends = false;  ///< the rank's call: its outputs are final, and all its buffers belong to the user again
};

struct Thread {
  Rank rank = 0;
  std::string name;  ///< "rank 0, lane 1"
  std::vector<Action> actions;
};

struct Memory {
  std::string name;  ///< "rank 2's output"
  uint64_t elements = 0;
  bool writable = true;
};

/// A counter only grows, and one thread sets it. A flag takes any values from several threads, which must know of each
/// other's accesses: what one has not yet seen, no other may replace; and nobody waits for a value that it could have
/// seen earlier.
struct Word {
  std::string name;
  bool counter = true;
  uint64_t value = 0;
};

/// A rank's buffers. In place, one may be a part of the other.
struct Buffers {
  Place in, out;
};

struct Job {
  plan::Shape shape;      ///< of the plans
  plan::RankOrder order;  ///< on which they were drawn; all ranks here are the communicator's
  Rank root = 0;
  uint64_t count = 0;            ///< elements of a block
  std::vector<Buffers> buffers;  ///< by rank
  std::vector<Memory> memories;
  std::vector<Word> words;
  std::vector<Thread> threads;

  uint32_t add(Memory memory) {
    return memories.push_back(std::move(memory)), static_cast<uint32_t>(memories.size() - 1);
  }
  uint32_t add(Word word) { return words.push_back(std::move(word)), static_cast<uint32_t>(words.size() - 1); }
};

}  // namespace tutti::proof
