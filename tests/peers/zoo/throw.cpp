#include <stdexcept>

extern "C" void zoo_throw() {
  throw std::runtime_error("across the border");
}
