#include "proof/cases.hpp"

#include <algorithm>

#include "exec/method.hpp"
#include "proof/run.hpp"

namespace tutti::proof {
namespace {

/// A call of three rounds, whose last is short, with messages of 64 bytes and more.
Setting long_call(const exec::Method& method, const plan::RankPlan& plan) {
  Setting setting;
  exec::Geometry& geometry = setting.geometry;
  geometry.method = &method;
  geometry.element_bytes = 64;
  geometry.window = 2 * plan.grain + 1;
  geometry.count = 2 * geometry.window + plan.grain / 2 + 1;
  setting.slot_bytes = 64 * 1024;
  return setting;
}

/// On a host: lanes on threads.
std::vector<NamedSetting> host_settings(const plan::RankPlan& plan) {
  const Setting plain = long_call(exec::methods::lanes, plan);
  std::vector<NamedSetting> settings = {{"staged", plain}};
  const auto add = [&](const char* name, const Setting& from) -> Setting& {
    return settings.emplace_back(NamedSetting{name, from}).setting;
  };
  Setting& tiny = add("inline", plain);
  tiny.geometry.element_bytes = 4;
  Setting& one = add("one element", plain);
  one.geometry.count = one.geometry.window = 1;
  add("pushed", plain).access.push_bytes = uint64_t{1} << 20;
  Setting& wide = add("width 2", plain);
  wide.geometry.width = 2;
  Setting in_place = plain;
  in_place.access.address = true;
  in_place.geometry.rules.address_from = 0;
  add("zero-copy", in_place);
  in_place.access.cooperative = true;
  in_place.geometry.rules.cooperative_from = in_place.geometry.rules.direct_store_from = 0;
  in_place.helps = true;
  add("zero-copy, peers help", in_place);
  const size_t out_of_place = settings.size();
  for (size_t i = 0; i < out_of_place; ++i) {
    if (plan.shape.collective == Collective::AllToAll) break;  // never in place
    NamedSetting other = settings[i];
    other.name += ", in place";
    other.setting.geometry.in_place = true;
    settings.push_back(other);
  }
  return settings;
}

/// On a GPU: a block runs the lanes; or what the method has in their place.
std::vector<NamedSetting> device_settings(const exec::Method& method, const plan::RankPlan& plan) {
  Setting setting = long_call(method, plan);
  link::Access& access = setting.access;
  access.push_bytes = uint64_t{1} << 20;
  if (method == exec::methods::ll) access.line_bytes = uint64_t{1} << 20;
  if (method == exec::methods::ll128) access.whole_line_bytes = uint64_t{1} << 20;
  if (method == exec::methods::nvls) {  // packs of four elements, the last of a round not full
    setting.geometry.element_bytes = 4;
    setting.geometry.window = 4 * plan.grain + 3;
    setting.geometry.count = 2 * setting.geometry.window + 5;
  }
  if (method == exec::methods::copy_engine) {  // no room to spare
    setting.geometry.window = 7;
    setting.geometry.count = 2 * setting.geometry.window + 1;
    setting.slot_bytes = std::max<uint64_t>(1, static_cast<uint64_t>(plan.shape.ranks) - 1) * 512;
  }
  std::vector<NamedSetting> settings = {{method.name, setting}};
  Setting wide = setting;
  wide.geometry.width = 2;
  if (method.wide) settings.push_back({"width 2", wide});
  const size_t out_of_place = settings.size();
  for (size_t i = 0; i < out_of_place && plan.shape.collective != Collective::AllToAll; ++i) {
    settings.push_back({settings[i].name + ", in place", settings[i].setting});
    settings.back().setting.geometry.in_place = true;
  }
  return settings;
}

}  // namespace

std::vector<NamedSetting> settings_of(const exec::Method& method, const plan::RankPlan& plan) {
  return method == exec::methods::lanes ? host_settings(plan) : device_settings(method, plan);
}

std::string why_not(const exec::Method& method, std::span<const plan::RankPlan> plans) {
  for (const plan::RankPlan& plan : plans) {
    if (method.accepts == nullptr) break;
    if (std::string why = method.accepts(plan); !why.empty()) return why;
  }
  return "";
}

std::vector<MethodProof> prove_methods(std::span<const plan::RankPlan> plans) {
  std::vector<MethodProof> proofs;
  for (const exec::MemoryKind memory : {exec::MemoryKind::Host, exec::MemoryKind::Device}) {
    for (const exec::Method* method : exec::methods_for(memory)) {
      MethodProof& proof = proofs.emplace_back(MethodProof{method->name, why_not(*method, plans), {}, {}});
      if (!proof.why_not.empty()) continue;
      for (const NamedSetting& one : settings_of(*method, plans.front())) {
        proof.verdict = prove(plans, one.setting);
        if (!proof.verdict) proof.verdict.reason = one.name + ": " + proof.verdict.reason;
        if (!proof.verdict) break;
        proof.calls.push_back(one.name);
      }
    }
  }
  return proofs;
}

}  // namespace tutti::proof
