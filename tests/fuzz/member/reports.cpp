#include "fuzz/member/reports.hpp"

#include <nlohmann/json.hpp>

#include "plan/algorithm.hpp"

namespace tutti::fuzz {
namespace {

using nlohmann::json;

json report(const transports::Word& word) {
  return {{"plans", json::object()},
          {"staging", 65536},
          {"longest", 65536},
          {"inside", {1e-6, 1e-10, true}},
          {"between", {1e-6, 1e-10, true}},
          {"unreachable", ""},
          {"word", {word.at, word.value}},
          {"cores", "0-1"},
          {"arena", 131072},
          {"routes", {{"between hosts", "tcp"}}},
          {"name", "elsewhere"},
          {"boot", ""}};
}

json conclusion(const std::string& table) {
  return {{"reading", 1}, {"oversubscribed", false}, {"shifts", {2, 2, 2, 0}}, {"table", table}};
}

/// A row for each collective, with `algorithm` if the collective has it.
std::string table(const std::string& algorithm, const json& below, const json& window) {
  json rows = json::array();
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    const auto known = plan::algorithms_of(collective);
    if (known.empty()) continue;
    const bool named = plan::find_algorithm(collective, algorithm) != nullptr;
    rows.push_back({name_of(collective), below, named ? algorithm : known.front()->name, window});
  }
  return rows.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// A JSON number of any kind.
json some_number(Words& words) {
  constexpr std::array<double, 6> kOdd{0, -1, 1e300, -1e300, 0.5, 1e-300};
  const uint8_t which = words.byte();
  if (which < 100) return words.number();
  if (which < 200) return kOdd[which % kOdd.size()];
  return std::string(1 + which % 4, '[');
}

}  // namespace

std::string honest_report(const transports::Word& word) { return report(word).dump(); }
std::string honest_verdict() { return conclusion(table("one_shot", UINT64_MAX, 4096)).dump(); }

std::string hostile_report(Words& words, const transports::Word& word) {
  json said = report(word);
  switch (words.byte() % 8) {
    case 0:
      return words.text();
    case 1:
      return honest_report(word);
    case 2:
      return honest_verdict();
    case 3: {
      const std::string algorithm = words.one_of({"ring", "one_shot", "recursive_doubling", "linear"}, 64);
      const json below = some_number(words), window = some_number(words);
      said = conclusion(table(algorithm, below, window));
      break;
    }
    case 4: {
      const std::string which =
          words.one_of({"staging", "longest", "cores", "plans", "arena", "name", "word", "routes", "boot"}, 64);
      said[which] = some_number(words);
      break;
    }
    case 5: {
      const char* const which = words.byte() % 2 == 0 ? "inside" : "between";
      const json alpha = some_number(words), beta = some_number(words);
      said[which] = {alpha, beta, true};
      break;
    }
    case 6: {  // deep
      const auto depth = static_cast<size_t>(words.byte()) << 12U;
      return "{\"plans\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
    }
    default:
      said = conclusion(words.text());
      said["reading"] = some_number(words);
  }
  return said.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace tutti::fuzz
