// From text to plans.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fd.hpp"
#include "base/file_kind.hpp"
#include "plan/json.hpp"
#include "plan/json/stream.hpp"
#include "plan/names.hpp"
#include "plan/verify.hpp"
#include "plan/verify/structure.hpp"

namespace tutti::plan {
namespace {

using json_text::Node;

/// Line ends and tabs, which the JSON reader quotes in its messages as nine bytes each.
constexpr ptrdiff_t kMaxControls = 8 << 20;

class Reader final : public json_text::Stream {
 public:
  PlanSet set() { return std::move(set_); }

 private:
  /// Levels of nesting: /plans/RANK/lanes/LANE/STEP.
  enum Depth : size_t { kDocument, kHead, kPlan, kPart, kLane, kStep };

  bool take(const Node& value) override {
    switch (depth()) {
      case kDocument:
        finish(value);
        return true;
      case kHead:
        if (by_key(0, "format") && value.text() != kFormat) value.wrong("the format is \"{}\"", kFormat);
        if (by_key(0, "version")) value.number(kVersion, kVersion);
        return false;
      case kPlan:
        if (!by_key(0, "plans") || !by_index(1)) return false;
        finish_plan(value);
        return true;
      case kLane:
        if (!in_lanes()) return false;
        finish_lane(value);
        return true;
      case kStep:
        if (!in_lanes() || !by_index(4)) return false;
        add_step(value);
        return true;
      default:
        return false;
    }
  }

  bool in_lanes() const {
    return by_key(0, "plans") && by_index(1) && !by_index(2) && by_key(2, "lanes") && by_index(3);
  }

  void add_step(const Node& node) {
    node.object({"do", "pieces", "peers", "operands", "shape", "completes", "lend", "after"});
    Step step;
    step.kind = static_cast<StepKind>(node.at("do").word(kKinds));
    if (const auto shape = node.find("shape")) step.shape = static_cast<FoldShape>(shape->word(kShapes));
    if (const auto completes = node.find("completes")) step.completes = completes->truth();
    if (const auto lend = node.find("lend")) step.lend = static_cast<Lend>(lend->word(kLends));
    if (const auto pieces = node.find("pieces")) step.pieces = pieces_of(*pieces);
    step.peers.begin = size_of(plan_.peers);
    if (const auto peers = node.find("peers")) {
      for (size_t i = 0, count = peers->list(); i < count; ++i) plan_.peers.push_back(rank_of((*peers)[i]));
    }
    step.peers.end = size_of(plan_.peers);
    step.operands.begin = size_of(plan_.operands);
    if (const auto operands = node.find("operands")) {
      for (size_t i = 0, count = operands->list(); i < count; ++i) add_operand((*operands)[i]);
    }
    step.operands.end = size_of(plan_.operands);
    if (const auto after = node.find("after")) {
      after->list_of(2, "two numbers (lane, step of that lane)");
      waits_.push_back({size_of(plan_.steps), (*after)[0].number(), (*after)[1].number()});
    }
    plan_.steps.push_back(step);
  }

  Range pieces_of(const Node& list) {
    Range range{size_of(plan_.pieces), 0};
    for (size_t i = 0, count = list.list(); i < count; ++i) {
      const Node piece = list[i];
      piece.list_of(5, "five entries (buffer, block, partition, first chunk, last chunk + 1)");
      plan_.pieces.push_back({static_cast<Buffer>(piece[0].word(kBufferNames)), piece[1].number(), piece[2].number(),
                              piece[3].number(), piece[4].number()});
    }
    range.end = size_of(plan_.pieces);
    return range;
  }

  void add_operand(const Node& operand) {
    const bool local = operand.is_list();  // else the rank that sends the message
    const Range pieces = local ? pieces_of(operand) : Range{size_of(plan_.pieces), size_of(plan_.pieces)};
    plan_.operands.push_back({local ? kNoRank : rank_of(operand), pieces});
  }

  void finish_lane(const Node& node) {
    node.list();
    if (plan_.lanes.size() == verifier::kMaxLanes) node.wrong("over {} lanes of a rank", verifier::kMaxLanes);
    plan_.lanes.push_back({{plan_.lanes.empty() ? 0 : plan_.lanes.back().steps.end, size_of(plan_.steps)}});
  }

  void finish_plan(const Node& node) {
    node.object({"rank", "scratch", "partitions", "lanes"});
    node.at("lanes").list();
    const auto rank = static_cast<uint32_t>(set_.plans.size());
    if (rank == verifier::kMaxRanks) node.wrong("plans of over {} ranks", verifier::kMaxRanks);
    plan_.rank = static_cast<Rank>(node.at("rank").number(rank, rank));
    if (const auto scratch = node.find("scratch")) plan_.scratch_blocks = scratch->number();
    const Node partitions = node.at("partitions");
    for (size_t i = 0, count = partitions.list(); i < count; ++i) add_partition(partitions[i]);
    for (const Wait& wait : waits_) resolve(wait, node);
    waits_.clear();
    set_.plans.push_back(std::exchange(plan_, {}));
  }

