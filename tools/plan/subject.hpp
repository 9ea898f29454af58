// What a command of tutti plan is about: an algorithm for a number of ranks, or plans from a file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/algorithm.hpp"
#include "plan/json.hpp"
#include "tools/sim/scene.hpp"

namespace tutti::tools {

struct PlanOptions {
  std::vector<std::string> words;         // what the command line names: see take_words
  std::string algorithm, file;            // an algorithm's name, or that of a file with plans
  std::optional<std::string> collective;  // if not given: the file's, or a default
  std::optional<Rank> of_ranks;
  std::string groups;  // as in TUTTI_GROUPS
  Rank rank = -1;      // all
  Rank root = 0;       // of a drawing
  std::string memory = "2G";
  SceneOptions scene;  // of a drawing: the machine that is drawn, if a topology is given
  std::string on_ranks;
  size_t tree = 0;

  Rank ranks() const { return of_ranks.value_or(4); }
};

/// Sets the algorithm and the collective from `words`: "all_reduce ring"; "ring", of the first collective that it
/// serves; a file; or "ring all_reduce", as it was written before. Throws Error(InvalidArgument) for a collective
/// alone.
void take_words(PlanOptions& options);

std::string in_ranks(Rank ranks);
/// Ranks that a command names must exist.
void check_rank(const char* what, Rank rank, Rank ranks);
plan::Shape shape_of(Collective collective, const PlanOptions& options);
/// Names of algorithms have no dots or slashes.
bool names_file(const PlanOptions& options);
std::string title_of(const plan::Shape& shape, const std::string& name);

/// The subject of a command: an algorithm, or plans from a file.
struct Subject {
  std::string title;
  plan::Shape shape;
  const plan::Algorithm* algorithm = nullptr;  ///< null: from a file
  std::vector<plan::RankPlan> plans;           ///< of all ranks; of an algorithm, empty until generated
};

/// Throws Error where there is no such subject.
Subject subject_of(const PlanOptions& options, plan::Proof proof = plan::Proof::Demand);
/// The same, with the plans of all ranks.
Subject whole_subject_of(const PlanOptions& options, plan::Proof proof = plan::Proof::Demand);

}  // namespace tutti::tools
