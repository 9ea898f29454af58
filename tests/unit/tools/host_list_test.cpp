// Lists of hosts: --hosts, and host files in the formats of others.
#include "tools/run/host_list.hpp"

#include <gtest/gtest.h>

#include "tutti/error.hpp"

namespace tutti::tools {
namespace {

/// "a:2 b": names, with slots where they were given.
std::string written(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts) {
    text += (text.empty() ? "" : " ") + host.name + (host.slots ? ":" + std::to_string(*host.slots) : "");
  }
  return text;
}

std::string refusal(const std::string& hosts) {
  try {
    return "accepted: " + written(parse_hosts(hosts));
  } catch (const Error& error) {
    return error.what();
  }
}

std::string file_refusal(const std::string& text) {
  try {
    return "accepted: " + written(parse_host_file(text, "file"));
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(HostList, HasNamesAndSlots) {
  EXPECT_EQ(written(parse_hosts("a,b:4,user@c.example.org:2")), "a b:4 user@c.example.org:2");
}

TEST(HostList, ExpandsRangesAsSlurmWritesThem) {
  EXPECT_EQ(written(parse_hosts("node[08-11,20]:8,x")), "node08:8 node09:8 node10:8 node11:8 node20:8 x");
  EXPECT_EQ(written(parse_hosts("n[1-2]-ib,m[7]")), "n1-ib n2-ib m7");
  for (const char* const wrong : {"n[", "n[]", "n[2-1]", "n[1-]", "n[x]", "n[1-2][3]", "n[1-99999]", "n[1,,2]",
                                  "n[1-4294967296]", "n[0000000001]"}) {
    EXPECT_NE(refusal(wrong).find("write ranges as node[1-4,7]"), std::string::npos) << wrong << ": " << refusal(wrong);
  }
}

TEST(HostList, RefusesWhatIsNoHost) {
  for (const char* const wrong : {"a,,b", "-oProxyCommand=x", "a b", "b@c@d:1", "a@", "a\nb", ",", "a]"}) {
    EXPECT_NE(refusal(wrong).find("is not a host"), std::string::npos) << wrong << ": " << refusal(wrong);
  }
  EXPECT_NE(refusal("a:0").find("from 1 to 65536"), std::string::npos);
  EXPECT_NE(refusal("a:1x").find("from 1 to 65536"), std::string::npos);
  EXPECT_EQ(refusal("a,b,a:2"), "--hosts: a is listed twice; write a:2 for two ranks");
  EXPECT_NE(refusal("@/no/such/file").find("the host file /no/such/file cannot be read: No such file"),
            std::string::npos);
}

TEST(HostFile, IsReadAsOpenMpiAndMpichWriteIt) {
  const std::string text =
      "# two racks\n\na slots=4 max_slots=8\n  b:2   # the old one\r\nc\tslots=1\nd\nrack[1-2] slots=3\n";
  EXPECT_EQ(written(parse_host_file(text, "file")), "a:4 b:2 c:1 d rack1:3 rack2:3");
}

TEST(HostFile, MayNameAHostForEachSlot) {
  EXPECT_EQ(written(parse_host_file("a\nb\na\na\nb", "file")), "a:3 b:2");
  EXPECT_EQ(written(parse_host_file("a slots=2\na slots=3", "file")), "a:5");
}

TEST(HostFile, NamesTheLineThatIsWrong) {
  EXPECT_EQ(file_refusal("a\n\nb cores=4\n"),
            "file:3: \"cores=4\" after the host is not known; write name, name:4 or name slots=4");
  EXPECT_NE(file_refusal("a slots=0").find("file:1: \"a slots=0\": the number of slots must be from 1"),
            std::string::npos);
  EXPECT_NE(file_refusal("a\n-x").find("file:2: \"-x\" is not a host"), std::string::npos);
  EXPECT_EQ(file_refusal("# nothing\n\n"), "file: there is no host in this file");
  EXPECT_EQ(file_refusal(std::string("a\0b", 3)).rfind("file:1: ", 0), 0U);
}

}  // namespace
}  // namespace tutti::tools
