// How this process was launched, read from the environment, and how its ranks then find each other.
//
// Recognised, the first that fits: `tutti run` (TUTTI_RANK …), torchrun (RANK …), Open MPI's mpirun
// (OMPI_COMM_WORLD_RANK …), MPICH's and Intel's mpiexec (PMI_RANK …), Slurm's srun (SLURM_PROCID …).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/deadline.hpp"
#include "base/env.hpp"
#include "base/rank.hpp"
#include "control/bootstrap/torch_store.hpp"
#include "control/bootstrap/unique_id.hpp"
#include "tutti/error.hpp"

namespace tutti::control {

struct Launch {
  std::string launcher;  ///< "tutti run", "torchrun", "mpirun (Open MPI)", "mpiexec (PMI)", "srun"
  Rank rank = 0, size = 1;
  Rank local_rank = kNoRank, local_size = 0;  ///< among the ranks of this host; kNoRank, 0: the launcher did not say
  std::string job;             ///< identity of the job: equal on its ranks, unlike that of any other job on these hosts
  bool job_is_parent = false;  ///< the ranks have nothing in common but the process that started them
  std::string secret;          ///< what the key of the meeting is derived from; empty where `store` has it
  std::string secret_source;   ///< for people: "TUTTI_KEY", "the job's identity", …
  std::optional<StoreAddress> store;  ///< where the ranks of torchrun agree on a secret
  std::string root;                   ///< host of rank 0, where the launcher names it
  uint16_t port = 0;                  ///< where rank 0 hands out the id, between hosts
  std::string id;                     ///< TUTTI_ID: an id made before the launch, in hexadecimal

  /// Where the launcher does not say how many ranks this host has, there may be others.
  bool one_host() const { return local_size == size || size == 1; }
};

/// A variable of a launcher's; nothing when unset.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// The launcher of this process; nothing where none is recognised. Throws Error(InvalidArgument) naming the variables
/// when some are missing or make no sense together, and where ranks of several hosts have no secret in common.
std::optional<Launch> recognise_launch();
/// The same for variables that are not this process's: for tests.
std::optional<Launch> recognise_launch(const Env& environment, const Lookup& lookup);
/// The launch of a process whose environment has mistakes that do not concern it, for a rank that is to say why it
/// cannot go on; nothing where they do.
std::optional<Launch> recognise_launch_despite_mistakes();

/// The first host of a Slurm list: "node[07-09,12],login1" gives "node07".
std::string first_host(const std::string& list);

/// Rank 0 makes a unique id and the others get it: through an abstract UNIX socket where all ranks are on one host (and
/// belong to one user), else by TCP from `root`. Collective over the ranks of the launch: the k-th call of one rank
/// meets the k-th of the others. Both ways need the key derived from the launch's secret (SECURITY.md).
/// Throws Error(Timeout) saying who did not come; SystemError; InvalidArgument.
UniqueId exchange_unique_id(const Launch& launch, Deadline deadline);

/// In place of exchange_unique_id(): tells the other ranks that this one cannot take part, and why, so that their wait
/// ends. For two seconds at most, since they may come later; throws nothing.
void withdraw(const Launch& launch, const Error& why);

}  // namespace tutti::control
