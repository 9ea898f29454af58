#include "control/bootstrap/launch.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tutti/error.hpp"

namespace tutti::control {
namespace {

using Variables = std::map<std::string, std::string>;

/// The launch recognised with these variables. Tutti's own pass through their table, as in a real process.
std::optional<Launch> recognise(const Variables& variables) {
  Env environment;
  for (const EnvRow& row : env_table()) {
    if (const auto found = variables.find(row.name); found != variables.end()) row.set(environment, found->second);
  }
  return recognise_launch(environment, [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

/// The error text that these variables cause.
std::string complaint(const Variables& variables) {
  try {
    recognise(variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

const Variables kTuttiRun{{"TUTTI_RANK", "1"},       {"TUTTI_SIZE", "4"},     {"TUTTI_LOCAL_RANK", "1"},
                          {"TUTTI_LOCAL_SIZE", "2"}, {"TUTTI_JOB", "c0ffee"}, {"TUTTI_ROOT_ADDR", "10.0.0.1"},
                          {"TUTTI_PORT", "7777"},    {"TUTTI_KEY", "5ec7e7"}};
const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "3"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"MASTER_ADDR", "node1"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "none"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"PMIX_NAMESPACE", "3941793793"}};
const Variables kHydra{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
const Variables kSrun{
    {"SLURM_PROCID", "5"},  {"SLURM_NTASKS", "6"},  {"SLURM_STEP_NUM_TASKS", "6"},           {"SLURM_LOCALID", "1"},
    {"SLURM_JOB_ID", "42"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "gpu[07-08,11]"}};
const Variables kKey{{"TUTTI_KEY", "5ec7e7"}};

TEST(Launch, NoLauncherIsNoLaunch) {
  EXPECT_FALSE(recognise({}));
  EXPECT_FALSE(recognise({{"HOME", "/root"}, {"MASTER_ADDR", "node1"}, {"TUTTI_KEY", "x"}}));
  EXPECT_FALSE(recognise({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "42"}}))
      << "a batch script's own process is not a task";
}

TEST(Launch, TuttiRunIsRecognised) {
  const auto launch = recognise(kTuttiRun);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "tutti run");
  EXPECT_EQ(launch->rank, 1);
  EXPECT_EQ(launch->size, 4);
  EXPECT_EQ(launch->local_rank, 1);
  EXPECT_EQ(launch->local_size, 2);
  EXPECT_FALSE(launch->one_host());
  EXPECT_EQ(launch->job, "c0ffee");
  EXPECT_EQ(launch->secret, "5ec7e7");
  EXPECT_EQ(launch->root, "10.0.0.1");
  EXPECT_EQ(launch->port, 7777);
}

TEST(Launch, RanksMeetAtTheFirstOfTheFixedPorts) {
  EXPECT_EQ(recognise(with(kTorchrun, {{"TUTTI_PORTS", "23000-23007"}}))->port, 23000);
  EXPECT_EQ(recognise(with(kTorchrun, {{"TUTTI_PORTS", "23000-23007"}, {"TUTTI_PORT", "5"}}))->port, 5);
  EXPECT_TRUE(recognise(with(kTorchrun, {{"TUTTI_PORTS", "23000"}}))) << "it must be able to tell the others";
}

TEST(Launch, RanksStartedByHandAreOnThisHost) {
  const auto launch = recognise({{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}});
  ASSERT_TRUE(launch);
  EXPECT_TRUE(launch->one_host());
  EXPECT_TRUE(contains(launch->job, "parent ")) << launch->job;
}

TEST(Launch, TorchrunIsRecognised) {
  const auto launch = recognise(kTorchrun);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "torchrun");
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 8);
  EXPECT_EQ(launch->local_rank, 3);
  EXPECT_EQ(launch->local_size, 4);
  EXPECT_EQ(launch->root, "node1");
  EXPECT_GE(launch->port, 10000);
  EXPECT_LT(launch->port, 30000);
  EXPECT_NE(launch->job, recognise(with(kTorchrun, {{"MASTER_PORT", "29501"}}))->job);
  EXPECT_NE(launch->job, recognise(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}}))->job);
}

TEST(Launch, OpenMpiIsRecognised) {
  const auto launch = recognise(kOpenMpi);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "mpirun (Open MPI)");
  EXPECT_EQ(launch->rank, 2);
  EXPECT_EQ(launch->size, 4);
  EXPECT_TRUE(launch->one_host());
  EXPECT_EQ(launch->job, "pmix 3941793793");
}

