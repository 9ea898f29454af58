// Endpoints whose ranks are threads of this process.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control/endpoint.hpp"

namespace tutti::control {

using Endpoints = std::vector<std::unique_ptr<Endpoint>>;

inline Deadline soon() { return Deadline::in(30); }

/// Runs `body(rank)` on a thread for each rank.
template <class Body>
void on_all(Rank n, const Body& body) {
  std::vector<std::thread> threads;
  for (Rank r = 0; r < n; ++r) {
    threads.emplace_back([&body, r] {
      try {
        body(r);
      } catch (const Error& error) {
        ADD_FAILURE() << "rank " << r << ": " << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

inline Endpoints join_all(const UniqueId& id, Rank n) {
  Endpoints all(static_cast<size_t>(n));
  on_all(n, [&](Rank r) {
    all[static_cast<size_t>(r)] = Endpoint::join(id, n, r, "info of " + std::to_string(r), soon());
  });
  return all;
}

inline void leave_all(Endpoints& all, uint64_t calls = 1) {
  for (size_t i = 0; i < all.size(); ++i) {
    const LeaveResult result = all[i]->leave(calls, soon());
    EXPECT_EQ(result.mismatch, "");
    if (i + 1 == all.size()) {
      EXPECT_TRUE(result.complete);
    }
  }
}

inline std::optional<Error> error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

#define EXPECT_ERROR(action, expected_code, words)                                         \
  do {                                                                                     \
    const auto error = error_of([&] { action; });                                          \
    ASSERT_TRUE(error) << "no error";                                                      \
    EXPECT_EQ(error->code(), expected_code) << error->what();                              \
    EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << error->what(); \
  } while (false)

}  // namespace tutti::control
