#include "core/bindings/bind.hpp"

namespace chakra::bind {

void codec(nb::module_&) {}

}  // namespace chakra::bind
