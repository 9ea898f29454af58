#include "base/printable.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Printable, KeepsText) {
  for (const char* text : {"", "rank 1 is gone", "Größe 3 µs → 2 µs", "日本", "😀"}) EXPECT_EQ(printable(text), text);
}

TEST(Printable, ReplacesWhatControlsATerminal) {
  EXPECT_EQ(printable("\x1b[2Jgone\x07\x7f"), "?[2Jgone??");
  EXPECT_EQ(printable("two\nlines\tand a tab\r"), "two lines and a tab?");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "?31m");  // one of Latin-1's control characters
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "reversed"),
            "?reversed");
}

TEST(Printable, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(printable("\xff\xfe"), "??");
  EXPECT_EQ(printable("\xc3"), "?");                 // cut off
  EXPECT_EQ(printable("\xc0\xaf"), "??");            // longer than needed
  EXPECT_EQ(printable("\xed\xa0\x80"), "???");       // half of a pair of UTF-16
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "????");  // beyond Unicode
  EXPECT_EQ(printable("a\xe2\x82x"), "a??x");
}

}  // namespace
}  // namespace tutti
