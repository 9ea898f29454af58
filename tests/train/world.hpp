// Ranks as threads of this process, and a text to learn: what tests of the training layer share.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tutti/train/data.hpp"
#include "tutti/tutti.hpp"

namespace tutti::train {

/// Runs `body` as each of `ranks` ranks. The first error aborts the others, and is thrown here.
inline void run_world(int ranks, const std::function<void(Communicator&)>& body) {
  std::vector<Communicator> world = Communicator::all_local(ranks);
  std::vector<std::exception_ptr> errors(world.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < world.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        body(world[i]);
        world[i].close();
      } catch (...) {
        errors[i] = std::current_exception();
        if (!world[i].empty()) tuttiCommAbort(world[i].handle());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// 20 kB that can be learnt: sums, written out.
inline Corpus sample_text() {
  std::string text;
  for (int i = 0; text.size() < 20000; ++i) {
    const int a = i * 37 % 100, b = i * 53 % 100;
    text += std::to_string(a) + " plus " + std::to_string(b) + " is " + std::to_string(a + b) + ".\n";
  }
  return Corpus(text, "sums");
}

}  // namespace tutti::train
