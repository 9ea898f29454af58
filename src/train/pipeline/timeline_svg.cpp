#include "tutti/train/timeline.hpp"
namespace tutti::train {}
