// Requests and streams that wait: how many of them a peer can cause.
#include "control/services.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <vector>

#include "base/limits.hpp"

namespace tutti::control {
namespace {

/// Lowers this process's limit on descriptors during its life.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t few) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit{few, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

/// The near end of a connection; the far end is closed, which nobody notices.
struct Connection {
  Connection() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    near = Fd(ends[0]);
    far = Fd(ends[1]);
  }
  Fd near, far;
};

constexpr rlim_t kFew = 100;

/// Parks connections by `park` until it refuses one.
size_t parked_by(const std::function<void(Fd&)>& park) {
  size_t count = 0;
  try {
    for (; count < 1000; ++count) {
      Connection connection;
      EXPECT_TRUE(connection.near) << "no descriptor is left";
      if (!connection.near) break;
      park(connection.near);
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::SystemError);
    EXPECT_NE(std::string(error.what()).find("ulimit -n"), std::string::npos) << error.what();
  }
  return count;
}

TEST(Services, ParkedConnectionsLeaveTheProcessHalfOfItsDescriptors) {
  const FewDescriptors few(kFew);
  Streams streams;
  Services services([](Rank, int) {});
  EXPECT_EQ(parked_by([&](Fd& fd) { streams.park(0, "x", fd); }), kFew / 2);
  EXPECT_EQ(parked_by([&](Fd& fd) { services.answer({1, 0, "x", ""}, fd); }), 0u) << "they have the same share";
  EXPECT_TRUE(streams.take(0, "x"));
  EXPECT_EQ(parked_by([&](Fd& fd) { services.answer({1, 0, "x", ""}, fd); }), 1u);
  services.close();
  EXPECT_EQ(parked_by([&](Fd& fd) { streams.park(0, "x", fd); }), 1u);
}

TEST(Services, EndedOnesGiveTheirShareBack) {
  const FewDescriptors few(kFew);
  for (int time = 0; time < 3; ++time) {
    Streams streams;
    EXPECT_EQ(parked_by([&](Fd& fd) { streams.park(0, "x", fd); }), kFew / 2);
  }
}

}  // namespace
}  // namespace tutti::control
