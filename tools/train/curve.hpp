// The learning curve as a picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::tools {

/// An SVG of the loss in bits a byte over the steps `first`, `first` + 1, …
std::string learning_curve(const std::vector<double>& bits, int64_t first, const std::string& title);

}  // namespace tutti::tools
