// -o FILE: the same option for all commands that write a file. (That of `tutti perf` is nccl-tests' operator.)
//
// "-" is the standard output, in place of the text, where one kind of file is written at the end. Where the ending
// decides what is written, it has none, and where a file is written beside the text (OutputFile), it is refused.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/output_file.hpp"

namespace tutti::tools {

struct OutputKind {
  std::string ending;  ///< ".svg"
  std::string what;    ///< "a picture", for --help
  std::string* path;   ///< set to the file that is named; must outlive the parsing
};

/// Adds -o to `command`: the file's ending says which of `kinds` is written.
inline CLI::Option* add_output(CLI::App& command, const std::vector<OutputKind>& kinds) {
  std::string all;
  for (const OutputKind& kind : kinds) all += (all.empty() ? "FILE" : ", FILE") + kind.ending + " " + kind.what;
  const auto take = [kinds, all](const std::string& file) {
    if (file == kStandardOutput && kinds.size() == 1) {
      *kinds.front().path = file;
      return;
    }
    if (file == kStandardOutput)
      throw CLI::ValidationError("-o -", "an ending says what is written, and - has none: " + all);
    for (const OutputKind& kind : kinds) {
      if (!file.ends_with(kind.ending)) continue;
      *kind.path = file;
      return;
    }
    throw CLI::ValidationError("-o " + file, "its ending says what is written: " + all);
  };
  return command.add_option_function<std::string>("-o", take, "writes a file: " + all)->type_name("FILE");
}

}  // namespace tutti::tools
