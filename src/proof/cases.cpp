#include "proof/cases.hpp"

#include <algorithm>

#include "exec/method.hpp"
#include "exec/why_not.hpp"
#include "proof/run.hpp"

namespace tutti::proof {
namespace {

constexpr Rank kFewRanks = 5;                   // of which calls of many rounds are proven too
constexpr uint64_t kManyRounds = 40;            // more than links have slots
constexpr uint64_t kRoomy = uint64_t{1} << 40;  // bytes: longer than any message

/// A call of some rounds, the last of them short, with messages of 64 bytes and more.
CallCase call_of(const char* name, const exec::Method& method, const plan::RankPlan& plan) {
  CallCase one{.name = name};
  exec::Geometry& geometry = one.geometry;
  geometry.method = &method;
  geometry.element_bytes = 64;
  geometry.window = 2 * plan.grain + 1;
  const uint64_t rounds = plan.scratch_blocks > 0 ? one.versions + 1 : 2;
  geometry.count = rounds * geometry.window + plan.grain / 2 + 1;
  return one;
}

class Cases {
 public:
  Cases(const exec::Method& method, const plan::RankPlan& plan) : plain_(call_of("", method, plan)), plan_(plan) {}

  CallCase& add(const char* name) { return add(name, plain_); }
  CallCase& add(const char* name, const CallCase& from) {
    CallCase& added = all_.emplace_back(from);
    added.name = name;
    return added;
  }
  /// The same with links of one kind.
  CallCase& add(const char* name, const link::Access& access, const link::Access& far) {
    CallCase& added = add(name);
    added.access = access, added.far = far;
    return added;
  }
  void add_long(const char* name, const CallCase& from) {
    if (plan_.shape.ranks > kFewRanks) return;
    CallCase& added = add(name, from);
    added.geometry.window = plan_.grain;
    added.geometry.count = kManyRounds * added.geometry.window + 1;
  }
  /// Each of them in place too, where calls can be.
  std::vector<CallCase> take() {
    const size_t out_of_place = all_.size();
    for (size_t i = 0; i < out_of_place && plan_.shape.collective != Collective::AllToAll; ++i) {
      CallCase added = all_[i];
      added.name += ", in place";
      added.geometry.in_place = true;
      all_.push_back(added);
    }
    return std::move(all_);
  }

