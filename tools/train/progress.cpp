#include "tools/train/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>

#include "tools/train/curve.hpp"

namespace tutti::tools {
namespace {

constexpr int kMaxLines = 50;
constexpr size_t kLastSteps = 20;  // whose mean is the result: single batches differ
constexpr double kMiB = 1 << 20;

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/// The end's parts print, and add what they print to the summary.
void print_experts(const std::vector<train::ExpertLoad>& loads, nlohmann::json& summary) {
  nlohmann::json experts;
  for (const train::ExpertLoad& load : loads) {
    fmt::print("# {}: last step's load-balance loss {:.4f}, dropped {:.1f} %, tokens of each expert:", load.name,
               load.balance / static_cast<double>(load.calls), percent(load.dropped, load.pairs()));
    for (const double chosen : load.chosen) fmt::print(" {:.1f}%", percent(chosen, load.pairs()));
    fmt::print("\n");
    experts[load.name] = {{"chosen", load.chosen}, {"dropped", load.dropped}};
  }
  summary["experts"] = experts;
}

void print_memory(train::Trainer& trainer, nlohmann::json& summary) {
  const train::StateBytes state = trainer.expected_state();
  const double formula[] = {state.weights, state.gradients, state.optimizer};
  nlohmann::json memory;
  fmt::print("# most memory of rank 0, MiB:");
  for (int i = 0; i < train::kKinds; ++i) {
    const auto kind = static_cast<train::Kind>(i);
    const auto bytes = trainer.ledger().peak(kind);
    fmt::print("{} {} {:.2f}", i == 0 ? "" : ",", name_of(kind), static_cast<double>(bytes) / kMiB);
    if (static_cast<size_t>(i) < std::size(formula)) fmt::print(" (formula {:.2f})", formula[i] / kMiB);
    memory[name_of(kind)] = bytes;
  }
  fmt::print("; {:.2f} taken from the system\n", static_cast<double>(trainer.ledger().reserved()) / kMiB);
  summary["reserved_bytes"] = trainer.ledger().reserved();
  summary["peak_bytes"] = memory;
  summary["formula_bytes"] = formula;
}

void print_traffic(train::Trainer& trainer, nlohmann::json& summary) {
  nlohmann::json traffic;
  for (int i = 0; i < train::kPurposes; ++i) {
    const auto purpose = static_cast<train::Purpose>(i);
    const train::Count& count = trainer.counters()[purpose];
    if (count.calls == 0) continue;
    fmt::print("# {:<10} {:6} calls; rank 0 sends {:9.3f} MiB and receives {:9.3f} MiB by the formulas\n",
               name_of(purpose), count.calls, count.sent / kMiB, count.received / kMiB);
    traffic[name_of(purpose)] = {
        {"calls", count.calls}, {"elements", count.elements}, {"sent", count.sent}, {"received", count.received}};
  }
  summary["traffic"] = traffic;
  nlohmann::json sent;
  for (const train::Traffic& axis : trainer.traffic()) {
    if (axis.sent == 0 && axis.formula == 0) continue;
    fmt::print("# {:<16} rank 0 has sent {:9.3f} MiB; by the formulas {:.3f}\n", axis.name,
               static_cast<double>(axis.sent) / kMiB, axis.formula / kMiB);
    sent[axis.name] = {{"sent", axis.sent}, {"formula", axis.formula}};
  }
  summary["sent"] = sent;
}

}  // namespace

TrainProgress::TrainProgress(const ProgressOptions& options, int steps, bool appends) : steps_(steps) {
  svg_ = OutputFile("--svg", options.svg, false);
  json_ = OutputFile("--json", options.json, appends);
}

void TrainProgress::begin(train::Trainer& trainer, int ranks) {
  const int64_t next = trainer.steps_done() + 1;
  if (bits_.empty() || next < first_step_ || next > first_step_ + static_cast<int64_t>(bits_.size())) {
    bits_.clear();
    first_step_ = next;
  }
  bits_.resize(static_cast<size_t>(next - first_step_));
  const train::MeshShape& mesh = trainer.mesh().shape();
  title_ = fmt::format("{} parameters a rank, {} rank{}: dp {}, pp {}, cp {}, ep {}, tp {}", trainer.parameters(),
                       ranks, ranks == 1 ? "" : "s", mesh.dp, mesh.pp, mesh.cp, mesh.ep, mesh.tp);
  fmt::print("# {}\n", title_);
  if (!trainer.mesh().warning().empty()) fmt::print(stderr, "tutti train: warning: {}\n", trainer.mesh().warning());
  fmt::print("#  step      loss  bits/byte    norm   tokens/s  waiting  hidden{}\n",
             trainer.options().moe.experts == 0 ? "" : "  balance imbalance");
}

void TrainProgress::step(const train::StepReport& report) {
  const double bits = report.loss / std::numbers::ln2;
  const double rate = static_cast<double>(report.tokens) / report.seconds;
  bits_.push_back(bits);
  seconds_ += report.seconds;
  waiting_ += report.waiting;
  busy_ += report.busy;
  hidden_ += report.hidden();
  tokens_ += report.tokens;
  const int stride = steps_ / kMaxLines + (steps_ % kMaxLines != 0 ? 1 : 0);
  if (report.step == first_step_ || report.step == steps_ || report.step % stride == 0) {
    fmt::print("{:7} {:9.5f} {:10.4f} {:7.3f} {:10.0f} {:7.1f}% {:6.1f}%", report.step, report.loss, bits,
               report.gradient_norm, rate, percent(report.waiting, report.seconds),
               percent(report.hidden(), report.busy));
    if (report.imbalance > 0) fmt::print(" {:8.4f} {:9.3f}", report.balance, report.imbalance);
    fmt::print("\n");
    std::fflush(stdout);
  }
  if (!json_) return;
  const nlohmann::json line{{"step", report.step},         {"loss", report.loss},
                            {"bits_per_byte", bits},       {"gradient_norm", report.gradient_norm},
                            {"seconds", report.seconds},   {"waiting_seconds", report.waiting},
                            {"busy_seconds", report.busy}, {"tokens", report.tokens},
                            {"balance", report.balance},   {"imbalance", report.imbalance}};
  json_.write(line.dump() + "\n");
}

void TrainProgress::saved(const std::string& folder, int64_t step) {
  fmt::print("# saved step {} in {}\n", step, folder);
  std::fflush(stdout);
}

size_t TrainProgress::last_steps() const { return std::min<size_t>(kLastSteps, bits_.size()); }

double TrainProgress::last_bits() const {
  return std::accumulate(bits_.end() - static_cast<ptrdiff_t>(last_steps()), bits_.end(), 0.0) /
         static_cast<double>(last_steps());
}

void TrainProgress::end(train::Trainer& trainer, TrainProgress* progress) {
  const std::vector<train::ExpertLoad> experts = trainer.expert_loads();
  if (progress != nullptr) progress->end(trainer, experts);
}

void TrainProgress::end(train::Trainer& trainer, const std::vector<train::ExpertLoad>& experts) {
  if (bits_.empty()) return;  // no step was made
  if (svg_) svg_.write(learning_curve(bits_, first_step_, title_));
  fmt::print(
      "# {:.2f} s, {:.0f} tokens/s; waiting for communication {:.1f} %; gradient communication {:.2f} s, {:.1f} % "
      "of it hidden behind backward\n",
      seconds_, static_cast<double>(tokens_) / seconds_, percent(waiting_, seconds_), busy_, percent(hidden_, busy_));
  fmt::print("# bits per byte: {:.3f} in {}, {:.3f} over the last {}\n", bits_.front(),
             first_step_ == 1 ? "the first step" : fmt::format("step {}", first_step_), last_bits(), last_steps());
  nlohmann::json summary{{"seconds", seconds_}, {"tokens", tokens_}};
  print_experts(experts, summary);
  print_memory(trainer, summary);
  print_traffic(trainer, summary);
  if (json_) json_.write(nlohmann::json{{"summary", summary}}.dump() + "\n");
  svg_.close();
  json_.close();
}

}  // namespace tutti::tools
