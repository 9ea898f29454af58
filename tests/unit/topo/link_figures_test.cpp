#include "topo/link_figures.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tutti::topo {
namespace {

TEST(LinkFigures, HaveASourceEach) {
  std::set<std::string> names;
  for (const LinkFigureInfo& row : link_figure_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GT(std::string(row.source).size(), 10u) << row.name;
    EXPECT_FALSE(std::string(row.meaning).empty()) << row.name;
    EXPECT_TRUE(row.figure.gbps > 0 || row.figure.us > 0) << row.name;
  }
}

TEST(LinkFigures, ReadEverySpellingOfPcieSpeeds) {
  EXPECT_EQ(parse_gts("16 GT/s"), 16);
  EXPECT_EQ(parse_gts("16.0 GT/s PCIe"), 16);
  EXPECT_EQ(parse_gts("2.5 GT/s"), 2.5);
  EXPECT_EQ(parse_gts("64.0 GT/s PCIe"), 64);
  for (const char* odd : {"", "Unknown speed", "Unknown", "16", "GT/s", "-8 GT/s", "nan GT/s", "1e9 GT/s", "0 GT/s"}) {
    EXPECT_EQ(parse_gts(odd), 0) << odd;
  }
}

TEST(LinkFigures, OfPcieAreThoseOfNccl) {
  EXPECT_DOUBLE_EQ(pci_link(1, 0, NodeKind::Gpu, 8, 16).gbps, 12);
  EXPECT_DOUBLE_EQ(pci_link(1, 0, NodeKind::Gpu, 32, 16).gbps, 48);
  EXPECT_DOUBLE_EQ(pci_link(1, 0, NodeKind::Gpu, 2.5, 1).gbps, 0.234375);
  const Link unknown = pci_link(1, 0, NodeKind::Gpu, 0, 0);
  EXPECT_DOUBLE_EQ(unknown.gbps, 12);
  EXPECT_TRUE(unknown.assumed);
  EXPECT_TRUE(pci_link(1, 0, NodeKind::Gpu, 16, 0).assumed);
  EXPECT_NEAR(pci_link_of_rate(1, 0, NodeKind::Gpu, 63.015385).gbps, 48, 0.01);
  EXPECT_TRUE(pci_link_of_rate(1, 0, NodeKind::Gpu, 0).assumed);
}

TEST(LinkFigures, TellGenerationsApart) {
  EXPECT_EQ(socket_figure({"AuthenticAMD", "x86_64", 25, 1}).gbps, figures::socket_amd.gbps);
  EXPECT_EQ(socket_figure({"GenuineIntel", "x86_64", 6, 0x4f}).gbps, figures::socket_intel_broadwell.gbps);
  EXPECT_EQ(socket_figure({"GenuineIntel", "x86_64", 6, 0x6a}).gbps, figures::socket_intel_skylake.gbps);
  EXPECT_EQ(socket_figure({"GenuineIntel", "x86_64", 6, 143}).gbps, figures::socket_intel_sapphire_rapids.gbps);
  EXPECT_EQ(socket_figure({"GenuineIntel", "x86_64", 6, 207}).gbps, figures::socket_intel_emerald_rapids.gbps);
  EXPECT_EQ(socket_figure({"", "ppc64le"}).gbps, figures::socket_power9.gbps);
  EXPECT_EQ(socket_figure({}).gbps, figures::socket_other.gbps);
  EXPECT_EQ(nvlink_figure(0).gbps, nvlink_figure(80).gbps);
  EXPECT_EQ(nvlink_figure(86).gbps, figures::nvlink_sm86.gbps);
  EXPECT_EQ(nvlink_figure(89).gbps, figures::nvlink_sm80.gbps);
  EXPECT_EQ(nvlink_figure(103).gbps, figures::nvlink_sm100.gbps);
}

}  // namespace
}  // namespace tutti::topo
