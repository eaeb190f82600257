// Runs every story, or those whose name holds the argument: build/sanitized/unit [WORDS]
#include <exception>

#include "harness.hpp"

int main(int argc, char** argv) {
    std::string_view wanted = argc > 1 ? argv[1] : "";
    int told = 0, failed = 0;
    for (const auto& [name, tell] : unit::stories) {
        if (std::string_view(name).find(wanted) == std::string_view::npos) continue;
        ++told;
        int before = unit::failures;
        try {
            tell();
        } catch (const std::exception& e) {
            unit::expect(false, name, 0, std::string("stopped by: ") + e.what());
        } catch (...) {
            unit::expect(false, name, 0, "stopped by an exception of another kind");
        }
        if (unit::failures == before) continue;
        ++failed;
        std::fprintf(stderr, "FAILED: %s\n", name);
    }
    std::printf("%d stories of the core, %d failed\n", told, failed);
    return failed > 0 || told == 0;
}
