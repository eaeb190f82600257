// The extension module chakrakit.core: arrays in, arrays out.
#include "core/bindings/bind.hpp"
#include "core/error.hpp"

namespace chakra::bind {
void astra(nb::module_& m);
void codec(nb::module_& m);
void feeder(nb::module_& m);
void graph(nb::module_& m);
void live_programs(nb::module_& m);
void perfetto(nb::module_& m);
void pytorch(nb::module_& m);
void schedule(nb::module_& m);
void serving(nb::module_& m);
void sim(nb::module_& m);
void ways(nb::module_& m);
}  // namespace chakra::bind

NB_MODULE(core, m) {
    static PyObject* format_error =
        PyErr_NewException("chakrakit.core.FormatError", PyExc_ValueError, nullptr);
    m.attr("FormatError") = nb::handle(format_error);
    nb::register_exception_translator([](const std::exception_ptr& p, void*) {
        try {
            std::rethrow_exception(p);
        } catch (const chakra::FormatError& e) {
            // args = (message, byte offset or -1): Python adds the file's name.
            // A message may quote the file, whose bytes need not be UTF-8.
            std::string_view said = e.what();
            nb::object text = nb::steal(
                PyUnicode_DecodeUTF8(said.data(), static_cast<Py_ssize_t>(said.size()), "replace"));
            nb::object args = nb::make_tuple(text, e.offset());
            PyErr_SetObject(format_error, args.ptr());
        }
    });
    chakra::bind::astra(m);
    chakra::bind::codec(m);
    chakra::bind::feeder(m);
    chakra::bind::graph(m);
    chakra::bind::live_programs(m);
    chakra::bind::perfetto(m);
    chakra::bind::pytorch(m);
    chakra::bind::schedule(m);
    chakra::bind::serving(m);
    chakra::bind::sim(m);
    chakra::bind::ways(m);
}