TEST(Launch, HydraIsRecognised) {
  const auto launch = recognise(kHydra);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "mpiexec (PMI)");
  EXPECT_EQ(launch->rank, 0);
  EXPECT_EQ(launch->size, 2);
  EXPECT_TRUE(launch->one_host());
  EXPECT_TRUE(contains(launch->job, "parent ")) << launch->job;
}

TEST(Launch, SrunIsRecognised) {
  const auto launch = recognise(with(kSrun, kKey));
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "srun");
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->size, 6);
  EXPECT_EQ(launch->local_rank, 1);
  EXPECT_FALSE(launch->one_host());
  EXPECT_EQ(launch->root, "gpu07");
  EXPECT_EQ(launch->job, "slurm 42 0 ");
  EXPECT_TRUE(recognise(with(kSrun, {{"SLURM_STEP_NODELIST", "gpu07"}}))->one_host());
}

TEST(Launch, TheInnermostLauncherCounts) {
  EXPECT_EQ(recognise(with(kSrun, kOpenMpi))->launcher, "mpirun (Open MPI)");
  EXPECT_EQ(recognise(with(kSrun, kTorchrun))->launcher, "torchrun");
  EXPECT_EQ(recognise(with(kSrun, kHydra))->launcher, "mpiexec (PMI)");
  EXPECT_EQ(recognise(with(with(kSrun, kKey), {{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}}))->launcher, "srun");
  EXPECT_EQ(recognise(with(kOpenMpi, kTuttiRun))->launcher, "tutti run");
}

TEST(Launch, TuttisVariablesOverrideTheLaunchers) {
  const auto launch = recognise(
      with(kTorchrun,
           {{"TUTTI_JOB", "mine"}, {"TUTTI_KEY", "secret"}, {"TUTTI_PORT", "5"}, {"TUTTI_ROOT_ADDR", "elsewhere"}}));
  EXPECT_EQ(launch->job, "mine");
  EXPECT_EQ(launch->secret, "secret");
  EXPECT_EQ(launch->port, 5);
  EXPECT_EQ(launch->root, "elsewhere");
}

TEST(Launch, RanksOfOneHostNeedNoSecret) {
  for (const Variables& one_host :
       {kOpenMpi, kHydra, with(kSrun, {{"SLURM_STEP_NODELIST", "gpu07"}}), with(kTorchrun, {{"LOCAL_WORLD_SIZE", "8"}}),
        Variables{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}}, Variables{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}}) {
    const auto launch = recognise(one_host);
    EXPECT_TRUE(launch->one_host());
    EXPECT_EQ(launch->secret, launch->job);
    EXPECT_FALSE(launch->store);
  }
}

TEST(Launch, ALoopbackMasterAddressMeansOneHost) {
  Variables by_hand{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}};
  for (const char* host : {"localhost", "127.0.0.1", "::1"}) {
    EXPECT_TRUE(recognise(with(by_hand, {{"MASTER_ADDR", host}}))->one_host()) << host;
  }
  EXPECT_FALSE(recognise(with(by_hand, {{"MASTER_ADDR", "node1"}}))->one_host());
}

