#include "select/synthesised.hpp"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/format.hpp"
#include "base/printable.hpp"
#include "base/shallow_json.hpp"
#include "plan/json.hpp"
#include "plan/verify.hpp"
#include "select/profile.hpp"

namespace tutti::select {
namespace {

using nlohmann::json;

constexpr const char* kTextFormat = "tutti-synthesised";
constexpr int kTextVersion = 1;
constexpr size_t kMaxWords = 1000, kMaxPlans = 64;

[[noreturn]] void wrong(const std::string& why) { throw Error(Code::InvalidArgument, why); }

std::string_view without_hash(std::string_view name) { return name.substr(0, name.find('@')); }

json json_of(const KnownBound& bound) {
  return {{"seconds_per_byte", bound.seconds_per_byte},
          {"seconds", bound.seconds},
          {"exact", bound.exact},
          {"words", bound.words}};
}

KnownBound bound_from(const json& object) {
  KnownBound bound{.seconds_per_byte = object.at("seconds_per_byte"),
                   .seconds = object.at("seconds"),
                   .exact = object.at("exact"),
                   .words = printable(object.at("words").get<std::string>().substr(0, kMaxWords))};
  for (const double figure : {bound.seconds_per_byte, bound.seconds}) {
    if (!std::isfinite(figure) || figure < 0) wrong("a bound is not a time");
  }
  return bound;
}

/// What a process spends on proofs, in work_of(). 64 GPUs of 16 odd hosts take 1.7e8, which are 2 to 5 s.
constexpr double kMaxWork = 2e9;

/// What a proof takes, as the tables' sizes tell: clocks of all lanes at each step, and the chunks of each piece.
double work_of(const std::vector<plan::RankPlan>& plans) {
  double steps = 0, lanes = 0, pieces = 0, parts = 0;
  for (const plan::RankPlan& plan : plans) {
    steps += static_cast<double>(plan.steps.size());
    lanes += static_cast<double>(plan.lanes.size());
    pieces += static_cast<double>(plan.pieces.size());
    for (const plan::Partition& partition : plan.partitions) parts += partition.parts;
  }
  return steps * lanes + pieces * parts;
}

/// Not proven. `work`: of all plans until now.
plan::PlanSet unproven(const std::string& text, Rank ranks, double& work) {
  plan::PlanSet set = plan::from_json(text, plan::Proof::Omit);
  if (!is_synthesised(set.name)) wrong("a plan has the name of no synthesised one");
  if (set.plans.size() != static_cast<size_t>(ranks)) {
    wrong(fmt::format("{} is for {} ranks, where there are {}", set.name, set.plans.size(), ranks));
  }
  work += work_of(set.plans);
  if (work > kMaxWork) {
    wrong(fmt::format("proving them takes {:.1f} times the work that communicators spend on it", work / kMaxWork));
  }
  return set;
}

std::shared_ptr<const Synthesised> parse(const std::string& text, std::optional<uint64_t> key, Rank ranks,
                                         std::optional<Deadline> give_up) {
  const json page = parse_shallow_json(text);
  if (!page.is_object() || page.value("format", "") != kTextFormat || page.value("version", 0) != kTextVersion) {
    wrong(fmt::format("it is not of the format {}, version {}", kTextFormat, kTextVersion));
  }
  const auto its = page.at("key").get<std::string>();
  if (key && its != text_of_key(*key)) wrong(fmt::format("it is of the machine and ranks {}", printable(its)));
  if (whole_number(page.at("ranks")) != static_cast<uint64_t>(ranks)) {
    wrong(fmt::format("it is for {} ranks, where there are {}", whole_number(page.at("ranks")), ranks));
  }
  if (page.at("plans").size() > kMaxPlans) wrong(fmt::format("it has more than {} plans", kMaxPlans));
  auto read = std::make_shared<Synthesised>();
  for (const auto& [name, bound] : page.at("bounds").items()) read->bounds[collective_named(name)] = bound_from(bound);
  double work = 0;
  for (const json& plan : page.at("plans")) {
    plan::PlanSet set = unproven(plan.get_ref<const std::string&>(), ranks, work);
    const plan::Algorithm& algorithm = plan::adopt(set.name, std::move(set.plans));
    if (read->find(algorithm.collective, without_hash(algorithm.name)) != nullptr) {
      wrong(fmt::format("it has two plans {} for {}", without_hash(algorithm.name), name_of(algorithm.collective)));
    }
    read->algorithms.push_back(&algorithm);
    if (give_up && give_up->passed()) {
      throw Error(Code::Timeout,
                  "proving them takes too long: every rank does it while a communicator is made, which "
                  "has TUTTI_INIT_TIMEOUT for all");
    }
  }
  read->text = text;
  return read;
}

/// What became of a text in this process.
struct Outcome {
  std::optional<uint64_t> key;
  Rank ranks = 0;
  std::shared_ptr<const Synthesised> plans;  // null: it was refused
  std::string refused;                       // the text
  std::string why;
  bool too_slow = false;  // refused for that: it may be right
  const std::string& text() const { return plans == nullptr ? refused : plans->text; }
};

Outcome outcome_of(const std::string& text, std::optional<uint64_t> key, Rank ranks, std::optional<Deadline> give_up) {
  Outcome outcome{.key = key, .ranks = ranks, .plans = nullptr, .refused = "", .why = ""};
  try {
    outcome.plans = parse(text, key, ranks, give_up);
    return outcome;
  } catch (const json::exception& error) {
    constexpr size_t kMost = 200;  // more is the text itself
    outcome.why = fmt::format("it is damaged ({})", printable(std::string(error.what()).substr(0, kMost)));
  } catch (const Error& error) {
    outcome.why = error.what();
    outcome.too_slow = error.code() == Code::Timeout;
  }
  outcome.refused = text;
  return outcome;
}

/// Those of all texts that were read, and of the last ones that were refused: a text is proven, or refused, once.
class Outcomes {
 public:
  static Outcomes& get() {
    static auto* const kOutcomes = new Outcomes;  // plans that were adopted stay for as long
    return *kOutcomes;
  }

