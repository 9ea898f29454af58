// What tests of the C++ interface share: ranks as threads, errors, and what compiles.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti {

/// Runs `body` on each of `n` ranks, on a thread of its own.
inline void with_ranks(int n, const std::function<void(Communicator&)>& body) {
  auto comms = Communicator::all_local(n);
  std::vector<std::thread> threads;
  for (Communicator& comm : comms) {
    threads.emplace_back([&] {
      body(comm);
      EXPECT_NO_THROW(comm.close());
    });
  }
  for (auto& thread : threads) thread.join();
}

/// The text of the Error with this code that `call` throws.
inline std::string words(Code code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown where " << name_of(code) << " was expected";
  return "";
}

template <class In, class Out>
concept CanReduce = requires(Communicator& comm, In&& in, Out&& out) {
  comm.all_reduce(std::forward<In>(in), std::forward<Out>(out));
};
template <class Data>
concept CanBroadcast = requires(Communicator& comm, Data&& data) {
  comm.broadcast(std::forward<Data>(data), 0);
};

}  // namespace tutti
