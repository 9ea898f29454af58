#include "topo/import.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/topologies.hpp"
#include "topo/link_figures.hpp"
#include "topo/paths.hpp"
#include "topo/xml_file.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {
namespace {

using test::node_called;
using test::sample;

std::string refusal(const std::string& text) {
  try {
    import_text(text, "file");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    return error.what();
  }
  return "";
}

const Link& link_between(const Graph& graph, const std::string& a, const std::string& b) {
  const NodeId x = node_called(graph, a), y = node_called(graph, b);
  for (const Link& link : graph.links) {
    if ((link.a == x && link.b == y) || (link.a == y && link.b == x)) return link;
  }
  ADD_FAILURE() << a << " and " << b << " have no link";
  return graph.links.front();
}

TEST(ImportNccl, ReadsWhatVirtualMachinesHide) {
  const Graph graph = sample("nccl-hidden-nvswitch.xml");
  EXPECT_EQ(graph.all(NodeKind::NvSwitch).size(), 1u);
  EXPECT_EQ(link_between(graph, "GPU 0", "NVSwitch").width, 18u);
  EXPECT_EQ(link_between(graph, "GPU 1", "NVSwitch").width, 18u);  // no tclass: NCCL, too, takes it for an NVSwitch
  EXPECT_EQ(graph.nodes[graph.ranks[0]].address, "0002:00:00.0");  // rank="0"
  const Node& nic = graph.nodes[node_called(graph, "NIC mlx5_0")];
  EXPECT_DOUBLE_EQ(nic.port, 47);
  EXPECT_FALSE(nic.assumed);
  EXPECT_EQ(graph.all(NodeKind::Bridge).size(), 0u);  // the disk is left out
  EXPECT_EQ(graph.nodes[node_called(graph, "NUMA node of unknown number")].processors.size(), 32u);
  EXPECT_TRUE(link_between(graph, "GPU 0", "NUMA node of unknown number").assumed);
}

TEST(ImportNccl, ReadsFilesForAKindOfMachine) {
  const Graph graph = sample("nccl-pcie-2-sockets.xml");
  EXPECT_EQ(graph.all(NodeKind::Gpu).size(), 4u);  // the display of the management chip is none
  EXPECT_EQ(graph.ranks.size(), 4u);               // there is no <gpu>: in order
  EXPECT_EQ(graph.nodes[graph.ranks[3]].address, "0000:80:00.0");
  EXPECT_DOUBLE_EQ(link_between(graph, "GPU 1", "PCIe switch 0000:10:00.0").gbps, 12);
  const Node& eth = graph.nodes[node_called(graph, "NIC eth0")];
  EXPECT_DOUBLE_EQ(eth.port, figures::port_ethernet_unknown.gbps);  // speed="-1"
  EXPECT_TRUE(eth.assumed);
}

TEST(ImportNccl, LeavesOutNvlinksThatCannotBe) {
  const Graph graph = sample("nccl-nvlink-pairs.xml");
  EXPECT_EQ(link_between(graph, "GPU 0", "GPU 1").width, 2u);  // both ends tell it
  ASSERT_EQ(graph.notes.size(), 2u);
  EXPECT_EQ(graph.notes[0], "the NVLinks of GPU 2 lead to itself: left out");
  EXPECT_EQ(graph.notes[1], "the NVLinks of GPU 2 to 0000:99:00.0 lead to no known GPU: left out");
  EXPECT_EQ(graph.nodes[graph.ranks[0]].number, 1);  // rank="0"
  EXPECT_EQ(link_between(graph, "GPU 0", "NUMA node 0").gbps, 12);
}

TEST(ImportNccl, MergesNvSwitches) {
  const Graph graph = import_text(
      "<system version='1'><cpu numaid='0'><pci busid='a' class='0x030200'><gpu dev='0' sm='90'>"
      "<nvlink target='0000:05:00.0' count='4' tclass='0x068000'/><nvlink target='0000:06:00.0' count='5' "
      "tclass='0x068000'/></gpu></pci></cpu></system>",
      "file");
  const Link& link = link_between(graph, "GPU 0", "2 NVSwitches");
  EXPECT_EQ(link.width, 9u);
  EXPECT_DOUBLE_EQ(link.gbps, 9 * figures::nvlink_sm90.gbps);
}

TEST(ImportNccl, TellsSeveralHostsOfOneDumpApart) {
  const Graph graph = import_text(
      "<system version='1'><cpu numaid='0' host_hash='0x1'><pci busid='a' class='0x030200'/></cpu>"
      "<cpu numaid='0' host_hash='0x2'><pci busid='a' class='0x030200'/></cpu></system>",
      "file");
  EXPECT_EQ(graph.all(NodeKind::Host).size(), 2u);
  EXPECT_EQ(graph.ranks.size(), 2u);
}

TEST(ImportNccl, NamesTheLineOfAFault) {
  EXPECT_EQ(refusal("<system version='1'>\n<cpu numaid='one'/></system>"),
            "file:2: numaid=\"one\" is not a whole number from -1 to 1048576");
  EXPECT_EQ(refusal("<system version='2'/>"), "file:1: version=\"2\" is not a whole number from 1 to 1");
  EXPECT_EQ(refusal("<system version='1'/>"), "file:1: <system> has no <cpu>");
  EXPECT_EQ(refusal("<system version='1'>\n\n<cpu affinity='0,zz'/></system>"),
            "file:3: affinity: '0,zz' is not a mask of processors");
  EXPECT_EQ(
      refusal("<system version='1'><cpu>\n<pci busid='0:1' class='0x030000'/>\n<pci busid='0:1' class='0x030000'/>"
              "</cpu></system>"),
      "file:3: there are two devices with busid=\"0:1\"");
  EXPECT_EQ(refusal("<system version='1'><cpu><pci class='0x03'><gpu>\n<nvlink count='1'/></gpu></pci></cpu></system>"),
            "file:2: an <nvlink> without a target");
  EXPECT_EQ(refusal("<system version='1'>\n<cpu>\n<nic>\n<net speed='fast'/></nic></cpu></system>"),
            "file:4: speed=\"fast\" is not a whole number from -1 to 100000000");
}

TEST(ImportHwloc, PutsProcessorsIntoEachOther) {
  const Graph graph = sample("hwloc-2-sockets.xml");
  EXPECT_EQ(graph.nodes[0].name, "two-sockets");
  EXPECT_EQ(graph.nodes[0].bytes, uint64_t{16} << 30);
  const NodeId core = node_called(graph, "core 2"), complex = graph.nodes[core].parent;
  EXPECT_EQ(label(graph, complex), "core complex 2-3");
  EXPECT_EQ(label(graph, graph.nodes[complex].parent), "NUMA node 0");
  EXPECT_EQ(link_between(graph, "package 0", "package 1").gbps, figures::socket_amd.gbps);
}

TEST(ImportHwloc, KeepsSwitchesAndLeavesOutPorts) {
  const Graph graph = sample("hwloc-2-sockets.xml");
  EXPECT_EQ(graph.all(NodeKind::Bridge).size(), 1u);
  const NodeId gpu = node_called(graph, "GPU 0");
  EXPECT_EQ(graph.nodes[gpu].model, "GH100 [H100 SXM5]");
  EXPECT_EQ(label(graph, graph.nodes[gpu].parent), "PCIe switch 0000:01:00.0");
  EXPECT_NEAR(link_between(graph, "GPU 0", "PCIe switch 0000:01:00.0").gbps, 48, 0.01);
  const Node& nic = graph.nodes[node_called(graph, "NIC mlx5_0")];
  EXPECT_TRUE(nic.assumed);  // hwloc knows no port's speed
  EXPECT_TRUE(link_between(graph, "GPU 1", "NUMA node 1").assumed);
}

TEST(ImportHwloc, ReadsVersionOneAndHiddenParts) {
  const Graph old = import_text(
      "<topology><object type='Machine' cpuset='0x3'><object type='Socket' os_index='0' cpuset='0x3'>"
      "<object type='Cache' depth='2' cache_size='1048576' cpuset='0x3'><object type='Core' cpuset='0x1'/>"
      "<object type='Core' cpuset='0x2'/></object></object></object></topology>",
      "file");
  EXPECT_EQ(label(old, old.nodes[node_called(old, "core 1")].parent), "core complex 0-1");
  const Graph bare = import_text(
      "<topology><object type='Machine' cpuset='0x3'><object type='PU' os_index='0' cpuset='0x1'/>"
      "<object type='PU' os_index='1' cpuset='0x2'/></object></topology>",
      "file");
  EXPECT_EQ(label(bare, bare.nodes[node_called(bare, "core 1")].parent), "package 0");
}

TEST(ImportHwloc, PutsDevicesSomewhereEvenIfNoProcessorsAreKnown) {
  const Graph graph = import_text(
      "<topology><object type='Machine'><object type='NUMANode'/><object type='Bridge'>"
      "<object type='PCIDev' pci_type='0302 ['/></object></object></topology>",
      "file");
  EXPECT_EQ(PathFinder(graph).between(node_called(graph, "GPU 0"), node_called(graph, "package 0")).kind,
            PathKind::HostBridge);
}

TEST(ImportHwloc, NamesTheLineOfAFault) {
  EXPECT_EQ(refusal("<topology version='2.0'/>"), "file:1: <topology> has no <object>");
  EXPECT_EQ(refusal("<topology>\n<object type='Core'/></topology>"), "file:2: the outermost object is a 'Core'");
  EXPECT_EQ(refusal("<topology><object type='Machine'>\n<object type='Core' cpuset='0xf...f'/></object></topology>"),
            "file:2: cpuset: '0xf...f' is not a mask of processors");
}

TEST(Import, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal(""), "file:1: the file is empty");
  EXPECT_EQ(refusal("\n  system"), "file:1: neither XML (of NCCL or hwloc) nor a topology in JSON");
  EXPECT_EQ(refusal("<!-- x -->\n<html/>"),
            "file:2: <html>: expected <system>, as NCCL writes, or <topology>, as hwloc does");
  EXPECT_NE(refusal("<graphs version='1'/>").find("NCCL_TOPO_DUMP_FILE"), std::string::npos);
  EXPECT_EQ(refusal("<system>\n<cpu></system>").substr(0, 7), "file:2:");
  EXPECT_THROW(import_file("/no/such/file"), Error);
  EXPECT_THROW(import_file("/dev/zero"), Error);
  EXPECT_THROW(import_file(std::filesystem::temp_directory_path()), Error);
}

