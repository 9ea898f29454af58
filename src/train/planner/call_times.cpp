#include "train/planner/call_times.hpp"

#include <algorithm>
#include <cmath>

#include "train/planner/formulas.hpp"

namespace tutti::train::planner {

std::vector<StepCall> calls_of(std::span<const double> values) {
  const Sheet& sheet = step_sheet();
  const auto at = [&](const char* name) { return values[sheet.slot(name)]; };
  const auto whole = [&](const char* name) { return static_cast<int64_t>(at(name)); };
  std::vector<StepCall> calls;
  if (const Group tensor{whole("tp"), whole("k_tp")}; tensor.ranks > 1) {
    if (at("sp") == 1) {  // the all-reduce in two halves
      calls.push_back({"t_tp", Call::ReduceScatter, tensor, at("S_tp")});
      calls.push_back({"t_tp", Call::AllGather, tensor, at("S_tp")});
    } else {
      calls.push_back({"t_tp", Call::AllReduce, tensor, at("S_tp")});
    }
  }
  if (whole("cp") > 1)
    calls.push_back({"t_cp", Call::Message, {2, at("k_cp") < at("cp") ? 1 : 2}, at("S_cp"), at("cp") - 1});
  if (whole("ep") > 1) calls.push_back({"t_ep", Call::AllToAll, {whole("ep"), whole("k_ep")}, at("S_ep")});
  if (whole("pp") > 1) calls.push_back({"t_pp", Call::Message, {2, at("k_pp") < at("pp") ? 1 : 2}, at("S_pp")});
  // Parameters of a layer and of its experts; without ZeRO one all-reduce, of which either row has a half.
  const auto data = [&](const Group& group, double bytes) {
    if (group.ranks <= 1 || bytes <= 0) return;
    const bool whole_call = at("zero") == 0;
    const double count = at("l") * (whole_call ? 0.5 : 1);
    calls.push_back({"t_rs", whole_call ? Call::AllReduce : Call::ReduceScatter, group, bytes, count});
    calls.push_back({"t_ag", whole_call ? Call::AllReduce : Call::AllGather, group, bytes, count});
  };
  data({whole("N"), whole("k_N")}, 2 * at("Ψr") / at("l"));
  data({whole("Nx"), whole("k_Nx")}, 2 * at("Ψx") / at("l"));
  return calls;
}

double CallTimes::seconds(Call call, Group group, double bytes) {
  const auto [at, is_new] = curves_.try_emplace({call, group});
  if (is_new) at->second = ask_(call, group);
  const Curve& curve = at->second;
  const double least = std::exp2(kFirst);
  if (bytes <= least) return curve.front();
  const int below = std::min(static_cast<int>(std::floor(std::log2(bytes))), kLast - 1);
  const auto i = static_cast<size_t>(below - kFirst);
  const double size = std::exp2(below);
  return curve[i] + (curve[i + 1] - curve[i]) * (bytes - size) / size;
}

void CallTimes::set(std::vector<double>& values) {
  const std::vector<StepCall> calls = calls_of(values);
  for (const StepCall& call : calls) values[step_sheet().slot(call.row)] = 0;
  for (const StepCall& call : calls)
    values[step_sheet().slot(call.row)] += call.count * seconds(call.call, call.group, call.bytes);
}

}  // namespace tutti::train::planner