  void add_partition(const Node& node) {
    if (!node.is_list()) return plan_.partitions.push_back({node.number(1, verifier::kMaxParts), kNone});
    const size_t bounds = node.list();
    if (bounds < 2 || bounds > verifier::kMaxParts) {
      node.wrong("{} bounds; a partition has 2 to {}, from [0, 1] to [1, 1]", bounds, verifier::kMaxParts);
    }
    plan_.partitions.push_back({static_cast<uint32_t>(bounds - 1), size_of(plan_.fractions)});
    for (size_t i = 0; i < bounds; ++i) {
      const Node bound = node[i];
      bound.list_of(2, "two numbers (numerator, denominator)");
      plan_.fractions.push_back({bound[0].number(), bound[1].number(1)});
    }
  }

  /// `after` names a step by its lane and its index there; the tables count all steps.
  struct Wait {
    uint32_t step = 0, lane = 0, index = 0;
  };
  void resolve(const Wait& wait, const Node& plan) {
    if (wait.lane >= plan_.lanes.size() || wait.index >= plan_.lanes[wait.lane].steps.size()) {
      const auto own = std::find_if(plan_.lanes.begin(), plan_.lanes.end(),
                                    [&](const Lane& lane) { return wait.step < lane.steps.end; });
      plan.wrong("lane {}, step {}: it comes after lane {}, step {}, which is not there", own - plan_.lanes.begin(),
                 wait.step - own->steps.begin, wait.lane, wait.index);
    }
    plan_.steps[wait.step].after = plan_.lanes[wait.lane].steps.begin + wait.index;
  }

  void finish(const Node& node) {
    node.object({"format", "version", "name", "collective", "ranks", "grain", "plans"});
    node.at("format");  // checked when they were read
    node.at("version");
    if (const auto name = node.find("name")) set_.name = name_of(*name);
    std::vector<const char*> collectives;
    for (int c = 0; c < kCollectives; ++c) collectives.push_back(tutti::name_of(static_cast<Collective>(c)));
    const auto collective = static_cast<Collective>(node.at("collective").word(collectives));
    const auto ranks = static_cast<Rank>(node.at("ranks").number(1, verifier::kMaxRanks));
    const uint32_t grain = node.at("grain").number(1);
    node.at("plans").list();
    if (set_.plans.size() != static_cast<size_t>(ranks)) {
      node.wrong("there are plans of {} ranks, where \"ranks\" is {}", set_.plans.size(), ranks);
    }
    for (RankPlan& plan : set_.plans) {
      plan.shape = {collective, ranks};
      plan.grain = grain;
    }
  }

  static std::string name_of(const Node& node) {
    const std::string& name = node.text();
    const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (!printable || name.size() > kMaxPlanName) {
      node.wrong("a name has at most {} characters, all printable ASCII", kMaxPlanName);
    }
    return name;
  }

  static Rank rank_of(const Node& node) { return static_cast<Rank>(node.number(0, verifier::kMaxRanks - 1)); }
  template <class T>
  static uint32_t size_of(const std::vector<T>& table) {  // the text is too short for 2^32 entries
    return static_cast<uint32_t>(table.size());
  }

  PlanSet set_;
  RankPlan plan_;  // the plan being read
  std::vector<Wait> waits_;
};

std::string contents(const std::string& path) {
  // O_NONBLOCK: opening a named pipe without a writer would block.
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file || fstat(file.get(), &about) != 0) throw_error(Code::SystemError, "{}: {}", path, std::strerror(errno));
  if (!S_ISREG(about.st_mode)) throw_error(Code::InvalidArgument, "{}: this is not a regular file", path);
  std::string text(std::min<size_t>(static_cast<size_t>(about.st_size), kMaxPlanText) + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_error(Code::SystemError, "{}: {}", path, std::strerror(errno));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

}  // namespace

PlanSet from_json(std::string_view text, Proof proof) {
  if (text.size() > kMaxPlanText) {
    throw_error(Code::InvalidArgument, "plans take over {} MiB of text; that is the most that is read",
                kMaxPlanText >> 20);
  }
  if (std::count_if(text.begin(), text.end(), [](char c) { return c >= 0 && c < ' '; }) > kMaxControls) {
    throw_error(Code::InvalidArgument, "over {} line ends and tabs; write more in a line", kMaxControls);
  }
  Reader reader;
  reader.read(text);
  PlanSet set = reader.set();
  if (proof == Proof::Omit) return set;
  if (const Verdict verdict = verify(set.plans); verdict.too_large) {
    throw_error(Code::Unsupported, "{}", verdict.reason);
  } else if (!verdict) {
    throw_error(Code::InvalidArgument, "the plans are wrong: {}", verdict.reason);
  }
  return set;
}

PlanSet load_plans(const std::string& path, Proof proof) {
  const std::string text = contents(path);
  check_kind_of_file(text, path, kFormat, "a plan (`tutti plan export` or `tutti plan synth -o`)");
  try {
    return from_json(text, proof);
  } catch (const Error& error) {
    throw_error(error.code(), "{}: {}", path, error.what());
  }
}

}  // namespace tutti::plan