  /// Null: not known. What took too long before is no answer for a reader who does not give up.
  const Outcome* find(std::optional<uint64_t> key, Rank ranks, const std::string& text, bool gives_up) const {
    const auto is_it = [&](const Outcome& one) {
      return one.key == key && one.ranks == ranks && one.text() == text && (gives_up || !one.too_slow);
    };
    const auto found = std::find_if(all_.begin(), all_.end(), is_it);
    return found == all_.end() ? nullptr : &*found;
  }

  const Outcome& keep(Outcome outcome) {
    std::erase_if(all_, [&](const Outcome& one) {  // that took too long
      return one.key == outcome.key && one.ranks == outcome.ranks && one.text() == outcome.text();
    });
    constexpr auto kMaxRefused = 8;  // a peer may send any number of them
    const auto is_refused = [](const Outcome& one) { return one.plans == nullptr; };
    if (std::count_if(all_.begin(), all_.end(), is_refused) >= kMaxRefused) {
      all_.erase(std::find_if(all_.begin(), all_.end(), is_refused));
    }
    return all_.emplace_back(std::move(outcome));
  }

  std::mutex mutex;  ///< held by whoever uses it

 private:
  std::list<Outcome> all_;  // the oldest first
};

}  // namespace

double KnownBound::of(uint64_t bytes) const { return std::max(seconds, seconds_per_byte * static_cast<double>(bytes)); }

bool is_synthesised(std::string_view algorithm) {
  const std::string_view name = without_hash(algorithm);
  return name == kSynthesised || name.starts_with("synth_");
}

const plan::Algorithm* Synthesised::find(Collective collective, std::string_view name) const {
  for (const plan::Algorithm* const a : algorithms) {
    if (a->collective == collective && (name == a->name || name == without_hash(a->name))) return a;
  }
  return nullptr;
}

std::string to_text(const SynthesisedText& page) {
  json bounds = json::object();
  for (const auto& [collective, bound] : page.bounds) bounds[name_of(collective)] = json_of(bound);
  return json{{"format", kTextFormat}, {"version", kTextVersion}, {"key", text_of_key(page.key)},
              {"ranks", page.ranks},   {"bounds", bounds},        {"plans", page.plans}}
             .dump() +
         "\n";
}

std::shared_ptr<const Synthesised> read_synthesised(const std::string& text, std::optional<uint64_t> key, Rank ranks,
                                                    std::optional<Deadline> give_up) {
  Outcomes& outcomes = Outcomes::get();
  const std::lock_guard lock(outcomes.mutex);  // ranks that are threads wait for the first one's proof
  const Outcome* known = outcomes.find(key, ranks, text, give_up.has_value());
  if (known == nullptr) known = &outcomes.keep(outcome_of(text, key, ranks, give_up));
  if (known->plans == nullptr) throw Error(known->too_slow ? Code::Timeout : Code::InvalidArgument, known->why);
  return known->plans;
}

bool was_refused(const std::string& text, uint64_t key, Rank ranks) {
  const std::lock_guard lock(Outcomes::get().mutex);
  const Outcome* const known = Outcomes::get().find(key, ranks, text, false);
  return known != nullptr && known->plans == nullptr;
}

void prove(const SynthesisedText& page) {
  double work = 0;
  for (const std::string& text : page.plans) plan::count(unproven(text, page.ranks, work).plans);
}

}  // namespace tutti::select
