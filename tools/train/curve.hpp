// The learning curve as a picture.
#pragma once

#include <string>
#include <vector>

namespace tutti::tools {

/// An SVG of the loss in bits a byte over the steps 1, 2, …
std::string learning_curve(const std::vector<double>& bits, const std::string& title);

}  // namespace tutti::tools
