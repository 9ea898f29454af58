#include "attack/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "attack/play.hpp"

namespace tutti::attack {
namespace {

constexpr double kMismatchSeconds = 10;  // a mismatch is found when a waiting rank compares call boards
constexpr double kDeathSeconds = 5;      // under load; an idle machine takes less than 1

constexpr const char* kLeft = "left after";  // what follows a rank's last call; or the error names its destroy()

bool ends_process(Fault fault) { return fault == Fault::Exit || fault == Fault::Kill || fault == Fault::Stop; }

class Judge {
 public:
  Judge(const Program& program, const Outcome& outcome) : program_(program), outcome_(outcome) {
    const Line& line = program.lines[program.at];
    hurt_ = members(program, line.slot, program.culprit);
    slot_ = line.slot;
    std::tie(usual_, odd_) = first_difference();
  }

  std::vector<Finding> all() {
    if (outcome_.hung) add("hang", "it did not end");
    for (size_t p = 0; p < outcome_.exits.size(); ++p) {
      if (outcome_.exits[p] != 0 && !expected_end(static_cast<int>(p)))
        add("crash", fmt::format("process {} ended with {}", p, outcome_.exits[p]));
    }
    for (int rank = 0; rank < program_.ranks; ++rank) judge_rank(rank);
    return findings_;
  }

 private:
  void add(const char* kind, std::string text) { findings_.push_back({kind, std::move(text)}); }

  bool is_culprits(int rank) const {
    return program_.process_of[static_cast<size_t>(rank)] == program_.process_of[static_cast<size_t>(program_.culprit)];
  }
  bool expected_end(int process) const {
    return ends_process(program_.fault) && process == program_.process_of[static_cast<size_t>(program_.culprit)];
  }

  /// What the culprit's communicator sees of its calls and of the others', where they first differ; both empty if they
  /// do not.
  std::pair<std::string, std::string> first_difference() const {
    const auto on_slot = [&](const std::vector<Line>& lines) {
      std::vector<std::string> calls;
      for (const Line& line : lines) {
        if (line.slot == slot_ && line.act == Line::Act::Make) calls.push_back(key(line));
        if (line.slot == slot_ && line.act == Line::Act::Destroy) break;
      }
      calls.emplace_back(kLeft);
      return calls;
    };
    const auto usual = on_slot(program_.lines), odd = on_slot(lines_of(program_, program_.culprit));
    for (size_t i = 0; i < std::min(usual.size(), odd.size()); ++i) {
      if (usual[i] != odd[i]) return {usual[i], odd[i]};
    }
    return {};
  }
  std::string key(const Line& line) const {
    Line same = line;
    same.root = line.root % static_cast<int>(std::max<size_t>(1, hurt_.size()));
    std::string text = describe(same);
    if (text.ends_with("root=")) text += std::to_string(same.root) + ")";
    if (line.call >= Call::AllGatherV && line.call <= Call::AllToAllV) text += fmt::format("#{}", line.count);
    return text;
  }

  /// True if other ranks can notice the fault.
  bool harmless() const {
    if (program_.fault == Fault::None || program_.fault == Fault::Delay) return true;
    if (ends_process(program_.fault) || program_.fault == Fault::Abort) return false;
    return usual_.empty() || hurt_.size() < 2;
  }

  /// Transfers have links of their own: in another order with a collective, all may still receive what they should.
  bool may_be_served() const {
    return program_.fault == Fault::Swap && (usual_.starts_with("(") || odd_.starts_with("("));
  }

  /// Two equal calls in another order: no rank can notice, and each gets the other's data.
  bool swaps_equals() const { return program_.fault == Fault::Swap && usual_.empty(); }

  bool touches(int slot, int rank) const {
    const auto us = members(program_, slot, rank);
    if (ends_process(program_.fault))
      return std::any_of(us.begin(), us.end(), [&](int other) { return is_culprits(other); });
    return slot == slot_ && std::find(hurt_.begin(), hurt_.end(), rank) != hurt_.end();
  }

  void judge_rank(int rank) {
    const auto& story = outcome_.results[static_cast<size_t>(rank)];
    const auto lines = lines_of(program_, rank);
    if (ends_process(program_.fault) && is_culprits(rank)) return;
    bool heard = false;
    const int slots = static_cast<int>(program_.colours.size());
    for (const LineResult& report : story) {
      if (report.code == kWrongData && !(touched_line(report.index, lines, rank) && (!harmless() || swaps_equals())))
        add("data", fmt::format("rank {} got wrong data from line {}", rank, report.index));
      if (report.code == tuttiSuccess || report.code == kWrongData) continue;
      const int slot = slot_of(report.index, lines, slots);
      if (reported_late(report, rank)) {
        heard = true;
        continue;
      }
      if (!harmless() && is_circle(report)) {
        heard = true;
        continue;
      }
      if (harmless() || !touches(slot, rank)) {
        add("alarm", fmt::format("rank {} line {}: {} {}", rank, report.index, report.code, report.text));
        continue;
      }
      if (!heard) judge_error(rank, report);
      heard = true;
    }
    // A rank whose calls all completed before another died or aborted has nothing to report.
    const bool must_hear = !harmless() && !may_be_served() && expected_code() == tuttiMismatch && touches(slot_, rank);
    if (must_hear && !heard && !outcome_.hung && !process_heard(rank))
      add("silent", fmt::format("rank {} heard of nothing", rank));
    const auto report = static_cast<size_t>(
        std::count_if(story.begin(), story.end(), [](const LineResult& t) { return t.index >= 0; }));
    if (!outcome_.hung && report != lines.size() + static_cast<size_t>(slots) + 1)
      add("crash", fmt::format("rank {} told of {} lines of {}", rank, report, lines.size()));
  }

