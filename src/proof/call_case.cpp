#include "proof/call_case.hpp"

#include <utility>

#include "base/format.hpp"

namespace tutti::proof {
namespace {

using plan::Buffer;

struct Translation {
  const exec::Method* method;
  MakeJob* make;
};

/// Of methods that do not interpret their programs' lanes.
const Translation kTranslations[] = {
    {&exec::methods::copy_engine, copy_engine_job},
    {&exec::methods::nvls, nvls_job},
};

/// In place, the shorter buffer is a block of the longer one, or they are one.
Buffers buffers_of(Job& job, Rank rank, bool in_place) {
  const auto planned = job.order.planned(rank, job.root, job.shape.ranks);
  const uint32_t in = plan::blocks(job.shape, Buffer::Input, planned);
  const uint32_t out = plan::blocks(job.shape, Buffer::Output, planned);
  const bool shared = in_place && in > 0 && out > 0;
  const auto add = [&](const char* name, uint32_t blocks, bool writable) {
    return job.add(Memory{fmt::format("rank {}'s {}", rank, name), blocks * job.count, writable});
  };
  if (!shared) {
    const uint32_t input = add("input", in, false);
    return {{input, 0}, {add("output", out, true), 0}};
  }
  const uint32_t buffer = add("buffer", std::max(in, out), true);
  const uint64_t own = static_cast<uint64_t>(rank) * job.count;
  return {{buffer, in < out ? own : 0}, {buffer, out < in ? own : 0}};
}

}  // namespace

std::vector<exec::Program> lower_all(std::span<const plan::RankPlan> plans, const CallCase& how) {
  const auto ranks = static_cast<Rank>(plans.size());
  std::vector<exec::Program> programs;
  for (Rank rank = 0; rank < ranks; ++rank) {
    exec::Geometry geometry = how.geometry;
    exec::PeerTraits traits(plans.size());
    for (Rank peer = 0; peer < ranks; ++peer) {
      const link::Access& access = peer / 2 == rank / 2 ? how.access : how.far;
      traits[static_cast<size_t>(peer)] = {access, access};
    }
    const plan::RankPlan& plan = plans[static_cast<size_t>(geometry.order.planned(rank, geometry.root, ranks))];
    geometry.in_place = geometry.in_place && plan::blocks(plan.shape, Buffer::Input, plan.rank) > 0 &&
                        plan::blocks(plan.shape, Buffer::Output, plan.rank) > 0;
    programs.push_back(exec::lower(plan, geometry, traits));
  }
  return programs;
}

Job empty_job(std::span<const plan::RankPlan> plans, const CallCase& how) {
  Job job;
  job.shape = plans.front().shape;
  job.order = how.geometry.order;
  job.root = how.geometry.root;
  job.count = how.geometry.count;
  for (Rank rank = 0; rank < job.shape.ranks; ++rank) {
    job.buffers.push_back(buffers_of(job, rank, how.geometry.in_place));
  }
  return job;
}

Job job_of(std::span<const plan::RankPlan> plans, const CallCase& how, std::vector<exec::Program> programs) {
  if (how.geometry.method->interprets_lanes()) return lanes_job(plans, how, std::move(programs));
  for (const Translation& one : kTranslations) {
    if (*one.method == *how.geometry.method) return one.make(plans, how, std::move(programs));
  }
  throw_error(Code::InternalError, "the method {} cannot be proven: nothing translates it", how.geometry.method->name);
}

}  // namespace tutti::proof
