// Detection from trees and libraries that tests present.
#include "topo/detect.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/topologies.hpp"
#include "topo/link_figures.hpp"
#include "topo/nvml.hpp"
#include "topo/paths.hpp"
#include "topo/ports.hpp"

namespace tutti::topo {
namespace {

namespace fs = std::filesystem;
using test::node_called;

/// A folder with files as the kernel presents them.
class FakeRoot {
 public:
  FakeRoot() : root_(fs::path(testing::TempDir()) / ("tutti-topo-root-" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "sys/class/net");
  }
  ~FakeRoot() { fs::remove_all(root_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  std::string path() const { return root_; }
  void file(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text << '\n';
  }
  /// A device's folder below a PCI address, and the link of a class to it.
  void device(const std::string& kind, const std::string& name, const std::string& address) const {
    const fs::path real = "sys/devices/pci0000:00/" + address;
    fs::create_directories(root_ / real / kind / name);
    fs::create_directories(root_ / "sys/class" / kind);
    fs::create_directory_symlink(root_ / real / kind / name, root_ / "sys/class" / kind / name);
    fs::create_directory_symlink(root_ / real, root_ / real / kind / name / "device");
    file(real / "numa_node", "1");
  }
  void rdma(const std::string& name, const std::string& address, const std::string& state,
            const std::string& rate) const {
    device("infiniband", name, address);
    file("sys/class/infiniband/" + name + "/ports/1/state", state);
    file("sys/class/infiniband/" + name + "/ports/1/rate", rate);
  }
  void net(const std::string& name, const std::string& address, const std::string& speed,
           const std::string& state) const {
    device("net", name, address);
    interface(name, speed, state);
  }
  void interface(const std::string& name, const std::string& speed, const std::string& state) const {
    file("sys/class/net/" + name + "/type", "1");
    if (!speed.empty()) file("sys/class/net/" + name + "/speed", speed);
    file("sys/class/net/" + name + "/operstate", state);
  }

 private:
  fs::path root_;
};

/// Sets FAKE_NVML for a test.
class FakeNvml {
 public:
  explicit FakeNvml(const char* mode) { ::setenv("FAKE_NVML", mode, 1); }
  ~FakeNvml() { ::unsetenv("FAKE_NVML"); }
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;
};

Sources two_sockets(const FakeRoot& root, const std::string& nvml = "") {
  return {root.path(), nvml, test::text_of(test::topology_path("hwloc-2-sockets.xml"))};
}

TEST(Ports, TellRateAndStateOfRdmaAdapters) {
  const FakeRoot root;
  root.rdma("mlx5_0", "0000:04:00.0", "4: ACTIVE", "400 Gb/sec (4X NDR)");
  root.rdma("mlx5_1", "0000:84:00.0", "1: DOWN", "10 Gb/sec (4X SDR)");
  root.net("ib0", "0000:04:00.0", "400000", "up");  // of the same device
  root.net("eth0", "0000:06:00.0", "-1", "up");
  root.interface("docker0", "10000", "up");  // no device
  root.interface("lo", "", "unknown");
  const std::vector<PortReport> ports = read_ports(root.path());
  ASSERT_EQ(ports.size(), 3u);
  EXPECT_EQ(ports[0].name, "mlx5_0");
  EXPECT_EQ(ports[0].address, "0000:04:00.0");
  EXPECT_EQ(ports[0].mbps, 400000);
  EXPECT_EQ(ports[0].numa, 1);
  EXPECT_TRUE(ports[0].rdma);
  EXPECT_FALSE(ports[1].active);
  EXPECT_EQ(ports[2].name, "eth0");
  EXPECT_EQ(ports[2].mbps, 0);
  EXPECT_FALSE(ports[2].rdma);
}

TEST(Ports, WithoutADeviceCountWhereNothingElseIs) {
  const FakeRoot root;
  root.interface("eth0", "10000", "up");
  root.interface("ifb0", "", "down");
  const std::vector<PortReport> ports = read_ports(root.path());
  ASSERT_EQ(ports.size(), 1u);
  EXPECT_EQ(ports[0].name, "eth0");
  EXPECT_EQ(ports[0].mbps, 10000);
  EXPECT_EQ(ports[0].address, "");
}

TEST(Ports, MayBeNone) { EXPECT_TRUE(read_ports("/no/such/root").empty()); }

TEST(Nvml, MayBeMissingOrBroken) {
  const NvmlReport missing = read_nvml("libno-such-library.so.1");
  EXPECT_TRUE(missing.gpus.empty());
  EXPECT_EQ(missing.problem, "");
  const FakeNvml broken("broken");
  EXPECT_EQ(read_nvml(TUTTI_FAKE_NVML).problem, "NVML cannot start: Driver Not Loaded");
}

TEST(Nvml, TellsGpusAndLinks) {
  const FakeNvml hidden("hidden");
  const NvmlReport report = read_nvml(TUTTI_FAKE_NVML);
  ASSERT_EQ(report.gpus.size(), 2u);
  EXPECT_EQ(report.gpus[1].address, "0000:81:00.0");
  EXPECT_EQ(report.gpus[1].sm, 90);
  EXPECT_EQ(report.gpus[1].bytes, uint64_t{85} << 30);
  ASSERT_EQ(report.gpus[1].links.size(), 18u);
  EXPECT_EQ(report.gpus[1].links[0].peer, "hidden");
  EXPECT_EQ(report.gpus[1].links[1].peer, "hidden");
}

TEST(Detect, KnowsPortsThatHwlocCannot) {
  const FakeRoot root;
  root.rdma("mlx5_0", "0000:04:00.0", "4: ACTIVE", "400 Gb/sec (4X NDR)");
  const Graph graph = detect(two_sockets(root));
  const Node& nic = graph.nodes[node_called(graph, "NIC mlx5_0")];
  EXPECT_DOUBLE_EQ(nic.port, 47);
  EXPECT_FALSE(nic.assumed);
}

TEST(Detect, SaysThatAPortIsDown) {
  const FakeRoot root;
  root.rdma("mlx5_0", "0000:04:00.0", "1: DOWN", "10 Gb/sec");
  const Graph graph = detect(two_sockets(root));
  EXPECT_EQ(graph.nodes[node_called(graph, "NIC mlx5_0")].port, 0);
  EXPECT_EQ(graph.notes, std::vector<std::string>{"NIC mlx5_0: no port is up, so nothing goes over it"});
}

TEST(Detect, AddsDevicesThatAContainerHides) {
  const FakeRoot root;
  root.rdma("mlx5_9", "0000:99:00.0", "4: ACTIVE", "100 Gb/sec (4X EDR)");  // NUMA node 1
  const Graph graph = detect(two_sockets(root));
  const NodeId nic = node_called(graph, "NIC mlx5_9");
  EXPECT_EQ(label(graph, graph.nodes[nic].parent), "NUMA node 1");
  EXPECT_DOUBLE_EQ(graph.nodes[nic].port, 11.75);
}

TEST(Detect, TellsNvlinksFromNvml) {
  const FakeRoot root;
  const Graph switched = detect(two_sockets(root, TUTTI_FAKE_NVML));
  const PathFinder finder(switched);
  EXPECT_EQ(finder.between(switched.ranks.at(0), switched.ranks.at(1)).kind, PathKind::NvSwitch);
  EXPECT_NEAR(finder.between(switched.ranks[0], switched.ranks[1]).gbps, 371, 1);
  EXPECT_EQ(switched.nodes[node_called(switched, "2 NVSwitches")].count, 2u);
  EXPECT_EQ(switched.nodes[switched.ranks[0]].model, "NVIDIA H100 80GB HBM3");
  const FakeNvml pair("pair");
  const Graph paired = detect(two_sockets(root, TUTTI_FAKE_NVML));
  EXPECT_EQ(PathFinder(paired).between(paired.ranks.at(0), paired.ranks.at(1)).kind, PathKind::NvLink);
}

TEST(Detect, SaysWhyNvmlTellsNothing) {
  const FakeRoot root;
  const FakeNvml broken("broken");
  const Graph graph = detect(two_sockets(root, TUTTI_FAKE_NVML));
  EXPECT_EQ(graph.notes, std::vector<std::string>{"NVML cannot start: Driver Not Loaded: nothing is known of NVLinks"});
}

TEST(Detect, TakesTheQuotaOfTheControlGroup) {
  const FakeRoot root;
  root.file("proc/self/cgroup", "0::/box");
  root.file("sys/fs/cgroup/box/cpu.max", "150000 100000");
  EXPECT_DOUBLE_EQ(detect(two_sockets(root)).nodes[0].quota, 1.5);
}

TEST(Detect, OfThisMachineIsValidAndKept) {
  const Graph& graph = local_topology();
  check(graph);
  EXPECT_EQ(&graph, &local_topology());
  EXPECT_EQ(graph.nodes[0].kind, NodeKind::Host);
  EXPECT_EQ(graph.nodes[0].usable, allowed_cores());
}

TEST(Detect, ATopologyOfAnotherMachineIsNamedWithTheDifference) {
  Graph host;
  host.add({.kind = NodeKind::Host, .processors = {0, 1}});
  EXPECT_EQ(why_of_another(host, {0}, 2), "") << "a part of it";
  EXPECT_EQ(why_of_another(host, {0, 1}, 4), "") << "two others are offline";
  EXPECT_EQ(why_of_another(host, {1, 2, 3}, 4), "has processors 0-1, and this process may run on 2-3 too");
  EXPECT_EQ(why_of_another(host, {0}, 1), "has 2 processors, and this machine 1");
  host.nodes[0].processors.clear();
  EXPECT_EQ(why_of_another(host, {7}, 8), "") << "nothing is known";
  host.add({.kind = NodeKind::Host});
  EXPECT_EQ(why_of_another(host, {7}, 8), "has 2 hosts");
}

}  // namespace
}  // namespace tutti::topo
