#include "base/bytes.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Bytes, AreReadWithAndWithoutAUnit) {
  EXPECT_EQ(parse_bytes("8")->value, 8u);
  EXPECT_EQ(parse_bytes("0")->value, 0u);
  EXPECT_EQ(parse_bytes("12b")->value, 12u);
  EXPECT_EQ(parse_bytes("4K")->value, 4096u);
  EXPECT_EQ(parse_bytes("64MiB")->value, 64u << 20);
  EXPECT_EQ(parse_bytes("2gb")->value, 2ull << 30);
  EXPECT_EQ(parse_bytes("1T")->value, 1ull << 40);
}

TEST(Bytes, RefuseWhatIsNotANumberOfBytes) {
  for (const char* text : {"", "K", "-1", "1.5K", "8 K", " 8", "8KK", "8KiBs", "8X", "0x10", "+4", "\n8", "8\n"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
}

TEST(Bytes, RefuseWhatDoesNotFit) {
  EXPECT_EQ(parse_bytes("18446744073709551615")->value, UINT64_MAX);
  EXPECT_FALSE(parse_bytes("18446744073709551616"));
  EXPECT_EQ(parse_bytes("16777215T")->value, 16777215ull << 40);
  EXPECT_FALSE(parse_bytes("16777216T"));
}

TEST(Bytes, ArePrintedInTheShortestExactForm) {
  for (const char* text : {"0", "8", "1K", "1536", "64M", "3G", "1025T"}) {
    EXPECT_EQ(to_text(*parse_bytes(text)), text);
  }
  EXPECT_EQ(to_text(Bytes{1ull << 50}), "1024T");
}

}  // namespace
}  // namespace tutti
