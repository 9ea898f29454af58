#include "control/bootstrap/launch.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/format.hpp"
#include "base/port_range.hpp"
#include "base/secret.hpp"
#include "control/host.hpp"
#include "control/messages.hpp"

namespace tutti::control {
namespace {

/// A whole number in a launcher's variable.
std::optional<Rank> number(const Lookup& lookup, const char* name) {
  const auto text = lookup(name);
  if (!text) return std::nullopt;
  Rank value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 0 || value > kMaxRanks) {
    throw_error(Code::InvalidArgument, "environment variable {}=\"{}\" is not a number from 0 to {}", name, *text,
                kMaxRanks);
  }
  return value;
}

/// A launcher's names for its four numbers. The first two identify the launcher; the others may be unset.
struct Names {
  const char* launcher;
  const char *rank, *size, *local_rank, *local_size;
};
constexpr Names kOurs{"tutti run", "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE"};
constexpr const char* kByHand = "TUTTI_RANK and TUTTI_SIZE set by hand";
constexpr Names kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi{"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kPmi{"mpiexec (PMI)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

using Number = std::optional<Rank>;

void check(const Names& names, const Launch& launch) {
  if (launch.size < 1 || launch.rank >= launch.size) {
    throw_error(Code::InvalidArgument, "{}={} and {}={} contradict each other: ranks are numbered from 0", names.rank,
                launch.rank, names.size, launch.size);
  }
  if (launch.local_size > launch.size) {
    throw_error(Code::InvalidArgument, "{}={} and {}={} contradict each other", names.local_size, launch.local_size,
                names.size, launch.size);
  }
  if (launch.local_size > 0 && launch.local_rank >= launch.local_size) {
    throw_error(Code::InvalidArgument, "{}={} and {}={} contradict each other: ranks are numbered from 0",
                names.local_rank, launch.local_rank, names.local_size, launch.local_size);
  }
}

/// Empty if neither rank nor size is set; an error if only one is.
std::optional<Launch> from_numbers(const Names& names, Number rank, Number size, Number local_rank, Number local_size) {
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    throw_error(Code::InvalidArgument, "environment variable {} is set but {} is not: set both, or neither",
                rank ? names.rank : names.size, rank ? names.size : names.rank);
  }
  Launch launch;
  launch.launcher = names.launcher;
  launch.rank = *rank;
  launch.size = *size;
  launch.local_rank = local_rank.value_or(kNoRank);
  launch.local_size = local_size.value_or(0);
  check(names, launch);
  return launch;
}

std::optional<Launch> from_names(const Names& names, const Lookup& lookup) {
  return from_numbers(names, number(lookup, names.rank), number(lookup, names.size), number(lookup, names.local_rank),
                      number(lookup, names.local_size));
}

uint16_t port_number(const char* name, const std::string& text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) {
    throw_error(Code::InvalidArgument, "environment variable {}=\"{}\" is not a port (1 to 65535)", name, text);
  }
  return port;
}

bool names_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// Identifies the job by its parent process, if no variable does. Valid on one host only.
std::string parent_identity() {
  const auto parent = static_cast<uint32_t>(getppid());
  return fmt::format("parent {} {}", parent, process_start(parent));
}

std::optional<Launch> from_tutti_run(const Env& environment) {
  auto launch = from_numbers(kOurs, environment.rank, environment.size, environment.local_rank, environment.local_size);
  // tutti run sets all of them.
  if (launch && (launch->local_size == 0 || environment.job.empty())) launch->launcher = kByHand;
  // Started by hand, as in TUTTI_RANK=0 TUTTI_SIZE=2 prog: on this host unless TUTTI_ROOT_ADDR names another one.
  const std::string& root = environment.root_addr;
  if (launch && launch->local_size == 0 && (root.empty() || names_loopback(root))) launch->local_size = launch->size;
  return launch;
}

