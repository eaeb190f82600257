#include "core/bindings/bind.hpp"

namespace chakra::bind {

void feeder(nb::module_&) {}

}  // namespace chakra::bind
