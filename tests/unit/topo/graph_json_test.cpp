#include "topo/graph_json.hpp"

#include <gtest/gtest.h>

#include "support/topologies.hpp"
#include "topo/cluster.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {
namespace {

using test::sample;

constexpr const char* kHead = "{\"format\": \"tutti-topology\", \"version\": 1,\n";

std::string refusal(const std::string& text) {
  try {
    graph_of_json(text, "file");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    return error.what();
  }
  return "";
}

TEST(GraphJson, IsReadAsItWasWritten) {
  for (const char* name : {"hwloc-2-sockets.xml", "nccl-hidden-nvswitch.xml", "nccl-nvlink-pairs.xml"}) {
    const Graph graph = cluster(sample(name), 2);
    const std::string text = to_json(graph);
    const Graph again = graph_of_json(text, "file");
    EXPECT_EQ(to_json(again), text) << name;
    EXPECT_EQ(hash_of(again), hash_of(graph)) << name;
    EXPECT_EQ(again.ranks, graph.ranks) << name;
  }
}

TEST(GraphJson, KeepsTheSampleOfTheFirstVersion) {
  const Graph graph = sample("two-sockets.json");
  EXPECT_EQ(hash_of(graph), hash_of(sample("hwloc-2-sockets.xml")));
}

TEST(GraphJson, NamesTheLineOfAFault) {
  const std::string head = kHead;
  EXPECT_EQ(refusal("{}"), "file:1: \"format\" is not \"tutti-topology\"");
  EXPECT_EQ(refusal("{\"format\":\"tutti-topology\",\"version\":2}"),
            "file:1: \"version\" is not 1, the only one that is known");
  EXPECT_EQ(refusal(head + "\"links\": []}"), "file:1: there is no list \"nodes\"");
  EXPECT_EQ(refusal(head + "\"nodes\": [\n{\"kind\":\"host\"},\n{\"kind\":\"hut\"}],\n\"links\": []}"),
            "file:4: there is no kind \"hut\"");
  EXPECT_EQ(refusal(head + "\"nodes\": [\n{\"kind\":\"gpu\"}],\n\"links\": []}"),
            "file:3: node 0 (gpu) lies in no other node");
  EXPECT_EQ(refusal(head + "\"nodes\": [\n{\"kind\":\"host\"}\n,{\"kind\":\"core\",\"in\":1}],\n\"links\": []}"),
            "file:4: node 1 (core) comes before the node that it lies in");
  EXPECT_EQ(
      refusal(head +
              "\"links\": [\n{\"kind\":\"pci\",\"a\":0,\"b\":1,\"gbps\":1}],\n\"nodes\": [\n{\"kind\":\"host\"}]}"),
      "file:3: link 0 (pci) has an end that is no node");
  EXPECT_EQ(refusal(head + "\"nodes\": [\n{\"kind\":\"host\",\"port\":\"wide\"}],\n\"links\": []}"),
            "file:3: \"port\" is not a number that is 0 or more");
  EXPECT_EQ(refusal(head + "\"nodes\": [\n{\"kind\":\"host\",\"processors\":\"9-1\"}],\n\"links\": []}"),
            "file:3: \"processors\": '9-1' is not a list of processors");
  EXPECT_EQ(refusal(head + "\"nodes\": [{\"kind\":\"host\"}], \"links\": [], \"ranks\": [7]}"),
            "file:1: rank 0 is on a node that there is not");
  EXPECT_EQ(refusal(head + "\"nodes\": [\n{\"kind\" \"host\"}]}").substr(0, 7), "file:3:");
  EXPECT_EQ(refusal("{\"format\":\"tutti-topology\",\"version\":1,\"nodes\":[[[[[[[[[[]]]]]]]]]]}"),
            "file:1: nested deeper than 8");
}

TEST(GraphJson, RefusesFiguresThatNoLinkHas) {
  std::string nodes(kHead);
  nodes += "\"nodes\":[{\"kind\":\"host\"},{\"kind\":\"gpu\",\"in\":0}],\"links\":[";
  const auto link = [&](const std::string& fields) {
    return refusal(nodes + "{\"kind\":\"pci\",\"a\":0,\"b\":1," + fields + "}]}");
  };
  EXPECT_EQ(link("\"gbps\":1"), "");
  EXPECT_NE(link("\"gbps\":0"), "");
  EXPECT_NE(link("\"gbps\":-1"), "");
  EXPECT_NE(link("\"gbps\":1e999"), "");
  EXPECT_NE(link("\"gbps\":1,\"us\":-1"), "");
  EXPECT_NE(link("\"gbps\":1,\"width\":0"), "");
}

}  // namespace
}  // namespace tutti::topo