std::optional<Launch> from_torchrun(const Lookup& lookup) {
  auto launch = from_names(kTorchrun, lookup);
  if (!launch) return launch;
  const auto port = lookup("MASTER_PORT");
  if (launch->size > 1 && !port) {
    throw_error(Code::InvalidArgument,
                "environment variables RANK and WORLD_SIZE are set but MASTER_PORT is not: start "
                "with torchrun, or set MASTER_ADDR and MASTER_PORT as it does");
  }
  const std::string host = lookup("MASTER_ADDR").value_or("");
  launch->job = fmt::format("torchrun {} {} {} {}", lookup("TORCHELASTIC_RUN_ID").value_or(""), host, port.value_or(""),
                            lookup("TORCHELASTIC_RESTART_COUNT").value_or(""));
  if (launch->local_size == 0 && names_loopback(host))
    launch->local_size = launch->size;  // no other host reaches a loopback address
  if (!host.empty() && port) {
    const bool by_agent = lookup("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";  // else by rank 0's program
    launch->store = StoreAddress{host, port_number("MASTER_PORT", *port), by_agent};
  }
  return launch;
}

/// A transport key of Open MPI has 128 bits, printed as four numbers of 32. mpirun draws them at random. Slurm, and
/// mpirun without a source of random numbers, use 32-bit numbers in place of 64-bit ones: those can be guessed.
bool is_random_transport_key(const std::string& key) {
  constexpr size_t kHalf = 16;
  if (key.size() != 2 * kHalf + 1 || key[kHalf] != '-') return false;
  for (size_t i = 0; i < key.size(); ++i) {
    if (i != kHalf && std::isxdigit(static_cast<unsigned char>(key[i])) == 0) return false;
  }
  const std::string_view nothing = "00000000";
  for (size_t word : {size_t{0}, size_t{8}, kHalf + 1, kHalf + 9}) {
    if (std::string_view(key).substr(word, 8) == nothing) return false;
  }
  return true;
}

std::optional<Launch> from_open_mpi(const Lookup& lookup) {
  auto launch = from_names(kOpenMpi, lookup);
  if (!launch) return launch;
  if (const auto job = lookup("PMIX_NAMESPACE"))
    launch->job = "pmix " + *job;
  else if (const auto older = lookup("OMPI_MCA_ess_base_jobid"))
    launch->job = "ompi " + *older;
  const auto key = lookup("OMPI_MCA_orte_precondition_transports");
  if (key && is_random_transport_key(*key)) {
    launch->secret = *key;
    launch->secret_source = "Open MPI's transport key";
  }
  return launch;
}

/// MPICH's own launcher says how many ranks a host has; it also runs under Slurm, where its proxies are tasks. Slurm's
/// emulation of its interface does not say so, and then Slurm's own variables are better.
std::optional<Launch> from_pmi(const Lookup& lookup) {
  const bool imitated = !lookup(kPmi.local_size) && lookup("SLURM_STEP_NODELIST");
  return imitated ? std::nullopt : from_names(kPmi, lookup);
}

std::optional<Launch> from_slurm(const Lookup& lookup) {
  const auto hosts = lookup("SLURM_STEP_NODELIST");
  if (!hosts || !lookup("SLURM_PROCID")) return std::nullopt;  // a batch script's own process is not a task of srun
  const char* size = lookup("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  auto launch = from_numbers({"srun", "SLURM_PROCID", size, "SLURM_LOCALID", "the tasks of this host"},
                             number(lookup, "SLURM_PROCID"), number(lookup, size), number(lookup, "SLURM_LOCALID"), {});
  launch->root = first_host(*hosts);
  if (launch->root == *hosts) launch->local_size = launch->size;
  const auto job = lookup("SLURM_JOB_ID"), step = lookup("SLURM_STEP_ID");
  if (!job || !step) {
    throw_error(Code::InvalidArgument, "environment variable SLURM_PROCID is set but {} is not",
                job ? "SLURM_STEP_ID" : "SLURM_JOB_ID");
  }
  launch->job = fmt::format("slurm {} {} {}", *job, *step, lookup("SLURM_RESTART_COUNT").value_or(""));
  return launch;
}

/// Chooses the identity by which the ranks of this job recognise each other.
void choose_job(Launch& launch, const Env& environment) {
  if (!environment.job.empty()) launch.job = environment.job;
  if (!launch.job.empty() || !launch.id.empty()) return;
  if (!launch.one_host()) {
    throw_error(Code::InvalidArgument,
                "{} sets nothing that identifies this job on several hosts: set TUTTI_JOB to the "
                "same new word on all of them{}",
                launch.launcher, environment.key.empty() ? ", and TUTTI_KEY to the same secret" : "");
  }
  launch.job = parent_identity();
  launch.job_is_parent = true;
}

/// Ranks of one host use a UNIX socket that accepts only processes of their user. Ranks of several hosts need a secret.
void choose_secret(Launch& launch, const Env& environment) {
  const bool public_will_do = launch.one_host() || environment.insecure_key || !launch.id.empty();
  if (!environment.key.empty()) {
    launch.store.reset();
    launch.secret = environment.key;
    launch.secret_source = "TUTTI_KEY";
  } else if (!launch.secret.empty()) {
    launch.store.reset();
  } else if (public_will_do) {
    launch.store.reset();
    launch.secret = launch.job;
    launch.secret_source = "the job's identity";
  } else if (launch.store) {
    launch.secret_source = fmt::format("torchrun's store at {}:{}", launch.store->host, launch.store->port);
  } else {
    throw_error(
        Code::InvalidArgument,
        "rank {} of {} ({}): {}, and {} gives them no secret: anyone who can reach rank 0 could guess the key and "
        "join. "
        "Either set TUTTI_KEY to the same secret on all ranks (export TUTTI_KEY=$(openssl rand -hex 32), and have the "
        "launcher pass it on), or start the job with tutti run, which makes one. TUTTI_INSECURE_KEY=1 accepts a key "
        "that can be guessed",
        launch.rank, launch.size, launch.launcher,
        launch.local_size > 0 ? "the ranks of this job run on several hosts"
                              : "it is not known that all ranks of this job run on one host",
        launch.launcher);
  }
}

/// The first of TUTTI_PORTS, else one derived from the job. If TUTTI_PORTS is invalid, the control thread says so after
/// the ranks have met.
uint16_t usual_port(const Launch& launch, const Env& environment) {
  constexpr uint64_t kFirst = 10000, kPorts = 20000;  // below the ports that kernels assign by themselves
  const auto derived = static_cast<uint16_t>(kFirst + hash64(launch.job) % kPorts);
  if (environment.ports.empty()) return derived;
  try {
    return parse_port_range(environment.ports).first;
  } catch (const Error&) {
    return derived;
  }
}

/// Tutti's own variables take precedence over the launcher's.
void complete(Launch& launch, const Env& environment, const Lookup& lookup) {
  if (!environment.root_addr.empty()) launch.root = environment.root_addr;
  if (launch.root.empty()) launch.root = lookup("MASTER_ADDR").value_or("");
  launch.id = environment.id;
  choose_job(launch, environment);
  choose_secret(launch, environment);
  launch.port = environment.port ? static_cast<uint16_t>(*environment.port) : usual_port(launch, environment);
}

}  // namespace

std::string first_host(const std::string& list) {
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const size_t end = list.find(']', i);
    host += list.substr(i + 1, std::min(end, list.find_first_of(",-", i)) - i - 1);
    if (end == std::string::npos) break;
    i = end;
  }
  return host;
}

std::optional<Launch> recognise_launch(const Env& environment, const Lookup& lookup) {
  auto launch = from_tutti_run(environment);
  if (!launch) launch = from_torchrun(lookup);
  if (!launch) launch = from_open_mpi(lookup);
  if (!launch) launch = from_pmi(lookup);
  if (!launch) launch = from_slurm(lookup);
  if (launch) complete(*launch, environment, lookup);
  return launch;
}

std::optional<Launch> recognise_launch() { return recognise_launch(env(), foreign_env); }

std::optional<Launch> recognise_launch_despite_mistakes() {
  const UsableEnv usable = usable_env();
  try {
    return recognise_launch(usable.ours, [&](const char* name) -> std::optional<std::string> {
      const auto found = usable.others.find(name);
      return found == usable.others.end() ? std::nullopt : std::optional(found->second);
    });
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace tutti::control
