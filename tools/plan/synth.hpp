// tutti plan synth: a plan made for a machine, its bound, and its time beside the catalogue's.
#pragma once

#include <CLI/CLI.hpp>

namespace tutti::tools {

void add_synth(CLI::App& plan);

}  // namespace tutti::tools
