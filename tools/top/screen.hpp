// A terminal that shows a page again and again, and reads single keys.
#pragma once

#include <termios.h>

#include <cstddef>
#include <string>

namespace tutti::tools {

class Screen {
 public:
  /// Keys are read without Enter and without echo, on a screen of its own, until the destructor, or a signal that ends
  /// the process, puts the terminal back. Does nothing if the standard output is no terminal.
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool is_terminal() const { return is_terminal_; }
  size_t width() const;   ///< columns; of no terminal: as many as a line has
  size_t height() const;  ///< lines; 0: no limit
  void show(const std::string& text) const;
  /// The next key within `seconds`; 0: none has come.
  char key(double seconds) const;

 private:
  const bool is_terminal_;
  bool reads_keys_ = false;
};

}  // namespace tutti::tools
