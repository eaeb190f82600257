#include "core/bindings/bind.hpp"

namespace chakra::bind {

void graph(nb::module_&) {}

}  // namespace chakra::bind
