#include "tutti/train/mesh.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "train/core/hosts.hpp"

namespace tutti::train {
namespace {

struct Axis {
  const char* name;
  int ranks;
};

std::vector<Axis> axes_of(const MeshShape& s) {
  return {{"dp", s.dp}, {"pp", s.pp}, {"cp", s.cp}, {"ep", s.ep}, {"tp", s.tp}};
}

std::string product(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis& axis : axes) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis.name, axis.ranks);
  return text;
}

std::string divisors(int n) {
  std::string text;
  for (int d = 1; d <= n; ++d) {
    if (n % d == 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", d);
  }
  return text;
}

/// The ranks whose coordinates are equal but for those left out of `colour`.
Collectives split(Communicator& world, int colour, int size, Counters& counters, const char* name) {
  if (size == 1) return {};
  return {world.split(colour, world.rank()), counters, name};
}

}  // namespace

int64_t MeshShape::ranks() const {
  int64_t all = 1;
  for (const Axis& axis : axes_of(*this)) {
    if (__builtin_mul_overflow(all, int64_t{axis.ranks}, &all)) return INT64_MAX;
  }
  return all;
}

std::string objection(const MeshShape& shape, int ranks) {
  const std::vector<Axis> axes = axes_of(shape);
  for (const Axis& axis : axes) {
    if (axis.ranks < 1)
      return fmt::format("{} is {}: each axis of the mesh has at least 1 rank", axis.name, axis.ranks);
  }
  if (shape.ranks() == ranks) return "";
  std::string text = fmt::format("the mesh {} has {} ranks, but there are {}", product(axes), shape.ranks(), ranks);
  MeshShape rest = shape;  // than data parallelism, which takes what is left
  rest.dp = 1;
  const int64_t others = rest.ranks();
  if (ranks % others == 0) return text + fmt::format(": with dp {} it fits", ranks / others);
  return text + fmt::format(": pp x cp x ep x tp is {}, which does not divide {}; what does: {}", others, ranks,
                            divisors(ranks));
}

Mesh::Mesh(Communicator& world, const MeshShape& shape, Counters& counters) : shape_(shape) {
  const std::string wrong = objection(shape, world.size());
  if (!wrong.empty()) throw Error(Code::InvalidArgument, fmt::format("rank {}: {}", world.rank(), wrong));
  const int rank = world.rank();
  at_ = coordinates(rank);
  // How far apart, in ranks, neighbours of an axis are.
  const int cp_step = shape.tp, ep_step = cp_step * shape.cp, pp_step = ep_step * shape.ep,
            dp_step = pp_step * shape.pp;
  const auto along = [&](int size, int without, const char* name) {
    return split(world, rank - without, size, counters, name);
  };
  world_ = split(world, 0, world.size(), counters, "world");
  tp_ = along(shape.tp, at_.tp, "tp");
  cp_ = along(shape.cp, at_.cp * cp_step, "cp");
  ep_ = along(shape.ep, at_.ep * ep_step, "ep");
  pp_ = along(shape.pp, at_.pp * pp_step, "pp");
  dp_ = along(shape.dp, at_.dp * dp_step, "dp");
  replicas_ = along(shape.dp * shape.ep * shape.cp, at_.dp * dp_step + at_.ep * ep_step + at_.cp * cp_step, "replicas");
  expert_replicas_ = along(shape.dp * shape.cp, at_.dp * dp_step + at_.cp * cp_step, "expert replicas");
  warn_of_hosts(world);
}

MeshShape Mesh::coordinates(int rank) const {
  MeshShape at;
  const auto next = [&rank](int size) { return std::exchange(rank, rank / size) % size; };
  at.tp = next(shape_.tp);
  at.cp = next(shape_.cp);
  at.ep = next(shape_.ep);
  at.pp = next(shape_.pp);
  at.dp = rank;
  return at;
}

void Mesh::abort() {
  for (const auto& [name, comm] : axes()) {
    if (!comm->absent()) tuttiCommAbort(comm->communicator().handle());
  }
}

std::vector<std::pair<const char*, Collectives*>> Mesh::axes() {
  return {{"world", &world_},
          {"dp", &dp_},
          {"pp", &pp_},
          {"cp", &cp_},
          {"ep", &ep_},
          {"tp", &tp_},
          {"replicas", &replicas_},
          {"expert replicas", &expert_replicas_}};
}

void Mesh::warn_of_hosts(Communicator& world) {
  if (shape_.tp == 1) return;
  const std::vector<std::string> hosts = hosts_of(world);
  const auto host = [&](int rank) { return hosts[static_cast<size_t>(rank)]; };
  for (int first = 0; first < world.size(); first += shape_.tp) {
    for (int rank = first + 1; rank < first + shape_.tp; ++rank) {
      if (host(rank) == host(first)) continue;
      warning_ = fmt::format(
          "tensor parallelism crosses hosts: ranks {} ({}) and {} ({}) exchange activations several times a layer; "
          "choose a tp that divides the ranks of one host",
          first, host(first), rank, host(rank));
      return;
    }
  }
}

}  // namespace tutti::train
