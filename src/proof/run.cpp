#include "proof/run.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "plan/verify/checks.hpp"
#include "plan/verify/forest.hpp"
#include "plan/verify/outputs.hpp"
#include "proof/access_log.hpp"
#include "proof/folds.hpp"

namespace tutti::proof {
namespace {

using plan::Buffer;
using plan::verifier::Forest;
using plan::verifier::kUndefined;
using plan::verifier::reject;
using plan::verifier::Value;

/// An element: which inputs it was made of, and of which place in their blocks.
struct Element {
  Value value = kUndefined;
  uint32_t position = 0;
};

class Run {
 public:
  /// `folds`: what outputs of reductions must be; null: any fold of every rank's contribution.
  Run(const Job& job, Forest& forest, const ExpectedFolds* folds)
      : job_(job),
        forest_(forest),
        folds_(folds),
        clocks_(job.threads.size()),
        first_(firsts(job)),
        elements_(first_.back()),
        marks_(first_.back()),
        log_(clocks_, first_.back()),
        flags_(clocks_, job.words.size()),
        history_(job.words.size()),
        next_(job.threads.size()),
        calls_(static_cast<size_t>(job.shape.ranks)) {
    for (Rank rank = 0; rank < job.shape.ranks; ++rank) fill(rank);
    for (size_t word = 0; word < job.words.size(); ++word)
      history_[word].push_back({job.words[word].value, nullptr, {}});
  }

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t thread = 0; thread < job_.threads.size(); ++thread) {
        while (next_[thread] < job_.threads[thread].actions.size() && act(thread)) moved = true;
      }
    }
    for (uint32_t thread = 0; thread < job_.threads.size(); ++thread) {
      if (next_[thread] < job_.threads[thread].actions.size()) reject_stuck(thread);
    }
  }

 private:
  using Clock = std::shared_ptr<const std::vector<uint32_t>>;
  struct Moment {  // a word's value, and what its setter knew
    uint64_t value = 0;
    Clock known;
    MemoryAccess by;
  };
  struct Mark {  // the action that writes an element, and which of its elements that is
    uint64_t action = 0;
    uint64_t element = 0;
  };

  static std::vector<size_t> firsts(const Job& job) {
    std::vector<size_t> first = {0};
    for (const Memory& memory : job.memories) first.push_back(first.back() + memory.elements);
    return first;
  }
  const Action& action(uint32_t thread) const { return job_.threads[thread].actions[next_[thread]]; }

  // ---- words

  /// The moment for which a thread waits; null: it has not come.
  const Moment* found(const Wait& wait) const {
    const std::vector<Moment>& all = history_[wait.word];
    if (!job_.words[wait.word].counter) return all.back().value == wait.value ? &all.back() : nullptr;
    const auto at = std::lower_bound(all.begin(), all.end(), wait.value,
                                     [](const Moment& moment, uint64_t value) { return moment.value < value; });
    return at == all.end() ? nullptr : &*at;
  }

  bool act(uint32_t thread) {
    const Action& now = action(thread);
    if (!std::all_of(now.waits.begin(), now.waits.end(), [&](const Wait& wait) { return found(wait) != nullptr; }))
      return false;
    clocks_.tick(thread);
    for (const Wait& wait : now.waits) {
      check_not_early(thread, wait);
      if (const Clock& known = found(wait)->known) clocks_.learn(thread, *known);
      if (!job_.words[wait.word].counter) order(thread, flags_.read(wait.word, at(thread)), wait.word);
    }
    mark(thread, now);
    uint64_t element = 0;
    for (const Move& move : now.moves) run(thread, move, element);
    if (now.ends) end(thread);
    if (!now.sets.empty()) {
      const auto known = std::make_shared<const std::vector<uint32_t>>(clocks_.of(thread));
      for (const Set& set : now.sets) put(thread, set, known);
    }
    ++next_[thread];
    return true;
  }

  void put(uint32_t thread, const Set& set, const Clock& known) {
    const Word& word = job_.words[set.word];
    const Moment& last = history_[set.word].back();
    if (word.counter && set.value < last.value) {
      reject("{}: sets {} to {}, which was {}", words(thread), word.name, set.value, last.value);
    }
    if (word.counter && last.by.time != 0 && last.by.thread != thread) {
      reject("{}: sets {}, as {} has", words(thread), word.name, words(last.by));
    }
    if (!word.counter && set.value == last.value) {
      reject("{}: sets {} to {}, which it is already", words(thread), word.name, set.value);
    }
    if (!word.counter) order(thread, flags_.write(set.word, at(thread)), set.word);
    history_[set.word].push_back({set.value, known, at(thread)});
  }

  /// A flag may have had this value before: the thread must know that it had another one since, or it might go on then.
  void check_not_early(uint32_t thread, const Wait& wait) const {
    const std::vector<Moment>& all = history_[wait.word];
    if (job_.words[wait.word].counter || all.size() < 3) return;
    const MemoryAccess before = all[all.size() - 2].by;
    if (!clocks_.knows(thread, before)) {
      reject("{}: may wait for {} when it is still {} of an earlier time", words(thread), job_.words[wait.word].name,
             wait.value);
    }
  }

  void order(uint32_t thread, const MemoryAccess* other, uint32_t word) const {
    if (other != nullptr) {
      reject("{}: uses {} at the same time as {}", words(thread), job_.words[word].name, words(*other));
    }
  }

  // ---- elements

  /// Notes what the action writes, so that reads of the same action can be compared.
  void mark(uint32_t thread, const Action& now) {
    ++serial_;
    uint64_t element = 0;
    for (const Move& move : now.moves) {
      for (const Place& to : move.to) {
        const size_t first = locate(thread, to, move.elements);
        if (!job_.memories[to.memory].writable)
          reject("{}: writes to {}", words(thread), job_.memories[to.memory].name);
        for (uint64_t i = 0; i < move.elements; ++i) {
          if (marks_[first + i].action == serial_) reject("{}: writes {} twice", words(thread), words(to, i));
          marks_[first + i] = {serial_, element + i};
        }
      }
      element += move.elements;
    }
  }

  void run(uint32_t thread, const Move& move, uint64_t& element) {
    for (uint64_t i = 0; i < move.elements; ++i, ++element) {
      column_.clear();
      std::optional<uint32_t> position;
      bool undefined = false;
      for (const Place& from : move.from) {
        const Element read = get(thread, from, i, element);
        undefined = undefined || read.value == kUndefined;
        if (read.value == kUndefined && !move.padding) {
          reject("{}: reads {} before anything was written there", words(thread), words(from, i));
        }
        if (position && *position != read.position && !undefined) {
          reject("{}: folds elements {} and {} of a block", words(thread), *position, read.position);
        }
        position = read.position;
        column_.push_back(read.value);
      }
      Element result{kUndefined, position.value_or(0)};
      if (!undefined && !column_.empty()) result.value = fold(thread, move);
      for (const Place& to : move.to) set(thread, to, i, result);
    }
  }

  Value fold(uint32_t thread, const Move& move) {
    const Value known = forest_.end(), value = forest_.fold(move.shape, move.completes, column_);
    if (!move.completes || value < known) return value;
    if (forest_.completions(value) > 1) reject("{}: completes what was completed before", words(thread));
    if (!forest_.holds_everything(value)) {
      reject("{}: claims to complete the fold, which {}", words(thread), forest_.words_of_defect(value));
    }
    return value;
  }

  Element get(uint32_t thread, const Place& from, uint64_t i, uint64_t element) {
    const size_t place = locate(thread, from, i + 1) + i;
    if (marks_[place].action == serial_ && marks_[place].element != element) {
      reject("{}: reads {}, which it also writes as another element", words(thread), words(from, i));
    }
    if (const MemoryAccess* other = log_.read(place, at(thread))) {
      reject("{}: reads {}, which {} may be writing", words(thread), words(from, i), words(*other));
    }
    return elements_[place];
  }

  void set(uint32_t thread, const Place& to, uint64_t i, Element element) {
    const size_t place = locate(thread, to, i + 1) + i;
    if (const MemoryAccess* other = log_.write(place, at(thread))) {
      reject("{}: writes {}, which {} may be using", words(thread), words(to, i), words(*other));
    }
    elements_[place] = element;
  }

  size_t locate(uint32_t thread, const Place& place, uint64_t elements) const {
    const Memory& memory = job_.memories.at(place.memory);
    if (place.at + elements > memory.elements) reject("{}: goes beyond the end of {}", words(thread), memory.name);
    return first_[place.memory] + place.at;
  }

  // ---- calls

  uint32_t planned(Rank rank) const {
    return static_cast<uint32_t>(job_.order.planned(rank, job_.root, job_.shape.ranks));
  }
  /// The plan's block of a communicator's block.
  uint32_t block_of(uint32_t block, uint32_t blocks) const {
    return blocks > 1 ? planned(static_cast<Rank>(block)) : block;
  }
  uint32_t blocks(Buffer buffer, Rank rank) const {
    return plan::blocks(job_.shape, buffer, static_cast<Rank>(planned(rank)));
  }

  /// Calls visit(block, position, place) for each element of a buffer.
  template <class Visit>
  void each(Buffer buffer, Rank rank, const Visit& visit) const {
    const Buffers& both = job_.buffers[static_cast<size_t>(rank)];
    const Place& place = buffer == Buffer::Input ? both.in : both.out;
    const uint32_t count = blocks(buffer, rank);
    for (uint32_t block = 0; block < count; ++block) {
      for (uint64_t i = 0; i < job_.count; ++i)
        visit(block_of(block, count), i, first_[place.memory] + place.at + block * job_.count + i);
    }
  }

  /// The user fills the buffers. Each call's elements are other ones, so nothing of an earlier call is right.
  void fill(Rank rank) {
    each(Buffer::Output, rank, [&](uint32_t, uint64_t, size_t place) { elements_[place] = {}; });
    each(Buffer::Input, rank, [&](uint32_t block, uint64_t i, size_t place) {
      elements_[place] = {forest_.leaf(planned(rank), block), position(rank, i)};
    });
  }
  uint32_t position(Rank rank, uint64_t i) const {
    return static_cast<uint32_t>(calls_[static_cast<size_t>(rank)] * job_.count + i);
  }

  void end(uint32_t thread) {
    const Rank rank = job_.threads[thread].rank;
    const auto touch = [&](const char* what, size_t place) {
      if (const MemoryAccess* other = log_.write(place, at(thread))) {
        reject("rank {}: its call has ended, but {} may still use its {}", rank, words(*other), what);
      }
    };
    std::set<size_t> outputs;
    each(Buffer::Output, rank, [&](uint32_t block, uint64_t i, size_t place) {
      touch("output", place);
      check_output(rank, block, i, elements_[place]);
      if (!job_.memories[job_.buffers[static_cast<size_t>(rank)].in.memory].writable) return;
      outputs.insert(place);  // in place, it may be input too
    });
    each(Buffer::Input, rank, [&](uint32_t block, uint64_t i, size_t place) {
      touch("input", place);
      const bool kept = elements_[place].value == forest_.leaf(planned(rank), block) &&
                        elements_[place].position == position(rank, i);
      if (!kept && !outputs.contains(place)) reject("rank {}: its input block {} was written to", rank, block);
    });
    ++calls_[static_cast<size_t>(rank)];
    fill(rank);
  }

  void check_output(Rank rank, uint32_t block, uint64_t i, const Element& element) const {
    std::string fault = fault_of_output(forest_, job_.shape, planned(rank), block, element.value);
    if (fault.empty() && element.position != position(rank, i)) {
      fault = fmt::format("holds element {} of call {}", element.position % job_.count, element.position / job_.count);
    }
    if (fault.empty() && folds_ != nullptr && element.value != (*folds_)[planned(rank)][block][i]) {
      fault = "is folded in another order than the plan says";
    }
    if (!fault.empty()) reject("rank {}: element {} of the plan's output block {} {}", rank, i, block, fault);
  }

  // ---- words for people

  MemoryAccess at(uint32_t thread) const { return {thread, clocks_.time(thread)}; }
  std::string words(uint32_t thread) const { return words({thread, next_[thread] + 1}); }
  std::string words(MemoryAccess access) const {
    const Thread& thread = job_.threads[access.thread];
    const Action& action = thread.actions[access.time - 1];
    return fmt::format("{}, step {} ({})", thread.name, action.step, action.what);
  }
  std::string words(const Place& place, uint64_t i) const {
    return fmt::format("element {} of {}", place.at + i, job_.memories[place.memory].name);
  }
  [[noreturn]] void reject_stuck(uint32_t thread) const {
    for (const Wait& wait : action(thread).waits) {
      if (found(wait) != nullptr) continue;
      reject("{}: waits for ever until {} is {}", words(thread), job_.words[wait.word].name, wait.value);
    }
    reject("{}: never runs", words(thread));
  }

  const Job& job_;
  Forest& forest_;
  const ExpectedFolds* const folds_;
  Clocks clocks_;
  const std::vector<size_t> first_;  // place of each memory's first element
  std::vector<Element> elements_;
  std::vector<Mark> marks_;
  AccessLog log_, flags_;
  std::vector<std::vector<Moment>> history_;  // by word
  std::vector<uint32_t> next_;                // by thread: its next action
  std::vector<uint64_t> calls_;               // by rank, that have ended
  std::vector<Value> column_;
  uint64_t serial_ = 0;
};

Forest forest_of(const plan::Shape& shape) {
  return {static_cast<uint32_t>(shape.ranks), plan::blocks(shape, Buffer::Input, 0)};
}

}  // namespace

plan::Verdict prove(const Job& job) {
  return plan::verifier::verdict_of([&] {
    Forest forest = forest_of(job.shape);
    Run(job, forest, nullptr).run();
  });
}

plan::Verdict prove(std::span<const plan::RankPlan> plans, const CallCase& how, std::vector<exec::Program> programs) {
  return plan::verifier::verdict_of([&] {
    Forest forest = forest_of(plans.front().shape);
    const bool in_order = reduces(plans.front().shape.collective) && !(*how.geometry.method == exec::methods::nvls);
    const ExpectedFolds folds = in_order ? folds_of(plans, how, forest) : ExpectedFolds();
    Run(job_of(plans, how, std::move(programs)), forest, in_order ? &folds : nullptr).run();
  });
}

plan::Verdict prove(std::span<const plan::RankPlan> plans, const CallCase& how) {
  return prove(plans, how, lower_all(plans, how));
}

}  // namespace tutti::proof
