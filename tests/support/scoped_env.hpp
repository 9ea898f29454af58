// An environment variable for the length of a test: set (or removed), and Tutti's reading of it with it.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

#include "base/env.hpp"

namespace tutti::test {

/// Call while no other thread runs. When the value cannot be used the constructor throws, with the variable put back.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    put(value);
    try {
      reload_env();
    } catch (...) {
      put(old_);
      throw;
    }
  }
  ~ScopedEnv() {
    put(old_);
    reload_env();
  }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  void put(const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name_.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }

  std::string name_;
  std::optional<std::string> old_;
};

}  // namespace tutti::test
