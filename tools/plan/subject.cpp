#include "tools/plan/subject.hpp"

#include <memory>
#include <set>
#include <utility>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/spelling.hpp"

namespace tutti::tools {

std::string in_ranks(Rank ranks) { return counted(static_cast<uint64_t>(ranks), "rank"); }

plan::Shape shape_of(Collective collective, const PlanOptions& options) {
  if (options.groups.empty()) return {collective, options.ranks()};
  const auto labels = plan::parse_labels(options.groups, options.ranks(), "--groups");
  return {collective, options.ranks(), std::make_shared<const plan::Grouping>(labels)};
}

bool names_file(const PlanOptions& options) { return options.algorithm.find_first_of("./") != std::string::npos; }

std::string title_of(const plan::Shape& shape, const std::string& name) {
  std::string groups;
  for (Rank r = 0; shape.groups != nullptr && r < shape.ranks; ++r) {
    groups += fmt::format("{}{}", r == 0 ? " in groups " : ",", shape.groups->group_of(r));
  }
  return fmt::format("{} {} on {}{}", name, name_of(shape.collective), in_ranks(shape.ranks), groups);
}

namespace {

std::string join(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

/// The default collective: the first one (all_reduce first) that the algorithm implements. Throws if it implements
/// none.
Collective served_by(const std::string& algorithm) {
  std::set<std::string> known;
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (plan::find_algorithm(collective, algorithm) != nullptr) return collective;
    for (const plan::Algorithm* a : plan::algorithms_of(collective)) known.insert(a->name);
  }
  const std::vector<std::string> names(known.begin(), known.end());
  throw_error(Code::InvalidArgument, "there is no algorithm '{}'{}; there are {}; see tutti plan list", algorithm,
              did_you_mean(algorithm, names), join(names));
}

const plan::Algorithm& algorithm_of(const PlanOptions& options) {
  const Collective collective =
      options.collective ? read_collective(*options.collective, "") : served_by(options.algorithm);
  const plan::Algorithm* found = plan::find_algorithm(collective, options.algorithm);
  if (found == nullptr) {
    std::vector<std::string> known;
    for (const plan::Algorithm* a : plan::algorithms_of(collective)) known.emplace_back(a->name);
    throw_error(Code::InvalidArgument, "{} has no algorithm '{}'{}; it has {}", name_of(collective), options.algorithm,
                did_you_mean(options.algorithm, known), known.empty() ? "none, it is sent directly" : join(known));
  }
  if (!found->allows(shape_of(collective, options))) {
    throw_error(Code::InvalidArgument, "{} {} does not work for {}{} ({})", found->name, name_of(collective),
                in_ranks(options.ranks()),
                options.groups.empty() && plan::needs_groups(*found, options.ranks()) ? " without --groups" : "",
                found->summary);
  }
  return *found;
}

/// Throws if other arguments contradict the file.
void check_against(const plan::Shape& shape, const PlanOptions& options) {
  if (options.collective && read_collective(*options.collective, "") != shape.collective) {
    throw_error(Code::InvalidArgument, "{} has plans of {}, not of {}; name the file alone", options.algorithm,
                name_of(shape.collective), *options.collective);
  }
  if (options.of_ranks && *options.of_ranks != shape.ranks) {
    throw_error(Code::InvalidArgument, "{} has plans for {}, not for {}; leave out -n", options.algorithm,
                in_ranks(shape.ranks), *options.of_ranks);
  }
  if (!options.groups.empty()) {
    throw_error(Code::InvalidArgument, "{} has plans that are finished: --groups {} would change nothing; leave it out",
                options.algorithm, options.groups);
  }
}

bool is_algorithm(const std::string& word) {
  for (int c = 0; c < kCollectives; ++c) {
    if (plan::find_algorithm(static_cast<Collective>(c), word) != nullptr) return true;
  }
  return false;
}

}  // namespace

void check_rank(const char* what, Rank rank, Rank ranks) {
  if (rank < ranks) return;
  throw_error(Code::InvalidArgument, "{} {} of {}: ranks are 0 to {}", what, rank, in_ranks(ranks), ranks - 1);
}

void take_words(PlanOptions& options) {
  const std::string &first = options.words.front(), &last = options.words.back();
  if (options.words.size() == 1) {
    options.algorithm = first;
    if (!collective_called(first)) return;
    throw_error(Code::InvalidArgument, "{} alone names no algorithm: write \"{} ring\"; see tutti plan list", first,
                first);
  }
  // A misspelled word is that of the two which the other one is not.
  const bool collective_first = collective_called(first) || (!collective_called(last) && is_algorithm(last));
  options.collective = collective_first ? first : last;
  options.algorithm = collective_first ? last : first;
}

Subject subject_of(const PlanOptions& options, plan::Proof proof) {
  if (names_file(options)) {
    plan::PlanSet set = plan::load_plans(options.algorithm, proof);
    const plan::Shape shape = set.plans.front().shape;
    check_against(shape, options);
    return {title_of(shape, set.name.empty() ? options.algorithm : set.name), shape, nullptr, std::move(set.plans)};
  }
  const plan::Algorithm& algorithm = algorithm_of(options);
  const plan::Shape shape = shape_of(algorithm.collective, options);
  return {title_of(shape, algorithm.name), shape, &algorithm, {}};
}

Subject whole_subject_of(const PlanOptions& options, plan::Proof proof) {
  Subject subject = subject_of(options, proof);
  if (subject.algorithm != nullptr) subject.plans = plan::generate_all(*subject.algorithm, subject.shape);
  return subject;
}

}  // namespace tutti::tools
