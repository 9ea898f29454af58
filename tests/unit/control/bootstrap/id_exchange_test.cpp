#include <gtest/gtest.h>

#include <sstream>

#include "base/socket.hpp"
#include "control/bootstrap/launch.hpp"
#include "control/endpoint.hpp"
#include "support/child.hpp"
#include "tutti/tutti.h"

namespace tutti::control {
namespace {

using test::Child;
using test::Line;
using test::Role;

/// Recognises its launch, fetches the id, joins, exchanges and leaves, as often as the argument says.
int launched_main(const std::string& argument, Line& test) {
  const int times = std::stoi(argument);
  const auto launch = recognise_launch();
  if (!launch) return 2;
  for (int i = 0; i < times; ++i) {
    const UniqueId id = exchange_unique_id(*launch, Deadline::in(20));
    const auto endpoint = Endpoint::join(id, launch->size, launch->rank, "", Deadline::in(20));
    test.tell(id.name() + " " + std::to_string(endpoint->exchange("x", Deadline::in(20)).size()));
    endpoint->leave(1, Deadline::in(20));
  }
  return 0;
}
const Role kLaunched("launched", launched_main);

/// Creates a communicator as a program does, or returns the error.
int program_main(const std::string&, Line& test) {
  tuttiComm_t comm = nullptr;
  if (tuttiCommInitEnv(&comm) == tuttiSuccess) {
    test.tell("joined");
    return tuttiCommDestroy(comm);
  }
  test.tell(tuttiGetLastError());
  return 0;
}
const Role kProgram("program", program_main);

std::string variables(Rank rank, Rank size, const std::string& more) {
  std::ostringstream text;
  text << "TUTTI_RANK=" << rank << " TUTTI_SIZE=" << size << ' ' << more;
  return text.str();
}

/// Starts ranks in the order given and expects that all get the same id, `times` times, a new id each time.
void expect_same_ids(const std::vector<Rank>& order, const std::string& environment, int times) {
  std::vector<Child> children;
  const auto size = static_cast<Rank>(order.size());
  for (Rank rank : order) children.emplace_back("launched", std::to_string(times), variables(rank, size, environment));
  std::string before;
  for (int i = 0; i < times; ++i) {
    const std::string name = children[0].receive();
    EXPECT_NE(name, before);
    EXPECT_NE(name.find(std::string(" ").append(std::to_string(size))), std::string::npos) << name;
    for (size_t c = 1; c < children.size(); ++c) EXPECT_EQ(children[c].receive(), name);
    before = name;
  }
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
}

std::string free_port() {
  const Fd fd = listen_tcp(0);
  return std::to_string(port_of(fd.get()));
}

TEST(IdExchange, RanksOfOneHostAreMatchedByJob) {
  expect_same_ids({0, 1, 2}, "TUTTI_LOCAL_SIZE=3 TUTTI_JOB=" + random_hex(8), 3);
}

TEST(IdExchange, RankZeroMayStartLast) {
  expect_same_ids({2, 1, 0}, "TUTTI_LOCAL_SIZE=3 TUTTI_JOB=" + random_hex(8), 1);
}

TEST(IdExchange, SiblingsNeedNoJobName) { expect_same_ids({1, 0}, "", 1); }

TEST(IdExchange, RanksOfSeveralHostsUseTcp) {
  const std::string where = "TUTTI_LOCAL_SIZE=1 TUTTI_ROOT_ADDR=localhost TUTTI_KEY=5ec7e7 TUTTI_PORT=" + free_port();
  expect_same_ids({1, 0, 2}, where + " TUTTI_JOB=" + random_hex(8), 2);
}

TEST(IdExchange, TwoJobsOfOneHostGetDifferentIds) {
  const std::string one = "TUTTI_LOCAL_SIZE=2 TUTTI_JOB=" + random_hex(8);
  const std::string other = "TUTTI_LOCAL_SIZE=2 TUTTI_JOB=" + random_hex(8);
  Child a0("launched", "1", variables(0, 2, one)), b0("launched", "1", variables(0, 2, other));
  Child a1("launched", "1", variables(1, 2, one)), b1("launched", "1", variables(1, 2, other));
  const std::string a = a0.receive(), b = b0.receive();
  EXPECT_NE(a, b);
  EXPECT_EQ(a1.receive(), a);
  EXPECT_EQ(b1.receive(), b);
}

Launch launch_of_two(Rank rank) {
  Launch launch;
  launch.launcher = "a test";
  launch.rank = rank;
  launch.size = launch.local_size = 2;
  launch.job = launch.secret = random_hex(8);
  return launch;
}

TEST(IdExchange, TheTimeOutNamesTheMissingRank) {
  for (Rank rank : {0, 1}) {
    try {
      exchange_unique_id(launch_of_two(rank), Deadline::in(0.1));
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::Timeout);
      EXPECT_NE(std::string(error.what()).find(rank == 0 ? "timed out waiting for rank 1" : "from rank 0"),
                std::string::npos)
          << error.what();
    }
  }
}

/// Rank `mistaken` of three has a mistake in its environment. Returns its error and the others' errors.
void expect_error_on_all(Rank mistaken, const std::string& mistake, const std::string& words) {
  const std::string common = "TUTTI_LOCAL_SIZE=3 TUTTI_JOB=" + random_hex(8) + " TUTTI_INIT_TIMEOUT=60";
  std::vector<Child> ranks;
  for (Rank rank = 0; rank < 3; ++rank) {
    ranks.emplace_back("program", "", variables(rank, 3, common + (rank == mistaken ? " " + mistake : "")));
  }
  for (Rank rank = 0; rank < 3; ++rank) {
    const std::string text = ranks[static_cast<size_t>(rank)].receive();
    EXPECT_NE(text.find(words), std::string::npos) << text;
    const std::string who = "rank " + std::to_string(mistaken) + " (process ";
    EXPECT_EQ(text.find(who) != std::string::npos, rank != mistaken) << text;
  }
}

TEST(IdExchange, AMistakeInOneRanksEnvironmentFailsAllRanks) {
  for (Rank mistaken : {0, 1, 2}) {
    expect_error_on_all(mistaken, "TUTTI_TIMEOUT=soon", "TUTTI_TIMEOUT=\"soon\" cannot be used");
    expect_error_on_all(mistaken, "TUTTI_PORTS=23000", "TUTTI_PORTS=\"23000\" is not a range of two ports");
    expect_error_on_all(mistaken, "TUTTI_INTERFACE=nope0", "TUTTI_INTERFACE='nope0' matches no network interface");
  }
}

TEST(IdExchange, TheTimeOutSuggestsTuttiJob) {
  Launch launch = launch_of_two(1);
  launch.job_is_parent = true;
  try {
    exchange_unique_id(launch, Deadline::in(0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("TUTTI_JOB is not set"), std::string::npos) << error.what();
  }
}

TEST(IdExchange, AGivenIdNeedsNoExchange) {
  Launch launch = launch_of_two(1);
  const UniqueId id = create_unique_id();
  launch.id = id.hex();
  EXPECT_EQ(exchange_unique_id(launch, Deadline::in(0)), id);
  release_unique_id(id);
}

TEST(IdExchange, SeveralHostsWithoutARootAreAnError) {
  Launch launch = launch_of_two(1);
  launch.local_size = 1;
  try {
    exchange_unique_id(launch, Deadline::in(1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("TUTTI_ROOT_ADDR"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tutti::control
