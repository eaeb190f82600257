#include "core/bindings/bind.hpp"

namespace chakra::bind {

void astra(nb::module_&) {}

}  // namespace chakra::bind
