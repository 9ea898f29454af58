#include "tools/plan/programs.hpp"

#include "base/format.hpp"
#include "proof/cases.hpp"
#include "tools/wrapped.hpp"

namespace tutti::tools {
namespace {

constexpr Rank kMaxProvenRanks = 16;  // more would take minutes

}  // namespace

bool prove_programs(std::span<const plan::RankPlan> plans) {
  if (plans.size() > static_cast<size_t>(kMaxProvenRanks)) {
    fmt::print("\nThe programs that methods make of it are proven for up to {} ranks: give fewer for that.\n",
               kMaxProvenRanks);
    return true;
  }
  fmt::print("\nThe programs that methods make of it, executed symbolically for each kind of delivery\n\n");
  bool all = true;
  for (const proof::MethodProof& proof : proof::prove_methods(plans)) {
    if (proof.verdict.too_large)
      throw_error(Code::Unsupported, "{} is not proven: {}", proof.method, proof.verdict.reason);
    all = all && proof.verdict;
    const std::string text = !proof.why_not.empty() ? "does not run it: " + proof.why_not
                             : proof.verdict        ? fmt::format("right: {}", fmt::join(proof.cases, "; "))
                                                    : "WRONG: " + proof.verdict.reason;
    fmt::print("  {:<12}{}\n", proof.method, tools::wrapped(text, 14));
  }
  return all;
}

}  // namespace tutti::tools
