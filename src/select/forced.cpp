#include "select/forced.hpp"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/spelling.hpp"
#include "exec/method.hpp"
#include "plan/algorithm.hpp"
#include "select/synthesised.hpp"

namespace tutti::select {
namespace {

/// The parts of a list with commas. An empty text has none.
std::vector<std::string> items_of(const std::string& text) {
  std::vector<std::string> items;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    items.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return items;
}

void add(std::map<std::string, std::string>& forced, const char* variable, const std::string& collective,
         const std::string& name) {
  const auto [before, is_new] = forced.emplace(collective, name);
  if (is_new || before->second == name) return;
  throw_error(Code::InvalidArgument, "{} forces both {} and {}{}; name one of them", variable, before->second, name,
              collective.empty() ? "" : " for " + collective);
}

std::string listed(const std::vector<std::string>& known) {
  return known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "));
}

void check_method(const std::string& name) {
  if (exec::find_method(name) != nullptr) return;
  std::vector<std::string> known;
  for (const exec::Method* method : exec::all_methods()) known.emplace_back(method->name);
  throw_error(Code::InvalidArgument, "TUTTI_METHOD: there is no method '{}'{}; there are {}", name,
              did_you_mean(name, known), listed(known));
}

}  // namespace

std::map<std::string, std::string> parse_forced(const std::string& text) {
  std::map<std::string, std::string> forced;
  for (const std::string& item : items_of(text)) {
    const size_t colon = item.find(':');
    if (colon == std::string::npos) {
      throw_error(Code::InvalidArgument, "TUTTI_ALGO: '{}' is not of the form collective:algorithm", item);
    }
    const Collective collective = read_collective(item.substr(0, colon), "TUTTI_ALGO");
    const std::string algorithm = item.substr(colon + 1), name = name_of(collective);
    // Whether there is such a plan is known when a communicator has met.
    if (plan::find_algorithm(collective, algorithm) == nullptr && !is_synthesised(algorithm)) {
      std::vector<std::string> known;
      for (const plan::Algorithm* a : plan::algorithms_of(collective)) known.emplace_back(a->name);
      if (!known.empty()) known.emplace_back(kSynthesised);
      throw_error(Code::InvalidArgument, "TUTTI_ALGO: {} has no algorithm '{}'{}; it has {}", name, algorithm,
                  did_you_mean(algorithm, known), listed(known));
    }
    add(forced, "TUTTI_ALGO", name, algorithm);
  }
  return forced;
}

std::map<std::string, std::string> parse_forced_methods(const std::string& text) {
  std::map<std::string, std::string> forced;
  for (const std::string& item : items_of(text)) {
    const size_t colon = item.find(':');
    const std::string method = colon == std::string::npos ? item : item.substr(colon + 1);
    check_method(method);
    const std::string collective =
        colon == std::string::npos ? "" : name_of(read_collective(item.substr(0, colon), "TUTTI_METHOD"));
    add(forced, "TUTTI_METHOD", collective, method);
  }
  return forced;
}

std::string not_of_host(const std::map<std::string, std::string>& forced_methods) {
  for (const auto& [collective, name] : forced_methods) {
    const exec::Method* const method = exec::find_method(name);
    if (method == nullptr || method->is_on_host()) continue;
    return fmt::format("TUTTI_METHOD forces {}{}{}, a method of GPUs: calls on memory of the host run without it", name,
                       collective.empty() ? "" : " for ", collective);
  }
  return "";
}

std::optional<plan::RankOrder> parse_order(const std::string& text, Rank ranks) {
  if (text.empty()) return {};
  if (text == "natural") return plan::RankOrder();
  std::vector<Rank> order;
  for (const std::string& item : items_of(text)) {
    Rank rank = 0;
    const auto [end, fault] = std::from_chars(item.data(), item.data() + item.size(), rank);
    if (fault != std::errc() || end != item.data() + item.size()) {
      throw_error(Code::InvalidArgument, "TUTTI_ORDER: '{}' is no rank; it is `natural` or a list such as 0,2,1,3",
                  item);
    }
    order.push_back(rank);
  }
  if (order.size() != static_cast<size_t>(ranks)) return {};
  try {
    return plan::RankOrder(std::move(order));
  } catch (const Error& error) {
    throw_error(error.code(), "TUTTI_ORDER: {}", error.what());
  }
}

std::string forced_methods_text() {
  static constexpr const char* kNewNames[] = {"", "slots", "ll", "ll128", "copy_engine", "nvls"};  // by CudaWire
  const char* const old = kNewNames[static_cast<size_t>(env().cuda_wire)];
  if (!env().method.empty() || *old == 0) return env().method;
  static std::once_flag* const kOnce = new std::once_flag;
  std::call_once(*kOnce, [&] {
    log_warn("TUTTI_CUDA_WIRE is now TUTTI_METHOD, and will not be read by the next version; set TUTTI_METHOD={}", old);
  });
  return old;
}

}  // namespace tutti::select
