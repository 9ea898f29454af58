#include "tools/plan/pictures.hpp"

#include <utility>

#include "base/format.hpp"
#include "plan/order.hpp"
#include "tools/output_file.hpp"
#include "tools/plan/draw.hpp"
#include "tools/plan/machine.hpp"
#include "tools/plan/on_machine.hpp"

namespace tutti::tools {
namespace {

constexpr Rank kMaxDrawn = 64;

[[noreturn]] void too_many_to_draw(Rank ranks) {
  throw_error(Code::InvalidArgument, "a picture of {} ranks cannot be read; {} is the most", ranks, kMaxDrawn);
}

/// The subject for a root: plans count ranks, and groups, from the root.
Subject for_root(Subject subject, Rank root) {
  if (root == 0) return subject;
  if (!has_root(subject.shape.collective)) {
    throw_error(Code::InvalidArgument, "{} has no root: leave out --root", name_of(subject.shape.collective));
  }
  subject.title += fmt::format(", root {}", root);
  if (subject.algorithm == nullptr || subject.shape.groups == nullptr) return subject;
  subject.shape.groups = plan::RankOrder().seen(subject.shape.groups, root);
  return subject;
}

/// The plan over a picture of its machine.
void draw_machine(PlanOptions options) {
  const Machine machine = machine_of(options.scene, options.on_ranks);
  const auto ranks = static_cast<Rank>(machine.nodes.size());
  if (!names_file(options) && !options.of_ranks) options.of_ranks = ranks;
  Subject subject = whole_subject_of(options);
  if (subject.shape.ranks != ranks) {
    throw_error(Code::InvalidArgument, "the plan has {}, and the machine {}: give its --hosts and --ranks",
                in_ranks(subject.shape.ranks), ranks);
  }
  check_rank("--root", options.root, ranks);
  subject = for_root(std::move(subject), options.root);
  const std::string title =
      subject.title + " on " + options.scene.topology.substr(options.scene.topology.rfind('/') + 1);
  const OnMachine on{.graph = &machine.graph, .nodes = machine.nodes, .root = options.root, .tree = options.tree};
  write_file("-o", options.file, draw_on_machine(subject.plans, title, on));
  if (options.file != kStandardOutput) fmt::print("{} written\n", options.file);
}

}  // namespace

void draw(const PlanOptions& options) {
  check_output("-o", options.file, {options.scene.topology, options.algorithm});
  if (!options.scene.topology.empty()) return draw_machine(options);
  if (!names_file(options) && options.ranks() > kMaxDrawn) too_many_to_draw(options.ranks());
  Subject subject = subject_of(options);
  if (subject.shape.ranks > kMaxDrawn) too_many_to_draw(subject.shape.ranks);
  check_rank("--root", options.root, subject.shape.ranks);
  check_rank("--rank", options.rank, subject.shape.ranks);
  subject = for_root(std::move(subject), options.root);
  if (subject.algorithm != nullptr) subject.plans = plan::generate_all(*subject.algorithm, subject.shape);
  if (options.rank >= 0) subject.title += fmt::format(", what rank {} sends and receives", options.rank);
  write_file("-o", options.file, draw_svg(subject.plans, subject.title, {.root = options.root, .rank = options.rank}));
  if (options.file != kStandardOutput) fmt::print("{} written\n", options.file);
}

}  // namespace tutti::tools