 private:
  const CallCase plain_;
  const plan::RankPlan& plan_;
  std::vector<CallCase> all_;
};

link::Access pushes() { return {.push_bytes = kRoomy}; }
link::Access lends() { return {.address = true, .cooperative = true}; }

/// On a host: lanes on threads.
std::vector<CallCase> host_cases(const plan::RankPlan& plan) {
  Cases cases(exec::methods::lanes, plan);
  cases.add("staged");
  CallCase& short_ones = cases.add("inline");
  short_ones.geometry.element_bytes = 4;
  const CallCase tiny = short_ones;
  cases.add_long("many rounds inline", tiny);
  CallCase& one = cases.add("one element");
  one.geometry.count = one.geometry.window = 1;
  cases.add("no element").geometry.count = 0;
  const CallCase pushed = cases.add("pushed", pushes(), pushes());
  cases.add_long("many pushed rounds", pushed);
  CallCase& wide = cases.add("width 2");
  wide.geometry.width = 2;
  wide.geometry.count += wide.geometry.count;
  wide.versions = 2;
  CallCase& zero_copy = cases.add("zero-copy", lends(), lends());
  zero_copy.geometry.rules.address_from = 0;
  CallCase lent = zero_copy;
  cases.add("zero-copy, long messages", lent).geometry.rules.address_from = uint64_t{2} * lent.geometry.element_bytes;
  cases.add("zero-copy near, staged far", lent).far = {};
  cases.add("pushed near, staged far", pushes(), {});
  cases.add("zero-copy near, pushed far", lent).far = pushes();
  lent.geometry.rules.cooperative_from = lent.geometry.rules.direct_store_from = 0;
  cases.add("zero-copy, peers help", lent).help = Help::All;
  cases.add("zero-copy, peers help sometimes", lent).help = Help::Some;
  CallCase& mapped = cases.add("mapped", {.mapped = true}, {.mapped = true});
  mapped.geometry.shared[0] = mapped.geometry.shared[1] = true;
  mapped.geometry.rules.mapped_from = 0;
  return cases.take();
}

/// On a GPU: a block runs the lanes. `near`: how links to the method's peers deliver.
std::vector<CallCase> lane_cases(const exec::Method& method, const plan::RankPlan& plan, const link::Access& near) {
  Cases cases(method, plan);
  const CallCase plain = cases.add(method.name, near, near);
  cases.add_long("many rounds", plain);
  cases.add("far ranks by slots", near, pushes());
  CallCase& one = cases.add("one element", plain);
  one.geometry.count = one.geometry.window = 1;
  if (method.wide) cases.add("width 2", plain).geometry.width = 2;
  return cases.take();
}

/// On GPUs that read each other's memory: what is registered is read in place, the rest in staging memory.
std::vector<CallCase> get_cases(const plan::RankPlan& plan) {
  Cases cases(exec::methods::get, plan);
  CallCase& staged = cases.add("staged", {.mapped = true}, {.mapped = true});
  staged.geometry.rules.mapped_from = 0;
  const CallCase plain = staged;
  cases.add_long("many rounds", plain);
  CallCase& one = cases.add("one element", plain);
  one.geometry.count = one.geometry.window = 1;
  cases.add("width 2", plain).geometry.width = 2;
  for (const bool outputs : {false, true}) {
    CallCase& in_place = cases.add(outputs ? "all buffers registered" : "inputs registered", plain);
    in_place.geometry.shared[0] = true;
    in_place.geometry.shared[1] = outputs;
    const CallCase registered = in_place;
    cases.add_long(outputs ? "many rounds, registered" : "many rounds, inputs registered", registered);
  }
  return cases.take();
}

/// Packs of four elements, the last of a round not full.
std::vector<CallCase> nvls_cases(const plan::RankPlan& plan) {
  Cases cases(exec::methods::nvls, plan);
  CallCase& one = cases.add("nvls");
  one.geometry.element_bytes = 4;
  one.geometry.window = 4 * plan.grain + 3;
  one.geometry.count = 4 * one.geometry.window + 5;
  const uint64_t place = (one.geometry.window * one.geometry.element_bytes + 15) / 16 * 16;
  one.slot_bytes =
      place * (plan.shape.collective == Collective::AllReduce ? 1 : static_cast<uint64_t>(plan.shape.ranks));
  const CallCase plain = one;
  cases.add("width 2", plain).geometry.width = 2;
  return cases.take();
}

/// With no room to spare.
std::vector<CallCase> copy_engine_cases(const plan::RankPlan& plan) {
  Cases cases(exec::methods::copy_engine, plan);
  CallCase& one = cases.add("copy_engine");
  one.geometry.window = 7;
  one.geometry.count = 4 * one.geometry.window + 1;
  one.slot_bytes = std::max<uint64_t>(1, static_cast<uint64_t>(plan.shape.ranks) - 1) * 512;
  return cases.take();
}

}  // namespace

std::vector<CallCase> cases_of(const exec::Method& method, const plan::RankPlan& plan) {
  if (method == exec::methods::nvls) return nvls_cases(plan);
  if (method == exec::methods::copy_engine) return copy_engine_cases(plan);
  if (method == exec::methods::lanes) return host_cases(plan);
  if (method == exec::methods::get) return get_cases(plan);
  link::Access near = pushes();
  // The last round's messages in lines, and those of the others too long for them; or all.
  if (method == exec::methods::ll) near.ll_bytes = plan.shape.ranks % 2 == 0 ? 64 : kRoomy;
  if (method == exec::methods::ll128) near.ll128_bytes = plan.shape.ranks % 2 == 0 ? 64 : kRoomy;
  return lane_cases(method, plan, near);
}

std::string why_not(const exec::Method& method, std::span<const plan::RankPlan> plans) {
  return exec::why_not(method, plans.front().shape.collective == Collective::Barrier, static_cast<Rank>(plans.size()),
                       [&](Rank rank) -> const plan::RankPlan& { return plans[static_cast<size_t>(rank)]; });
}

std::vector<MethodProof> prove_methods(std::span<const plan::RankPlan> plans) {
  std::vector<MethodProof> proofs;
  for (const exec::Method* method : exec::all_methods()) {
    MethodProof& proof = proofs.emplace_back(MethodProof{method->name, why_not(*method, plans), {}, {}});
    if (!proof.why_not.empty()) continue;
    for (const CallCase& one : cases_of(*method, plans.front())) {
      proof.verdict = prove(plans, one);
      if (!proof.verdict) proof.verdict.reason = one.name + ": " + proof.verdict.reason;
      if (!proof.verdict) break;
      proof.cases.push_back(one.name);
    }
  }
  return proofs;
}

}  // namespace tutti::proof
