#include "core/bindings/bind.hpp"

namespace chakra::bind {

void schedule(nb::module_&) {}

}  // namespace chakra::bind
