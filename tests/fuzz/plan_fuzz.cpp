// Plans from outside, as texts: reading and verifying any input ends properly; and verified plans give correct results
// when run with numbers, in random order, by an executor that shares no code with the verifier.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "plan/json.hpp"
#include "plan/verify.hpp"
#include "plan/words.hpp"
#include "support/random_executor.hpp"
#include "tutti/error.hpp"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tutti {
namespace {

constexpr size_t kMaxSteps = 2000;  // of all ranks: running more of them with numbers takes too long

[[noreturn]] void defect(const std::string& what) {
  std::fprintf(stderr, "defect: %s\n", what.c_str());
  std::abort();
}

size_t steps_of(const std::vector<plan::RankPlan>& plans) {
  size_t steps = 0;
  for (const plan::RankPlan& plan : plans) steps += plan.steps.size();
  return steps;
}

void run_on_numbers(const std::vector<plan::RankPlan>& plans) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const bool in_place = seed % 2 == 0 && plans.front().shape.collective != Collective::AllToAll;
    const std::string wrong =
        test::run_in_random_order(plans, {.seed = seed, .windows = {12, 5}, .in_place = in_place});
    if (!wrong.empty()) defect("proven, but wrong on numbers: " + wrong);
  }
}

void look_at(std::string_view text) {
  const plan::PlanSet set = plan::from_json(text, plan::Proof::Omit);
  const std::string written = plan::to_json(set.plans, set.name);
  if (plan::from_json(written, plan::Proof::Omit).plans != set.plans) defect("written and read, it is another plan");
  if (!plan::verify(set.plans)) return;
  const plan::Counted counted = plan::count(set.plans);
  if (counted.cost.rounds < 0) defect("it takes a negative number of rounds");
  for (const plan::RankPlan& plan : set.plans) {
    for (const plan::Step& step : plan.steps) plan::in_words(plan, step);
  }
  if (steps_of(set.plans) <= kMaxSteps) run_on_numbers(set.plans);
}

/// All scalar values of a document: numbers, texts, booleans.
void leaves_of(nlohmann::json& value, std::vector<nlohmann::json*>& leaves) {
  if (!value.is_structured()) return leaves.push_back(&value);
  for (auto& part : value) leaves_of(part, leaves);
}

/// A list or object of the document, if it has any.
void lists_of(nlohmann::json& value, std::vector<nlohmann::json*>& lists) {
  if (value.is_array() && !value.empty()) lists.push_back(&value);
  if (value.is_structured()) {
    for (auto& part : value) lists_of(part, lists);
  }
}

/// One change that keeps it valid JSON: another number, close or far; or a list's entry removed, duplicated or moved.
void change(nlohmann::json& document, std::mt19937& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::vector<nlohmann::json*> leaves, lists;
  leaves_of(document, leaves);
  lists_of(document, lists);
  if (!lists.empty() && below(2) == 0) {
    nlohmann::json& list = *lists[below(lists.size())];
    const size_t a = below(list.size()), b = below(list.size());
    if (below(3) == 0) return list.erase(a), void();
    if (below(2) == 0) return list.push_back(nlohmann::json(list[a]));
    return std::swap(list[a], list[b]);
  }
  if (leaves.empty()) return;
  nlohmann::json &leaf = *leaves[below(leaves.size())], &other = *leaves[below(leaves.size())];
  if (!leaf.is_number_unsigned() || below(4) == 0) return std::swap(leaf, other);
  constexpr uint32_t kFar[] = {0, 0x7fffffff, 0xffffffff, 1 << 20, 16384, 64};
  const auto near = leaf.get<uint32_t>() + static_cast<uint32_t>(below(3)) - 1;
  leaf = below(8) == 0 ? kFar[below(std::size(kFar))] : near;
}

}  // namespace
}  // namespace tutti

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::mt19937 random(seed);
  auto document = nlohmann::json::parse(data, data + size, nullptr, false);
  if (document.is_discarded() || random() % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  for (auto changes = 1 + random() % 3; changes > 0; --changes) tutti::change(document, random);
  const std::string text = document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    tutti::look_at({reinterpret_cast<const char*>(data), size});
  } catch (const tutti::Error& error) {
    const std::string_view what = error.what();
    if (what.empty() || what.size() > 2000) tutti::defect("an error that does not help: " + std::string(what));
    if (error.code() != tutti::Code::InvalidArgument && error.code() != tutti::Code::Unsupported) {
      tutti::defect("an error of another kind: " + std::string(what));
    }
  }
  return 0;
}
