#include "base/port_range.hpp"

#include <gtest/gtest.h>

#include "base/socket.hpp"
#include "tutti/error.hpp"

namespace tutti {
namespace {

TEST(PortRange, IsRead) {
  const PortRange range = parse_port_range("20000-20063");
  EXPECT_EQ(range.first, 20000);
  EXPECT_EQ(range.last, 20063);
}

TEST(PortRange, NamesTheWayToWriteOne) {
  for (const char* text : {"", "20000", "20000-", "-20000", "0-5", "20000-20000", "20001-20000", "1-65536", "a-b",
                           "20000-20063 ", "20000-20063-20100", "20000,20063"}) {
    try {
      parse_port_range(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::InvalidArgument);
      EXPECT_NE(std::string(error.what()).find("20000-20063"), std::string::npos) << error.what();
    }
  }
}

TEST(PortRange, EachListenerTakesTheNextFreePort) {
  // Two neighbouring ports that are free now.
  uint16_t first = 0;
  for (int attempt = 0; attempt < 100 && first == 0; ++attempt) {
    const Fd one = listen_tcp(0);
    const uint16_t port = port_of(one.get());
    try {
      if (port < 65535) listen_tcp(static_cast<uint16_t>(port + 1));
      first = port;
    } catch (const Error&) {
    }
  }
  ASSERT_NE(first, 0);
  const auto last = static_cast<uint16_t>(first + 1);
  const Fd a = listen_tcp(first, last), b = listen_tcp(first, last);
  EXPECT_EQ(port_of(a.get()), first);
  EXPECT_EQ(port_of(b.get()), last);
  try {
    listen_tcp(first, last);
    ADD_FAILURE() << "there is no third port";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::SystemError);
    EXPECT_NE(std::string(error.what()).find("TUTTI_PORTS"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tutti
