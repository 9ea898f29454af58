#include "transports/fault/plan.hpp"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/format.hpp"

namespace tutti::transports {
namespace {

/// All of `text` as a number.
template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const char* const last = text.data() + text.size();
  const auto [end, failure] = std::from_chars(text.data(), last, value);
  return failure == std::errc{} && end == last ? std::optional(value) : std::nullopt;
}

bool read_count(std::string_view text, uint64_t& value) {
  const auto count = number<uint64_t>(text);
  if (count) value = *count;
  return count.has_value();
}

bool read_rank(std::string_view text, Rank& value) {
  const auto rank = number<Rank>(text);
  if (!rank || *rank < 0) return false;
  value = *rank;
  return true;
}

bool read_seconds(std::string_view text, double& value) {
  const size_t unit_at = text.find_first_not_of("0123456789.");
  if (unit_at == std::string_view::npos) return false;
  const auto count = number<double>(text.substr(0, unit_at));
  const std::string_view unit = text.substr(unit_at);
  const double scale = unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "us" ? 1e-6 : NAN;
  if (!count || std::isnan(scale) || *count * scale > 3600) return false;
  value = *count * scale;
  return true;
}

bool read_rate(std::string_view text, double& value) {
  const size_t unit_at = text.find_first_not_of("0123456789.");
  if (unit_at == std::string_view::npos) return false;
  const auto count = number<double>(text.substr(0, unit_at));
  const std::string_view unit = text.substr(unit_at);
  const double scale = unit == "GB/s" ? 1e9 : unit == "MB/s" ? 1e6 : unit == "kB/s" ? 1e3 : NAN;
  if (!count || std::isnan(scale) || *count <= 0) return false;
  value = *count * scale;
  return true;
}

bool read_corruption(std::string_view text, FaultPlan& plan) {
  using Corrupt = FaultPlan::Corrupt;
  const size_t at = text.find('@');
  if (at == std::string_view::npos || !read_count(text.substr(at + 1), plan.corrupt)) return false;
  const std::string_view what = text.substr(0, at);
  if (what == "payload") return plan.what = Corrupt::Payload, true;
  if (what == "tag") return plan.what = Corrupt::Tag, true;
  if (what == "length") return plan.what = Corrupt::Length, true;
  if (what == "header") return plan.what = Corrupt::Header, true;
  return false;
}

bool read_part(std::string_view part, FaultPlan& plan) {
  const size_t equals = part.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = part.substr(0, equals), value = part.substr(equals + 1);
  if (key == "delay") return read_seconds(value, plan.delay);
  if (key == "rate") return read_rate(value, plan.rate);
  if (key == "latency") return read_seconds(value, plan.latency);
  if (key == "jitter") return read_seconds(value, plan.jitter);
  if (key == "stall") return read_count(value, plan.stall);
  if (key == "kill") return read_count(value, plan.kill);
  if (key == "corrupt") return read_corruption(value, plan);
  if (key == "rank") return read_rank(value, plan.rank);
  if (key == "peer") return read_rank(value, plan.peer);
  if (key == "seed") return read_count(value, plan.seed);
  return false;
}

}  // namespace

FaultPlan parse_fault_plan(std::string_view text) {
  FaultPlan plan;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    if (!read_part(part, plan)) {
      throw_error(
          Code::InvalidArgument,
          "TUTTI_FAULT: \"{}\" cannot be used; it takes a list of delay=TIME, latency=TIME, jitter=TIME (1.5ms, 20us, "
          "1s), rate=SPEED (2GB/s, 100MB/s), stall=MESSAGE, kill=MESSAGE, corrupt=payload|tag|length|header@MESSAGE, "
          "rank=RANK, peer=RANK, "
          "seed=NUMBER",
          part);
    }
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  return plan;
}

}  // namespace tutti::transports