TEST(Import, IsBounded) {
  std::string deep, many = "<system version='1'>";
  for (int i = 0; i < 1000; ++i) deep += "<pci>";
  EXPECT_EQ(refusal("<system>" + deep).substr(0, 7), "file:1:");
  std::string closed = deep;
  for (int i = 0; i < 1000; ++i) closed += "</pci>";
  EXPECT_EQ(refusal("<system version='1'><cpu>" + closed + "</cpu></system>"),
            "file:1: elements are nested deeper than 64");
  for (size_t i = 0; i <= XmlFile::kMaxElements; ++i) many += "\n<cpu/>";
  EXPECT_EQ(refusal(many + "</system>"), "file:32769: more than 32768 elements");
  EXPECT_NE(refusal("<" + std::string(XmlFile::kLongest, 'a')).find("at most 4194304 are read"), std::string::npos);
}

TEST(Import, DoesNotExpandEntities) {
  const std::string bomb =
      "<!DOCTYPE system [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;'><!ENTITY f SYSTEM 'file:///etc/passwd'>]>\n"
      "<system version='1'><cpu numaid='0' vendor='&b;&f;'/></system>";
  const Graph graph = import_text(bomb, "file");
  EXPECT_EQ(graph.nodes[1].model, "&b;&f;");
}

TEST(Mask, ReadsWordsFromTheRight) {
  EXPECT_EQ(parse_mask("00000001,80000001"), (std::vector<int>{0, 31, 32}));
  EXPECT_EQ(parse_mask("0xf,,0x1"), (std::vector<int>{0, 64, 65, 66, 67}));
  EXPECT_EQ(parse_mask(""), std::vector<int>{});
  EXPECT_THROW(parse_mask("123456789"), Error);
  EXPECT_THROW(parse_mask("-1"), Error);
  EXPECT_THROW(parse_mask(std::string(5000, ',')), Error);
}

}  // namespace
}  // namespace tutti::topo