  /// A cycle of waits that the fault has closed; it may run through communicators that the fault does not touch. If it
  /// includes transfers over a wire, messages may be in flight, so it is not certain: then the text of a time-out
  /// contains it. Ranks that time out in the same moment may find that others wait no more.
  bool is_circle(const LineResult& report) const {
    if (report.code == tuttiMismatch) return report.text.find("ranks wait for each other") != std::string::npos;
    if (report.code != tuttiTimeout || program_.transport == "local" || program_.transport == "shm") return false;
    return std::any_of(outcome_.results.begin(), outcome_.results.end(), [](const auto& story) {
      return std::any_of(story.begin(), story.end(), [](const LineResult& other) {
        return other.code == tuttiTimeout && other.text.find("in a group of") != std::string::npos &&
               other.text.find("it waits") != std::string::npos;
      });
    });
  }
  /// A rank that has left learns of it when its process leaves its last communicator.
  bool reported_late(const LineResult& report, int rank) const {
    bool concerned = false;  // any rank of the process
    for (int other = 0; other < program_.ranks; ++other) {
      concerned = concerned || (touches(slot_, other) && program_.process_of[static_cast<size_t>(other)] ==
                                                             program_.process_of[static_cast<size_t>(rank)]);
    }
    return !harmless() && concerned && report.code == tuttiMismatch &&
           report.text.find("that was left before") != std::string::npos;
  }
  /// A process gets one report, when it leaves its last communicator.
  bool process_heard(int rank) const {
    for (int other = 0; other < program_.ranks; ++other) {
      const auto& story = outcome_.results[static_cast<size_t>(other)];
      if (program_.process_of[static_cast<size_t>(other)] == program_.process_of[static_cast<size_t>(rank)] &&
          std::any_of(story.begin(), story.end(),
                      [&](const LineResult& report) { return report.code == tuttiMismatch; }))
        return true;
    }
    return false;
  }

  static int slot_of(int index, const std::vector<Line>& lines, int slots) {
    if (index < 0) return 0;
    const auto i = static_cast<size_t>(index);
    return i < lines.size() ? lines[i].slot : slots - static_cast<int>(i - lines.size());
  }
  bool touched_line(int index, const std::vector<Line>& lines, int rank) const {
    return index >= 0 && static_cast<size_t>(index) < lines.size() &&
           touches(lines[static_cast<size_t>(index)].slot, rank);
  }

  int expected_code() const {
    if (ends_process(program_.fault)) return tuttiPeerFailed;
    return program_.fault == Fault::Abort ? tuttiAborted : tuttiMismatch;
  }

  void judge_error(int rank, const LineResult& report) {
    const std::string where = fmt::format("rank {} line {} ({:.1f} s): code {} {}", rank, report.index, report.seconds,
                                          report.code, report.text);
    if (report.code != expected_code()) return add("code", where);
    const double limit = expected_code() == tuttiMismatch ? kMismatchSeconds : kDeathSeconds;
    if (report.seconds > limit) add("slow", where);
    if (program_.fault == Fault::Abort) return;
    bool named = false;  // ranks are renumbered in a split
    const auto& us = hurt_;
    for (const int other : us) {
      const bool guilty = ends_process(program_.fault) ? is_culprits(other) : other == program_.culprit;
      const auto number = std::find(us.begin(), us.end(), other) - us.begin();
      named = named ||
              (guilty && (report.text.find(fmt::format("rank {} ", slot_ == 0 ? other : number)) != std::string::npos));
    }
    if (!named && !ends_process(program_.fault)) add("unnamed", where);
    if (expected_code() != tuttiMismatch) return;
    const auto holds = [&](const std::string& call) {
      if (call == kLeft && report.text.find("called destroy()") != std::string::npos) return true;
      return report.text.find(call.substr(0, call.find('#'))) != std::string::npos;
    };
    if (!holds(usual_) || !holds(odd_)) add("inexact", fmt::format("{} | where {} and {} differ", where, usual_, odd_));
  }

  const Program& program_;
  const Outcome& outcome_;
  std::vector<int> hurt_;  // the ranks of the communicator with the fault
  int slot_ = 0;
  std::string usual_, odd_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> judge(const Program& program, const Outcome& outcome) { return Judge(program, outcome).all(); }

}  // namespace tutti::attack
