// Recognises the launcher of this process from the environment, and gives its ranks one unique id.
//
// Recognised, in this order: `tutti run` (TUTTI_RANK …), torchrun (RANK …), Open MPI's mpirun (OMPI_COMM_WORLD_RANK …),
// MPICH's and Intel's mpiexec (PMI_RANK …), Slurm's srun (SLURM_PROCID …).
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
  Rank local_rank = kNoRank, local_size = 0;  ///< among the ranks of this host; kNoRank, 0: unknown
  std::string job;             ///< identity of the job: equal on its ranks, different from other jobs on these hosts
  bool job_is_parent = false;  ///< only the parent process identifies the job
  std::string secret;          ///< the key for fetching the unique id is derived from it; empty if `store` holds it
  std::string secret_source;   ///< in messages: "TUTTI_KEY", "the job's identity", …
  std::optional<StoreAddress> store;  ///< where the ranks of torchrun agree on a secret
  std::string root;                   ///< host of rank 0, if the launcher names it
  uint16_t port = 0;                  ///< where rank 0 serves the id, between hosts
  std::string id;                     ///< TUTTI_ID: an id made before the launch, in hexadecimal

  /// True if all ranks run on this host. False if the launcher does not say how many do.
  bool one_host() const { return local_size == size || size == 1; }
};

/// Looks up a launcher's variable; empty when unset.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// The launch of this process; empty if no launcher is recognised. Throws Error(InvalidArgument) naming the variables
/// if some are missing or contradict each other, and if ranks of several hosts have no common secret.
std::optional<Launch> recognise_launch();
/// The same with other variables than this process's: for tests.
std::optional<Launch> recognise_launch(const Env& environment, const Lookup& lookup);
/// The launch of a process whose environment has mistakes in unrelated variables, for a rank that must report why it
/// cannot continue. Empty if the mistakes concern the launch.
std::optional<Launch> recognise_launch_despite_mistakes();

/// The first host of a Slurm list: "node[07-09,12],login1" gives "node07".
std::string first_host(const std::string& list);

/// Rank 0 makes a unique id and serves it to the others: over an abstract UNIX socket if all ranks run on one host (and
/// belong to one user), else over TCP at `root`. Collective over the ranks of the launch: the k-th call of one rank
/// matches the k-th call of the others. Both need the key derived from the launch's secret (SECURITY.md). Throws
/// Error(Timeout) naming the missing ranks; SystemError; InvalidArgument.
UniqueId exchange_unique_id(const Launch& launch, Deadline deadline);

/// Called instead of exchange_unique_id(): tells the other ranks that this one cannot take part, and why, which ends
/// their wait. Tries for two seconds at most, since the other ranks may start later. Throws nothing.
void withdraw(const Launch& launch, const Error& why);

}  // namespace tutti::control