TEST(Launch, RanksOfSeveralHostsUseTheirLaunchersSecret) {
  const auto torchrun = recognise(kTorchrun);
  EXPECT_EQ(torchrun->store, (StoreAddress{"node1", 29500, false}));
  EXPECT_EQ(torchrun->secret, "");
  EXPECT_EQ(recognise(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))->store,
            (StoreAddress{"node1", 29500, true}));
  const Variables key{{"OMPI_MCA_orte_precondition_transports", "a2424b0d2bfbe942-6fa0f588984c2537"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
  EXPECT_EQ(recognise(with(kOpenMpi, key))->secret, "a2424b0d2bfbe942-6fa0f588984c2537");
}

TEST(Launch, TuttiKeyOverridesTheLaunchersSecret) {
  const auto launch = recognise(with(kTorchrun, kKey));
  EXPECT_EQ(launch->secret, "5ec7e7");
  EXPECT_FALSE(launch->store);
}

TEST(Launch, RanksStartedByHandWithALoopbackRootAreOnOneHost) {
  const Variables by_hand{
      {"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}, {"TUTTI_JOB", "word"}, {"TUTTI_ROOT_ADDR", "127.0.0.1"}};
  EXPECT_TRUE(recognise(by_hand)->one_host());
}

TEST(Launch, RanksOfSeveralHostsWithoutASecretAreRefusedWithBothRemedies) {
  const Variables two_hosts{{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
  const Variables by_hand{
      {"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}, {"TUTTI_JOB", "word"}, {"TUTTI_ROOT_ADDR", "node1"}};
  const Variables hydra = with(kHydra, {{"PMI_SIZE", "4"}, {"TUTTI_JOB", "word"}});
  for (const Variables& several : {kSrun, with(kOpenMpi, two_hosts), by_hand, hydra}) {
    const std::string text = complaint(several);
    EXPECT_TRUE(contains(text, "TUTTI_KEY") && contains(text, "tutti run") && contains(text, "TUTTI_INSECURE_KEY=1"))
        << text;
    const auto accepted = recognise(with(several, {{"TUTTI_INSECURE_KEY", "1"}}));
    EXPECT_EQ(accepted->secret, accepted->job);
    EXPECT_EQ(recognise(with(several, kKey))->secret, "5ec7e7");
  }
}

TEST(Launch, AGivenIdNeedsNoSecret) { EXPECT_EQ(recognise(with(kSrun, {{"TUTTI_ID", "abc"}}))->id, "abc"); }

TEST(Launch, AGuessableTransportKeyIsNotASecret) {
  const Variables two_hosts =
      with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  for (const char* key : {"017569a900000000-017569a900000000",  // Slurm's: the number of the job
                          "6b8b456700000000-327b23c600000000",  // the time
                          "a2424b0d2bfbe942-6fa0f588984c253", "a2424b0d2bfbe942x6fa0f588984c2537", "",
                          "a2424b0d2bfbe942-6fa0f588984c253g"}) {
    const Variables guessable{{"OMPI_MCA_orte_precondition_transports", key}};
    EXPECT_TRUE(contains(complaint(with(two_hosts, guessable)), "TUTTI_KEY")) << key;
  }
}

TEST(Launch, HalfSetVariablesAreAnErrorThatNamesThem) {
  EXPECT_TRUE(contains(complaint({{"TUTTI_RANK", "0"}}), "TUTTI_RANK is set but TUTTI_SIZE is not"));
  EXPECT_TRUE(contains(complaint({{"TUTTI_SIZE", "2"}}), "TUTTI_SIZE is set but TUTTI_RANK is not"));
  EXPECT_TRUE(contains(complaint({{"WORLD_SIZE", "2"}}), "WORLD_SIZE is set but RANK is not"));
  EXPECT_TRUE(contains(complaint({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "MASTER_PORT"));
  EXPECT_TRUE(contains(complaint(with(kTorchrun, {{"MASTER_PORT", "70000"}})), "MASTER_PORT=\"70000\""));
  EXPECT_TRUE(contains(complaint({{"OMPI_COMM_WORLD_RANK", "0"}}), "OMPI_COMM_WORLD_SIZE is not"));
  Variables no_job = kSrun;
  no_job.erase("SLURM_JOB_ID");
  EXPECT_TRUE(contains(complaint(no_job), "SLURM_JOB_ID"));
  EXPECT_TRUE(contains(complaint({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}}), "TUTTI_JOB"));
}

TEST(Launch, ContradictionsAreAnErrorThatNamesThem) {
  EXPECT_TRUE(contains(complaint({{"TUTTI_RANK", "4"}, {"TUTTI_SIZE", "4"}}), "TUTTI_RANK=4 and TUTTI_SIZE=4"));
  EXPECT_TRUE(contains(complaint(with(kTorchrun, {{"LOCAL_RANK", "4"}})), "LOCAL_RANK=4 and LOCAL_WORLD_SIZE=4"));
  EXPECT_TRUE(contains(complaint(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}})), "LOCAL_WORLD_SIZE=9 and WORLD_SIZE=8"));
  for (const char* odd : {"-1", "x", "1x", "", "99999999999", "0x1", " 1"}) {
    EXPECT_TRUE(contains(complaint(with(kTorchrun, {{"RANK", odd}})), "RANK=\"" + std::string(odd) + "\"")) << odd;
  }
}

TEST(Launch, TheFirstHostOfASlurmListIsFound) {
  EXPECT_EQ(first_host("node1"), "node1");
  EXPECT_EQ(first_host("node1,node2"), "node1");
  EXPECT_EQ(first_host("node[07-09,12],login1"), "node07");
  EXPECT_EQ(first_host("node[3,5]"), "node3");
  EXPECT_EQ(first_host("rack[1-2]node[01-04]"), "rack1node01");
  EXPECT_EQ(first_host("n[5]-ib"), "n5-ib");
  for (const char* odd : {"", "[", "]", "[[", "a[", "a[1", "a]", ",", "[,]", "a[]b"}) EXPECT_NO_THROW(first_host(odd));
}

}  // namespace
}  // namespace tutti::control
